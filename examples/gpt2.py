"""Writes on from a text with GPT-2, or a network of its shape:

python gpt2.py FOLDER TEXT [TOKENS] [BITS] [TEMPERATURE]

FOLDER has what is published: model.safetensors and merges.txt. BITS are those of a weight: 32 (as
in the file, which is mapped), 8 or 4. TEMPERATURE 0 takes the likeliest token, always.
"""

import argparse
import pathlib
import re
import sys
import time

from aster_ml import Tensor, TinyJit, dtypes
from aster_ml.nn.state import safe_load

HEAD, GROUP, TOP = 64, 32, 40  # width of a head; inputs that share a scale; tokens to draw from


class Tokenizer:
    """Pairs of bytes. Tokens are numbered: first the bytes, those that print before the others,
    then what each line of merges.txt joins, then the end of a text."""

    WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, merges: pathlib.Path):
        printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in printed]
        letters = [*map(chr, printed), *(chr(256 + i) for i in range(len(others)))]
        byte = {letter: bytes([b]) for letter, b in zip(letters, printed + others)}
        self.tokens = list(byte.values())
        for line in merges.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#version"):
                self.tokens.append(b"".join(byte[c] for c in line.replace(" ", "")))
        self.numbers = {token: i for i, token in enumerate(self.tokens)}
        self.tokens.append(b"<|endoftext|>")

    def encode(self, text: str) -> list[int]:
        out = []
        for word in self.WORD.findall(text):
            parts = [bytes([b]) for b in word.encode()]
            while len(parts) > 1:  # of all neighbours, what was joined first is joined
                joined = [self.numbers.get(a + b, 1 << 30) for a, b in zip(parts, parts[1:])]
                at = min(range(len(joined)), key=joined.__getitem__)
                if joined[at] == 1 << 30:
                    break
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            out += [self.numbers[part] for part in parts]
        return out


class Linear:
    """x @ rows.T + bias, rows [outputs, inputs]. Of 8 bits they are int8, times a scale for every
    output; of 4 bits there is a scale for GROUP inputs, and two weights share a byte: the low four
    bits are of the first half of inputs."""

    def __init__(self, rows: Tensor, bias: Tensor | None, bits: int):
        self.rows, self.bias, self.bits = rows, bias, bits
        outputs, inputs = rows.shape
        if bits == 8:
            self.scale = (rows.abs().max(1) / 127).maximum(1e-20).realize()
            self.rows = (rows / self.scale.unsqueeze(1)).round().cast(dtypes.int8).realize()
        elif bits == 4:
            groups = rows.reshape(outputs, -1, GROUP)
            self.scale = (groups.abs().max(2, keepdim=True) / 7).maximum(1e-20).realize()
            low, high = ((groups / self.scale).round() + 8).cast(dtypes.uint8).chunk(2, 1)
            self.rows = (low + high * 16).realize()

    def __call__(self, x: Tensor) -> Tensor:
        if self.bits == 32:
            y = x @ self.rows.transpose()
        elif self.bits == 8:
            y = x @ self.rows.cast(dtypes.float32).transpose() * self.scale
        else:  # a sum of two products: unpacked weights are stored nowhere
            y = 0
            nibbles = (self.rows & 15), (self.rows >> 4)
            for part, nibble, scale in zip(x.chunk(2, -1), nibbles, self.scale.chunk(2, 1)):
                weights = (nibble.cast(dtypes.float32) - 8) * scale
                y = part @ weights.reshape(len(scale), -1).transpose() + y
        return y if self.bias is None else y + self.bias


