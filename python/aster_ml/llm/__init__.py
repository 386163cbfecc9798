"""Files of language models, under tinygrad's path; its models and server are not offered."""

from ..absent import of_module

__getattr__ = of_module("llm")
