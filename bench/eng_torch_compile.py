"""PyTorch through torch.compile."""

import eng_torch
import torch


class Engine(eng_torch.Engine):
    def version(self):
        return "torch.compile " + torch.__version__

    def compiled(self, function):
        return torch.compile(function, dynamic=False)
