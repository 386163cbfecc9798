#!/usr/bin/env python3
"""Scaled dot-product attention: what `default` takes, each form of the registry, torch and ONNX
Runtime on one thread, in interleaved turns of one process. A line a shape: milliseconds of CPU, the
peer's best over ours, and what the captured step of ours holds beside its inputs.

  PYTHONPATH=build/release/python PEERS_PYTHON bench/attention.py [--only TEXT] [--gradients]
    [--width BYTES] [--forms default,composed,tiled,streaming] [--profile] [--peers torch,ort]

--gradients: gradients of query, key and value in the step. --profile: kernels of each form with
their times. --width 32: vectors of AVX2, torch's and ONNX Runtime's stay as they are unless their
own switches (ATEN_CPU_CAPABILITY, ..) narrow them.
"""

import argparse
import statistics
import time

import numpy as np

from aster_ml import Tensor, TinyJit, _native, registry

SHAPES = [
    # name, heads, heads of keys, rows, columns, width, causal, mask
    *(
        (f"{heads}x{n}x{width}{' causal' if causal else ''}", heads, heads, n, n, width, causal, "")
        for heads in (12, 1)
        for width in (64, 128)
        for n in (64, 128, 256, 512, 1024, 2048, 4096)
        for causal in (False, True)
    ),
    *(
        (f"mask {kind} 12x{n}x64", 12, 12, n, n, 64, False, kind)
        for kind in ("bool", "float")
        for n in (128, 512, 2048)
    ),
    *((f"grouped 12/3x{n}x64 causal", 12, 3, n, n, 64, True, "") for n in (128, 512, 2048)),
    *(
        (f"decode {heads}/{of}x{n}x{width}", heads, of, 1, n, width, False, "")
        for heads, of in ((12, 12), (12, 3), (1, 1))
        for width in (64, 128)
        for n in (128, 512, 2048, 4096)
    ),
    *((f"odd 12x{n}x64 causal", 12, 12, n, n, 64, True, "") for n in (129, 500, 1000)),
]


def arrays(heads, of, rows, columns, width, kind):
    rng = np.random.default_rng(rows + columns)
    q = rng.standard_normal((1, heads, rows, width), dtype=np.float32)
    k, v = (rng.standard_normal((1, of, columns, width), dtype=np.float32) for _ in "kv")
    mask = None
    if kind:
        mask = rng.random((rows, columns)) < 0.8
        mask[:, 0] = True
        if kind == "float":
            mask = np.where(mask, rng.standard_normal(mask.shape), -1e9).astype(np.float32)
    return q, k, v, mask, rng.standard_normal((1, heads, rows, width), dtype=np.float32)


def ours(form, data, causal, grouped, gradients):
    q, k, v, mask, dy = (None if x is None else Tensor(x).realize() for x in data)

    def attend(q, k, v, dy):
        y = q.scaled_dot_product_attention(k, v, attn_mask=mask, is_causal=causal,
                                           enable_gqa=grouped)
        if not gradients:
            return y.realize()
        slopes = y.gradient(q, k, v, gradient=dy)
        Tensor.realize(y, *slopes)
        return slopes

    with registry.policies(attention=form):
        step = TinyJit(attend)
        for _ in range(3):
            out = step(q, k, v, dy)
    result = [x.numpy() for x in (out if gradients else [out])]
    return (lambda: step(q, k, v, dy)), result, step


def of_torch(data, causal, grouped, gradients):
    import torch

    torch.set_num_threads(1)
    q, k, v, mask, dy = (None if x is None else torch.from_numpy(x) for x in data)
    f = torch.nn.functional.scaled_dot_product_attention
    named = {"attn_mask": mask, "is_causal": causal, "enable_gqa": grouped}
    if not gradients:
        return torch.inference_mode()(lambda: [f(q, k, v, **named)])
    for x in (q, k, v):
        x.requires_grad_()
    return lambda: torch.autograd.grad(f(q, k, v, **named), (q, k, v), dy)


def of_ort(data, causal, grouped, gradients):
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    q, k, v, mask, _ = data
    if gradients or grouped:
        return None
    rows, columns = q.shape[2], k.shape[2]
    nodes = [("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "s", {}),
             ("Mul", "s scale", "t", {})]  # fmt: skip
    constants = {"scale": np.float32(q.shape[-1] ** -0.5)}
    if causal:
        constants["mask"] = np.triu(np.full((rows, columns), -np.inf, np.float32), 1)
    elif mask is not None:
        hidden = np.where(mask, 0, -np.inf).astype(np.float32) if mask.dtype == bool else mask
        constants["mask"] = hidden
    nodes.append(("Add", "t mask", "m", {}) if "mask" in constants else ("Identity", "t", "m", {}))
    nodes += [("Softmax", "m", "u", {"axis": -1}), ("MatMul", "u v", "out", {})]
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), [o], **named) for op, i, o, named in nodes],
        "attention",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
         for n, x in zip("qkv", (q, k, v))],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(x), n) for n, x in constants.items()],
    )  # fmt: skip
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feed = {"q": q, "k": k, "v": v}
    return lambda: session.run(None, feed)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--forms", default="default,composed,tiled,streaming")
    parser.add_argument("--peers", default="torch,ort")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.4)
    return parser.parse_args()


def profiled(run):
    from aster_ml import Context

    with Context(DEBUG=2):
        run()


def measure(given, shape):
    name, heads, of, rows, columns, width, causal, kind = shape
    data = arrays(heads, of, rows, columns, width, kind)
    calls, expected, notes = {}, None, {}
    makers = {"torch": of_torch, "ort": of_ort}
    for peer in filter(None, given.peers.split(",")):
        call = makers[peer](data, causal, heads != of, given.gradients)
        if call is not None:
            calls[peer] = call
            expected = expected or [x.detach().numpy() if peer == "torch" else x for x in call()]
    for form in given.forms.split(","):
        policy = form if form in ("default", "benchmark") else f"force={form}"
        try:
            begin = time.perf_counter()
            call, result, step = ours(policy, data, causal, heads != of, given.gradients)
            notes[form] = time.perf_counter() - begin
        except NotImplementedError:
            continue
        for got, wanted in zip(result, expected or []):
            worst = np.max(np.abs(got - wanted)) / max(1.0, np.max(np.abs(wanted)))
            if not worst < 1e-4:
                print(f"{name}: {form} is off by {worst:.1e}")
        calls[form] = call
        if given.profile:
            print(f"--- {name}: {form}", flush=True)
            profiled(call)
    times = {each: [] for each in calls}
    begin = time.perf_counter()
    while time.perf_counter() - begin < given.seconds or len(times[list(calls)[0]]) < 3:
        for each, call in calls.items():
            start = time.process_time()
            call()
            times[each].append(time.process_time() - start)
    ms = {each: statistics.median(t) * 1e3 for each, t in times.items()}
    peers = [ms[each] for each in ("torch", "ort") if each in ms]
    first = given.forms.split(",")[0]
    ratio = f"  best peer / {first} {min(peers) / ms[first]:.2f}" if peers and first in ms else ""
    made = "  made in " + " ".join(f"{t:.1f}" for t in notes.values()) + " s"
    print(f"{name:24}", "  ".join(f"{each} {t:.3f}" for each, t in ms.items()), ratio, made,
          flush=True)


def main():
    given = arguments()
    settings = {"threads": 1}
    if given.width:
        settings["vector_bytes"] = given.width
    _native.set_current(_native.context_init(settings))
    for shape in SHAPES:
        if all(word in shape[0].split(" ") or word in shape[0] for word in given.only.split("+")):
            measure(given, shape)


if __name__ == "__main__":
    main()
