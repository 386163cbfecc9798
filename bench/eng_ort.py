"""ONNX Runtime on models made here; inputs and results stay in its own values."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Nodes of a row: (operator, inputs, output, attributes). The last output is the result.
PRODUCTS = "gemm_64 gemm_256 gemm_1024 bmm_64x128".split()
CONVOLUTIONS = "conv3x3_n1c64 conv3x3_n8c128".split()
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


def model(name, inputs, parameters):
    nodes = [
        helper.make_node(op, sources.split(), [out], **attributes)
        for op, sources, out, attributes in ROWS[name]
    ]
    constants = dict(parameters)
    if name == "attention":
        constants["scale"] = np.float32(0.125)
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
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
