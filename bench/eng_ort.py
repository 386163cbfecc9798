"""ONNX Runtime on models made here; inputs and results stay in its own values."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Nodes of a row: (operator, inputs, output, attributes). The last output is the result.
PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 dgemm_1024 gemv_4096 bmm_64x128".split()
CONVOLUTIONS = "conv3x3_n1c64 conv3x3_n8c128".split()


def resnet18():
    nodes = []

    def add(op, sources, **attributes):
        nodes.append((op, sources, f"t{len(nodes)}", attributes))
        return nodes[-1][2]

    def layer(x, name, stride, padding):
        return add("Conv", f"{x} {name}_w {name}_b", strides=[stride] * 2, pads=[padding] * 4)

    x = add("Relu", layer("x", "stem", 2, 3))
    x = add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage in range(4):
        for block in range(2):
            stride, name = (2 if stage > 0 and block == 0 else 1), f"s{stage}b{block}"
            y = layer(add("Relu", layer(x, name + "c1", stride, 1)), name + "c2", 1, 1)
            short = layer(x, name + "d", stride, 0) if stride == 2 else x
            x = add("Relu", add("Add", f"{y} {short}"))
    x = add("ReduceMean", f"{x} axes_hw", keepdims=0)
    nodes.append(("Gemm", f"{x} fc_w fc_b", "out", {}))
    return nodes


def gpt2(positions, attend):
    nodes = []

    def add(op, sources, **attributes):
        nodes.append((op, sources, f"t{len(nodes)}", attributes))
        return nodes[-1][2]

    def norm(x, name):
        return add("LayerNormalization", f"{x} {name}_g {name}_b", axis=-1, epsilon=1e-5)

    def linear(x, name):
        return add("Add", f"{add('MatMul', f'{x} {name}_w')} {name}_b")

    x = add("Add", f"{add('Gather', 'wte ids')} {positions}")
    for k in range(12):
        heads = add("Reshape", f"{linear(norm(x, f'{k}ln1'), f'{k}qkv')} shape_heads")
        q, key, v = (
            add("Transpose", add("Gather", f"{heads} index{i}", axis=2),
                perm=[0, 2, 3, 1] if i == 1 else [0, 2, 1, 3])
            for i in range(3)
        )
        y = add("Transpose", attend(add, k, q, key, v), perm=[0, 2, 1, 3])
        x = add("Add", f"{x} {linear(add('Reshape', f'{y} shape_rows'), f'{k}o')}")
        up = add("Gelu", linear(norm(x, f"{k}ln2"), f"{k}up"), approximate="tanh")
        x = add("Add", f"{x} {linear(up, f'{k}down')}")
    x = norm(add("Gather", f"{x} last", axis=1), "lnf")
    nodes.append(("MatMul", f"{x} wte_t", "out", {}))
    return nodes


def attend_causal(add, k, q, key, v):
    scores = add("Mul", f"{add('MatMul', f'{q} {key}')} scale")
    return add("MatMul", f"{add('Softmax', add('Add', f'{scores} mask'), axis=-1)} {v}")


def attend_cache(add, k, q, key, v):
    """Keys and values of 127 positions, then the new one's."""
    keys = add("Transpose", add("Gather", f"kc layer{k}", axis=0), perm=[0, 1, 3, 2])
    keys = add("Concat", f"{keys} {key}", axis=3)
    values = add("Concat", f"{add('Gather', f'vc layer{k}', axis=0)} {v}", axis=2)
    scores = add("Mul", f"{add('MatMul', f'{q} {keys}')} scale")
    return add("MatMul", f"{add('Softmax', scores, axis=-1)} {values}")


