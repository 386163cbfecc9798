"""Files that examples of models read, and what others say of them: ONNX Runtime where it is there,
else the reference of the package onnx; NumPy in float64 for the decoder."""

import json
import math
import os
import re
import sys

import numpy as np

HEAD = 64
TEXT = "The licenses of 10 programs aren't  free, but it's the GNU's.\n"


# ---- A network of GPT-2's shape ----


def byte_letters():
    """How merges.txt writes bytes: those that print as themselves."""
    letters, more = {}, 256
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
            letters[b] = chr(b)
    for b in range(256):
        if b not in letters:
            letters[b], more = chr(more), more + 1
    return letters


def words_of(text):
    """Pieces that tokens do not cross; the pattern of GPT-2 for ASCII."""
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
    return re.findall(pattern, text)


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        joined = word[i : i + 2] == pair
        out.append(word[i] + word[i + 1] if joined else word[i])
        i += 2 if joined else 1
    return out


def make_merges(text, count):
    """The pairs that are most frequent in a text, one after another."""
    letters, words = byte_letters(), {}
    for word in words_of(text):
        words[word] = words.get(word, 0) + 1
    pieces = [([letters[b] for b in word.encode()], n) for word, n in words.items()]
    merges = []
    for _ in range(count):
        pairs = {}
        for word, n in pieces:
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + n
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        pieces = [(merge(word, list(best)), n) for word, n in pieces]
    return merges


def encode(text, merges):
    """Every merge, in order, over every word."""
    letters = byte_letters()
    order = sorted(letters, key=lambda b: ord(letters[b]))
    names = [letters[b] for b in order] + ["".join(pair) for pair in merges]
    out = []
    for word in words_of(text):
        pieces = [letters[b] for b in word.encode()]
        for pair in merges:
            pieces = merge(pieces, list(pair))
        out += [names.index(piece) for piece in pieces]
    return out


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for x in tensors.values():
            file.write(x.tobytes())


def gpt2_weights(words, width=128, layers=2, window=64):
    rng, out = np.random.default_rng(5), {}

    def add(name, *shape, scale, mean=0.0):
        out[name] = (mean + scale * rng.standard_normal(shape)).astype(np.float32)

    add("wte.weight", words, width, scale=0.3)
    add("wpe.weight", window, width, scale=0.3)
    for i in range(layers):
        for norm in ("ln_1", "ln_2"):
            add(f"h.{i}.{norm}.weight", width, scale=0.2, mean=1)
            add(f"h.{i}.{norm}.bias", width, scale=0.2)
        rows = (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4))
        for name, ins, outs in (*rows, ("mlp.c_proj", 4, 1)):
            scale = 1.5 / math.sqrt(ins * width)
            add(f"h.{i}.{name}.weight", ins * width, outs * width, scale=scale)
            add(f"h.{i}.{name}.bias", outs * width, scale=0.1)
    add("ln_f.weight", width, scale=0.2, mean=1)
    add("ln_f.bias", width, scale=0.2)
    return out


def rounded(weight, bits):
    """A weight [inputs, outputs] as so many bits say it: a scale an output, or for 32 inputs."""
    if bits == 32:
        return weight.astype(np.float64)
    groups = weight.reshape(-1, 32 if bits == 4 else len(weight), len(weight[0]))
    scale = np.abs(groups).max(1, keepdims=True) / np.float32(127 if bits == 8 else 7)
    return (np.rint(groups / scale).astype(np.float64) * scale).reshape(weight.shape)