class GPT2:
    def __init__(self, file: dict[str, Tensor], bits: int):
        file = {name.removeprefix("transformer."): tensor for name, tensor in file.items()}
        self.token, self.position = file["wte.weight"], file["wpe.weight"]
        self.window, self.width = self.position.shape
        self.heads = self.width // HEAD
        self.layers = sum(name.endswith(".ln_1.weight") for name in file)
        self.norms, self.linears = {}, {}
        for name, weight in file.items():
            key = name.removesuffix(".weight")
            if ".ln_" in f".{name}" and key != name:
                self.norms[key] = weight, file[f"{key}.bias"]
            elif name.startswith("h.") and key != name:  # published turned: [inputs, outputs]
                self.linears[key] = Linear(weight.transpose(), file[f"{key}.bias"], bits)
        self.linears["scores"] = Linear(self.token, None, bits)
        shape = (self.layers, 2, self.heads, self.window, HEAD)
        self.cache = Tensor.zeros(*shape).contiguous().realize()

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.norms[name]
        return x.layernorm(eps=1e-5) * weight + bias

    def attend(self, layer: int, x: Tensor, places: Tensor) -> Tensor:
        """What each of n tokens takes from those before it; their keys and values are kept."""
        qkv = self.linears[f"h.{layer}.attn.c_attn"](x)
        q, k, v = qkv.reshape(-1, 3, self.heads, HEAD).permute(1, 2, 0, 3).chunk(3)
        self.cache[layer, :, :, places] = k.cat(v)
        keys, values = self.cache[layer, 0].unsqueeze(0), self.cache[layer, 1].unsqueeze(0)
        seen = Tensor.arange(self.window) <= places.reshape(-1, 1)
        y = q.scaled_dot_product_attention(keys, values, attn_mask=seen)
        return y.squeeze(0).transpose(0, 1).reshape(-1, self.width)

    def __call__(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Scores [words] of what follows n tokens that stand at these places of the text."""
        x = self.token[tokens] + self.position[places]
        for i in range(self.layers):
            rows = self.attend(i, self.norm(f"h.{i}.ln_1", x), places)
            x = x + self.linears[f"h.{i}.attn.c_proj"](rows)
            rows = self.linears[f"h.{i}.mlp.c_fc"](self.norm(f"h.{i}.ln_2", x)).gelu()
            x = x + self.linears[f"h.{i}.mlp.c_proj"](rows)
        return self.linears["scores"](self.norm("ln_f", x[-1:])).flatten()


def draw(scores: Tensor, temperature: float) -> Tensor:
    """One of the TOP likeliest tokens."""
    if temperature == 0:
        return scores.argmax().reshape(1)
    values, tokens = scores.topk(TOP)
    return tokens[(values / temperature).softmax().multinomial()]


def main(folder: pathlib.Path, text: str, count: int, bits: int, temperature: float) -> int:
    Tensor.manual_seed(7)
    tokenizer = Tokenizer(folder / "merges.txt")
    model = GPT2(safe_load(folder / "model.safetensors"), bits)
    tokens = tokenizer.encode(text)
    if not 0 < len(tokens) <= model.window - count:
        sys.exit(f"{len(tokens)} tokens and {count} more do not fit into {model.window}")

    @TinyJit  # one program for every place: the place is a tensor
    def step(token: Tensor, place: Tensor) -> Tensor:
        return draw(model(token, place), temperature).realize()

    places = list(range(len(tokens)))
    drawn, begin = draw(model(Tensor(tokens), Tensor(places)), temperature), time.perf_counter()
    for place in range(len(tokens), len(tokens) + count):
        tokens.append(drawn.item())
        if place + 1 < len(places) + count:
            drawn = step(Tensor([tokens[-1]]).realize(), Tensor([place]).realize())
        if place == len(places) + 2:  # after the first ones the program is there
            begin = time.perf_counter()
    seconds = (time.perf_counter() - begin) / max(count - 4, 1)
    sys.stdout.buffer.write(b"".join(tokenizer.tokens[token] for token in tokens) + b"\n")
    print("tokens", *tokens)
    print(f"{seconds * 1e3:.1f} ms a token")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("count", type=int, nargs="?", default=40)
    parser.add_argument("bits", type=int, nargs="?", choices=(32, 8, 4), default=8)
    parser.add_argument("temperature", type=float, nargs="?", default=0.8)
    sys.exit(main(**vars(parser.parse_args())))