ROWS = {
    "add_16M": [("Add", "x y", "out", {})],
    "call": [("Add", "x y", "out", {})],
    "chain100": [("Add", f"{'x' if i == 0 else f'x{i}'} y", f"x{i + 1}", {}) for i in range(100)],
    "sum_16M": [("ReduceSum", "x", "out", {"keepdims": 0})],
    "gelu_fma_16M": [
        ("Mul", "x a", "xa", {}),
        ("Add", "xa b", "xab", {}),
        ("Gelu", "xab", "g", {"approximate": "tanh"}),
        ("Mul", "g c", "out", {}),
    ],
    "softmax_4096": [("Softmax", "x", "out", {"axis": 1})],
    "layernorm_4096x1024": [("LayerNormalization", "x g b", "out", {"axis": 1, "epsilon": 1e-5})],
    **{name: [("MatMul", "x y", "out", {})] for name in PRODUCTS},
    **{name: [("Conv", "x w b", "out", {"pads": [1, 1, 1, 1]})] for name in CONVOLUTIONS},
    "maxpool3s2": [
        ("MaxPool", "x", "out", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})
    ],
    "dwconv3x3": [("Conv", "x w b", "out", {"pads": [1, 1, 1, 1], "group": 128})],
    "cumsum_4096": [("CumSum", "x axis1", "out", {})],
    "gather_rows": [("Gather", "x i", "out", {})],
    "resnet18_b1": resnet18(),
    "gpt2_prefill128": gpt2("wpe", attend_causal),
    "gpt2_decode": gpt2("wpe", attend_cache),
    "argmax_4096": [("ArgMax", "x", "out", {"axis": 1, "keepdims": 0})],
    "transpose_4096": [("Transpose", "x", "out", {"perm": [1, 0]})],
    "permute_0213": [("Transpose", "x", "out", {"perm": [0, 2, 1, 3]})],
    "attention": [
        ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q kt", "s", {}),
        ("Mul", "s scale", "t", {}),
        ("Softmax", "t", "u", {"axis": -1}),
        ("MatMul", "u v", "out", {}),
    ],
    "attn_causal": [
        ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q kt", "s", {}),
        ("Mul", "s scale", "t", {}),
        ("Add", "t mask", "m", {}),
        ("Softmax", "m", "u", {"axis": -1}),
        ("MatMul", "u v", "out", {}),
    ],
    **{
        name: [
            node
            for i in range(3)
            for node in (
                ("MatMul", f"{'x' if i == 0 else f'r{i}'} w{i}", f"m{i}", {}),
                ("Add", f"m{i} b{i}", f"s{i}", {}),
                ("Relu", f"s{i}", f"r{i + 1}", {}),
            )
        ][:-1]
        for name in ("mlp_b1", "mlp_b128")
    },
}


def constants_of(name, inputs, parameters):
    """What the nodes of a row read beside its inputs."""
    constants = dict(parameters)
    if name in ("attention", "attn_causal") or name.startswith("gpt2"):
        constants["scale"] = np.float32(0.125)
    if name in ("attn_causal", "gpt2_prefill128"):
        length = inputs["q"].shape[2] if "q" in inputs else 128
        constants["mask"] = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    if name.startswith("gpt2"):
        length, at = (128, slice(0, 128)) if name == "gpt2_prefill128" else (1, slice(127, 128))
        constants.update(
            wpe=parameters["wpe"][at], wte_t=np.ascontiguousarray(parameters["wte"].T),
            shape_heads=np.array([1, length, 3, 12, 64]), shape_rows=np.array([1, length, 768]),
            last=np.int64(length - 1), **{f"index{i}": np.int64(i) for i in range(3)},
            **{f"layer{i}": np.array([i]) for i in range(12)})
    if name == "cumsum_4096":
        constants["axis1"] = np.int64(1)
    if name == "resnet18_b1":
        constants["axes_hw"] = np.array([2, 3])
    return constants


def model(name, inputs, parameters):
    nodes = [
        helper.make_node(op, sources.split(), [out], **attributes)
        for op, sources, out, attributes in ROWS[name]
    ]
    constants = constants_of(name, inputs, parameters)
    read = {source for _, sources, _, _ in ROWS[name] for source in sources.split()}
    types = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE,
             np.int64: TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(k, types[v.dtype.type], v.shape) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in read],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return made.SerializeToString()


class Engine:
    def __init__(self, threads):
        self.threads = threads

    def version(self):
        return "onnxruntime " + onnxruntime.__version__

    def build(self, name, inputs, parameters):
        if name not in ROWS:
            raise NotImplementedError("no row")
        if name == "gpt2_decode":
            inputs = {k: v[:, :, :127] if v.ndim == 4 else v for k, v in inputs.items()}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if name == "chain100":  # 100 kernels, as the row wants
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            model(name, inputs, parameters), options, providers=["CPUExecutionProvider"]
        )
        feeds = {
            k: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(v))
            for k, v in inputs.items()
        }
        outs = [out.name for out in session.get_outputs()]
        return lambda: session.run_with_ort_values(outs, feeds)[0]

    def to_np(self, result):
        return result.numpy()