def gpt2_scores(weights, tokens, bits):
    """Scores of what follows each token, all at once."""
    linear = {}
    for name, x in weights.items():
        if name.startswith("h.") and name.endswith(".weight") and x.ndim == 2:
            linear[name[: -len(".weight")]] = rounded(x, bits)
    scores = rounded(np.ascontiguousarray(weights["wte.weight"].T), bits)
    wide = {name: x.astype(np.float64) for name, x in weights.items()}

    def norm(name, x):
        apart = x - x.mean(-1, keepdims=True)
        y = apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)
        return y * wide[name + ".weight"] + wide[name + ".bias"]

    def apply(name, x):
        return x @ linear[name] + wide[name + ".bias"]

    n, width = len(tokens), wide["wte.weight"].shape[1]
    x = wide["wte.weight"][tokens] + wide["wpe.weight"][:n]
    hidden = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(sum(name.endswith("ln_1.weight") for name in weights)):
        qkv = apply(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x))
        q, k, v = qkv.reshape(n, 3, width // HEAD, HEAD).transpose(1, 2, 0, 3)
        mixed = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD) + hidden
        mixed = np.exp(mixed - mixed.max(-1, keepdims=True))
        mixed = mixed / mixed.sum(-1, keepdims=True) @ v
        rows = mixed.transpose(1, 0, 2).reshape(n, width)
        x = x + apply(f"h.{i}.attn.c_proj", rows)
        y = apply(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + apply(f"h.{i}.mlp.c_proj", y)
    return norm("ln_f", x) @ scores


def gpt2(folder, data):
    """Files, and cases: arguments, and a check of the output."""
    with open(os.path.join(data, "gpl-3.txt"), encoding="utf-8") as file:
        merges = make_merges(file.read(), 250)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    words = 256 + len(merges) + 1
    weights = gpt2_weights(words)
    write_safetensors(os.path.join(folder, "model.safetensors"), weights)
    prompt, count = encode(TEXT, merges), 12

    def check(output, bits):
        tokens = [int(t) for t in re.search(r"\ntokens ([\d ]+)\n", output)[1].split()]
        if tokens[: len(prompt)] != prompt or len(tokens) != len(prompt) + count:
            return f"tokens {tokens}, of the text {prompt}"
        for i, scores in enumerate(gpt2_scores(weights, tokens, bits)[len(prompt) - 1 : -1]):
            got = scores[tokens[len(prompt) + i]]
            if got < scores.max() - 2e-3:
                return f"token {i}: {scores.max() - got} less likely than the best one"
        return None

    def drawn(output):
        tokens = [int(t) for t in re.search(r"\ntokens ([\d ]+)\n", output)[1].split()]
        after = tokens[len(prompt) :]
        rows = gpt2_scores(weights, tokens, 8)[len(prompt) - 1 : -1]
        places = [int((row > row[token] + 2e-3).sum()) for row, token in zip(rows, after)]
        return None if 0 < max(places) < 40 else f"drawn tokens have places {places}"

    for bits in (32, 8, 4):
        yield [".", TEXT, str(count), str(bits), "0"], lambda output, b=bits: check(output, b)
    yield [".", TEXT, str(count), "8", "2"], drawn


# ---- Networks in ONNX files ----


def graph(seed):
    """A builder of models, that of bench/onnx_models.py."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
    import onnx_models

    return onnx_models, onnx_models.Graph(seed)


def outputs_of(model, inputs):
    data = model.SerializeToString()
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, inputs)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def write_picture(folder, height, width):
    """Something smooth, with noise: [height, width, 3]."""
    rng = np.random.default_rng(8)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / a) * np.cos(y / b) for a, b in ((9, 23), (31, 7), (15, 15))]
    picture = np.stack(waves, -1) * 90 + 128 + rng.normal(0, 12, (height, width, 3))
    picture = np.clip(picture, 0, 255).astype(np.uint8)
    with open(os.path.join(folder, "picture.ppm"), "wb") as file:
        file.write(b"P6\n# a comment\n%d %d\n255\n" % (width, height) + picture.tobytes())
    return picture


def resized(picture, rows, columns):
    """[3, rows, columns] between neighbours, as networks get it from torch without antialiasing."""

    def along(size, wanted):
        at = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, size - 1), at - low

    x = picture.astype(np.float64).transpose(2, 0, 1)
    low, high, part = along(x.shape[1], rows)
    x = x[:, low] * (1 - part)[:, None] + x[:, high] * part[:, None]
    low, high, part = along(x.shape[2], columns)
    return x[:, :, low] * (1 - part) + x[:, :, high] * part


def classify(folder, _):
    onnx_models, _ = graph(0)
    model = onnx_models.resnet18()
    path = os.path.join(folder, "model.onnx")
    onnx_models.save(model, path)
    x = resized(write_picture(folder, 300, 400), 256, 341)[:, 16:240, 58:282] / 255
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    x = (x - mean[:, None, None]) / deviation[:, None, None]
    scores = outputs_of(model, {"x": x[None].astype(np.float32)})[0][0].astype(np.float64)
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    best = np.argsort(-chances)[:5]
    with open(os.path.join(folder, "names.txt"), "w", encoding="utf-8") as file:
        file.write("".join(f"thing {i}\n" for i in range(1000)))

    def check(output):
        rows = re.findall(r"([\d.]+) %  class (\d+) thing (\d+)\n", output)
        wanted = [(100 * chances[i], i) for i in best]
        for (chance, number, name), (likely, i) in zip(rows, wanted):
            error = abs(float(chance) - likely)
            if int(number) != i or int(name) != i or error > 1e-3 * likely + 1e-4:
                return f"{rows}, wanted {wanted}"
        return None if len(rows) == 5 else f"{len(rows)} rows"

    yield ["model.onnx", "picture.ppm", "names.txt"], check


def detector(size, classes):
    """A grid of 12 x 12 boxes that overlap, random scores."""
    onnx_models, g = graph(3)
    count = size // 8
    x = g.conv(g.conv("x", 16, 3, 3, 2), 32, 16, 3, 4)
    x = g.conv(x, 4 + classes, 32, 1, relu=None)
    x = g("Reshape", x, g.ints(1, 4 + classes, count * count))
    places = (np.mgrid[:count, :count][::-1].reshape(1, 2, -1) + 0.5) * 8
    middle, sides, scores = g("Split", x, g.ints(2, 2, classes), axis=1, outputs=3)
    middle = g("Add", g("Mul", g("Tanh", middle), g.array(9.0)), g.array(places))
    sides = g("Add", g("Mul", g("Sigmoid", sides), g.array(24.0)), g.array(10.0))
    scores = g("Sigmoid", g("Mul", scores, g.array(3.0)))
    y = g("Concat", middle, sides, scores, axis=1)
    f32 = onnx_models.F32
    shape = [1, 4 + classes, count * count]
    return onnx_models, g.model([("x", f32, [1, 3, size, size])], [(y, f32, shape)])


def suppressed(found, least, most_shared):
    """Numbers of the boxes that stay, by the operator NonMaxSuppression."""
    onnx_models, _ = graph(0)
    helper, f32, i64 = onnx_models.helper, onnx_models.F32, onnx_models.I64
    classes, count = len(found) - 4, found.shape[1]
    scores = np.where(np.arange(classes)[:, None] == found[4:].argmax(0), found[4:], 0)
    names = ["boxes", "scores", "most", "shared", "least"]
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=1)
    numbers = [("most", np.array([count])), ("shared", np.float32([most_shared]))]
    numbers.append(("least", np.float32([least])))
    made = helper.make_graph(
        [node],
        "suppress",
        [
            helper.make_tensor_value_info("boxes", f32, [1, count, 4]),
            helper.make_tensor_value_info("scores", f32, [1, classes, count]),
        ],
        [helper.make_tensor_value_info("y", i64, ["n", 3])],
        [onnx_models.numpy_helper.from_array(value, name) for name, value in numbers],
    )
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(made, opset_imports=opset, ir_version=9)
    inputs = {"boxes": found[None, :4].transpose(0, 2, 1), "scores": scores[None]}
    inputs = {name: np.ascontiguousarray(x, np.float32) for name, x in inputs.items()}
    return outputs_of(model, inputs)[0][:, 2]


def detect(folder, _):
    size, classes = 96, 3
    onnx_models, model = detector(size, classes)
    onnx_models.save(model, os.path.join(folder, "model.onnx"))
    x = np.full((3, size, size), 114 / 255)
    x[:, 16:80] = resized(write_picture(folder, 200, 300), 64, 96) / 255
    found = outputs_of(model, {"x": x[None].astype(np.float32)})[0][0]
    left = suppressed(found, 0.25, 0.45)
    left = sorted(left, key=lambda i: -found[4:, i].max())
    middle, sides = found[:2, left], found[2:4, left]
    boxes = np.concatenate([middle - sides / 2, middle + sides / 2])
    boxes = (boxes - np.array([0, 16, 0, 16])[:, None]) / 0.32

    def check(output):
        rows = re.findall(r"class (\d+) ([\d.]+)" + r" (-?[\d.]+)" * 4, output)
        rows = np.array(rows, float)
        if not 5 < len(left) < found.shape[1] / 2 or rows.shape != (len(left), 6):
            return f"{len(rows)} boxes, wanted {len(left)} of {found.shape[1]}"
        # Grey places give equal scores, in any order: for each box there is one of the rows.
        wanted = np.array([found[4:, left].argmax(0), found[4:, left].max(0), *boxes]).T
        errors = np.abs(rows[:, None] - wanted) / [0.5, 2e-4, 0.03, 0.03, 0.03, 0.03]
        error = errors.max(2).min(0).max()
        return f"errors {error} of what is allowed" if error > 1 else None

    yield ["model.onnx", "picture.ppm"], check


CASES = {"gpt2": gpt2, "classify": classify, "detect": detect}
