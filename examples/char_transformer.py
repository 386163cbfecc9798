"""Trains a small transformer to write like a text, letter by letter, then lets it write:

python char_transformer.py examples/data/gpl-3.txt [STEPS]

Writing keeps the keys and values of earlier letters in memory of a fixed size; the position is a
tensor, so that one recorded program serves every letter.
"""

import argparse
import sys
from typing import BinaryIO

from aster_ml import Context, Tensor, TinyJit, dtypes, nn

WIDTH, HEADS, LAYERS, WINDOW, BATCH = 64, 4, 2, 64, 32
TEMPERATURE, WRITTEN = 0.5, 300


class Block:
    def __init__(self):
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def split(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values: [batch, heads, letters, WIDTH / HEADS]."""
        qkv = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        return [t.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for t in qkv]

    def join(self, x: Tensor, heads: Tensor) -> Tensor:
        x = x + self.out(heads.transpose(1, 2).reshape(*x.shape))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer:
    def __init__(self, letters: int):
        self.letter = nn.Embedding(letters, WIDTH)
        self.position = nn.Embedding(WINDOW, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def __call__(self, tokens: Tensor) -> Tensor:
        """What follows each letter of [batch, n]: logits [batch, n, letters]."""
        x = self.letter(tokens) + self.position(Tensor.arange(tokens.shape[1]))
        for block in self.blocks:
            q, k, v = block.split(x)
            x = block.join(x, q.scaled_dot_product_attention(k, v, is_causal=True))
        return self.head(self.norm(x))

    def follow(self, token: Tensor, position: Tensor, cache: Tensor) -> Tensor:
        """What follows the letter [1] at a position [1]: logits [letters]. cache, of LAYERS times
        keys and values, holds what came before; this letter's are added."""
        x = (self.letter(token) + self.position(position)).reshape(1, 1, WIDTH)
        seen = Tensor.arange(WINDOW) <= position
        for i, block in enumerate(self.blocks):
            q, k, v = block.split(x)
            cache[i, :, :, position] = Tensor.stack(k, v).reshape(2, HEADS, 1, -1)
            keys, values = cache[i, 0].unsqueeze(0), cache[i, 1].unsqueeze(0)
            x = block.join(x, q.scaled_dot_product_attention(keys, values, attn_mask=seen))
        return self.head(self.norm(x)).flatten()


def train(model: Transformer, text: Tensor, steps: int) -> tuple[float, float]:
    """The loss, in nats a letter, of the first step and at the end."""
    optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.003)

    @TinyJit
    @Context(TRAINING=1)
    def step() -> Tensor:
        starts = Tensor.randint(BATCH, 1, high=len(text) - WINDOW)
        letters = text[starts + Tensor.arange(WINDOW + 1)]
        optimizer.zero_grad()
        loss = model(letters[:, :-1]).sparse_categorical_crossentropy(letters[:, 1:]).backward()
        return loss.realize(*optimizer.schedule_step())

    first, mean = 0.0, 0.0
    for i in range(steps):
        loss = step().item()
        first, mean = (loss, loss) if i == 0 else (first, 0.95 * mean + 0.05 * loss)
        if i % 100 == 99:
            print(f"step {i + 1:4}, loss {mean:.3f} nats a letter")
    return first, mean


def write(model: Transformer, prompt: list[int], count: int) -> tuple[list[int], float]:
    """The prompt and count letters more, and how far the logits were from those without a cache."""
    width = WIDTH // HEADS
    cache = Tensor.zeros(LAYERS, 2, HEADS, WINDOW, width).contiguous().realize()

    @TinyJit
    def follow(token: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        logits = model.follow(token, position, cache)
        return logits.realize(), (logits / TEMPERATURE).softmax().multinomial().realize()

    written, window, fed = list(prompt), list(prompt), 0
    for _ in range(count):
        if len(window) > WINDOW:  # its second half begins the next one
            window, fed = window[-WINDOW // 2 :], 0
        for i in range(fed, len(window)):
            logits, drawn = follow(Tensor([window[i]]).realize(), Tensor([i]).realize())
        fed = len(window)
        letter = drawn.item()
        written.append(letter)
        window.append(letter)
    error = (model(Tensor([window[:fed]]))[0, -1] - logits).abs().max().item()
    return written, error


def main(file: BinaryIO, steps: int) -> int:
    Tensor.manual_seed(7)
    text = file.read().decode()
    letters = sorted(set(text))
    model = Transformer(len(letters))
    codes = [letters.index(c) for c in text]
    first, last = train(model, Tensor(codes, dtype=dtypes.int32).realize(), steps)
    written, error = write(model, codes[:32], WRITTEN)
    print("".join(letters[c] for c in written))
    print(f"with and without a cache, logits differ by {error:.1e} at most")
    return 0 if (steps < 2 or last < first) and error < 1e-3 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=argparse.FileType("rb"), help="examples/data/gpl-3.txt")
    parser.add_argument("steps", type=int, nargs="?", default=500)
    sys.exit(main(**vars(parser.parse_args())))
