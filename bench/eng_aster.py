"""Our column: captured programs, through the ctypes binding.

The binding is ../tests/conformance/binding, or in the folder ASTER_PYTHON names; the library is
ASTER_ML_LIB (ASTER_LIB). Fits bench/report and any harness of this contract: Engine(threads),
version(), build(name, inputs, parameters) -> call, to_np(result).
"""

import ctypes
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.environ.get("ASTER_PYTHON", os.path.join(HERE, "..", "tests", "conformance")))
if "ASTER_LIB" in os.environ:
    os.environ.setdefault("ASTER_ML_LIB", os.environ["ASTER_LIB"])

from binding import Context, Tensor, library, realize  # noqa: E402
from binding.tensor import handles  # noqa: E402


def perceptron(p, x):
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = x.relu() if i < 2 else x
    return x


def conv(p, x):
    return x.conv2d(p["w"], p["b"], padding=1)


def chain(p, x, y):
    for _ in range(100):
        x = x + y
    return x


def chain_of_kernels(p, x, y):
    for _ in range(100):
        x = (x + y).realize()
    return x


def digits(p, x):
    x = x.conv2d(p["c0_w"], p["c0_b"], padding=1).relu().max_pool2d()
    x = x.conv2d(p["c1_w"], p["c1_b"], padding=1).relu().max_pool2d()
    return x.flatten(1) @ p["fc_w"].permute(1, 0) + p["fc_b"]


def conv_net(p, x):
    x = x.conv2d(p["c0_w"], p["c0_b"], padding=1).relu().max_pool2d()
    x = x.conv2d(p["c1_w"], p["c1_b"], padding=1).relu().max_pool2d()
    return x.flatten(1) @ p["fc_w"] + p["fc_b"]


PRODUCTS = "gemm_64 gemm_256 gemm_1024 gemm_4096 bmm_64x128 gemv_4096 dgemm_1024".split()
FUNCTIONS = {
    "add_16M": lambda p, x, y: x + y,
    "add_16M_out": lambda p, x, y: x + y,
    "sum_16M": lambda p, x: x.sum(),
    "gelu_fma_16M": lambda p, x, a, b, c: (x * a + b).gelu() * c,
    "softmax_4096": lambda p, x: x.softmax(),
    "layernorm_4096x1024": lambda p, x, g, b: x.layernorm(weight=g, bias=b),
    "argmax_4096": lambda p, x: x.argmax(1),
    **{name: (lambda p, x, y: x @ y) for name in PRODUCTS},
    "conv3x3_n1c64": conv,
    "conv3x3_n8c128": conv,
    "dwconv3x3": lambda p, x: x.conv2d(p["w"], p["b"], padding=1, groups=x.shape[1]),
    "maxpool3s2": lambda p, x: x.max_pool2d(3, 2, padding=1),
    "mlp_b1": perceptron,
    "mlp_b128": perceptron,
    "chain100": chain_of_kernels,
    "chain100_jit_nofuse": chain_of_kernels,
    "chain100_jit": chain,
    "call": lambda p, x, y: x + y,
    "call_jit": lambda p, x, y: x + y,
    "transpose_4096": lambda p, x: x.permute(1, 0).contiguous(),
    "strided_sum": lambda p, x: x[:, ::2].sum(),
    "permute_0213": lambda p, x: x.permute(0, 2, 1, 3).contiguous(),
}
# Rows of front.py.
BY_PACKAGE = (
    "train_char resnet18_b1 gpt2_prefill128 gpt2_decode cumsum_4096 gather_rows attention "
    "attn_causal"
).split()
# Training steps: logits and the rate of Adam.
TRAINED = {"train_digits": (digits, 0.003), "train_conv": (conv_net, 0.001),
           "train_mlp": (perceptron, 0.001)}


class Step:
    """A captured function with its inputs and result bound. constant: its parameters stay."""

    def __init__(self, context, function, inputs, constant=False):
        lib = self.lib = library()
        lib.engine_capture_begin(context.handle, handles(inputs), len(inputs))
        if constant:
            lib.engine_capture_constant(context.handle)
        result = function(*inputs)
        self.program = lib.program()
        lib.engine_capture_end(self.program, context.handle, handles([result]), 1)
        view = result.view()
        self.inputs = (lib.tensor * len(inputs))(*[t.view() for t in inputs])
        self.output = (lib.tensor * 1)()
        lib.tensor_init(
            self.output[0], context.handle, view.dtype, view.device, view.ndim, view.shape
        )
        self.kept = (inputs, function)
        size = np.dtype(result.dtype.name)
        memory = (ctypes.c_char * self.output[0].storage.bytes).from_address(
            self.output[0].storage.data
        )
        self.array = np.frombuffer(memory, size).reshape(result.shape)

    def __call__(self):
        self.lib.program_run(self.program, None, self.inputs, len(self.inputs), self.output, 1)
        return self.array

    def kernels(self):
        return self.lib.program_count_kernels(self.program)


class Engine:
    name = "aster"

    def __init__(self, threads):
        self.context, self.threads = Context(threads=threads), threads

    def version(self):
        return "aster_ml " + library().version().decode()

    def build(self, name, inputs, parameters):
        if name in BY_PACKAGE:
            return self.by_package(name, inputs, parameters)
        if name not in FUNCTIONS and name not in TRAINED and name != "chain100_eager":
            raise NotImplementedError("no row")
        with self.context:
            arguments = [tensor(v) for v in inputs.values()]
            p = {k: tensor(v) for k, v in parameters.items()}
            realize(*arguments, *p.values())
            if name == "chain100_eager":
                return self.eager_chain(*arguments)
            if name in TRAINED:
                return self.training(*TRAINED[name], p, *arguments)
            function = FUNCTIONS[name]
            return Step(self.context, lambda *a: function(p, *a), arguments, constant=True)

    def by_package(self, name, inputs, parameters):
        """Through the Python package, as a user would write it."""
        import aster_ml
        import front
        from aster_ml import _native

        _native.set_current(_native.context_init({"threads": self.threads}))
        return front.Engine(aster_ml, constant=True).build(name, inputs, parameters)

    def training(self, network, rate, p, x, targets):
        lib = library()
        state, adam = lib.state(), lib.optimizer()
        lib.state_init(state, self.context.handle)
        for name, value in p.items():
            lib.state_set(state, name.encode(), value.handle, 1)
        lib.adam_init(adam, state, lib.adam_options(rate=rate))

        def step(x, targets):
            loss = network(p, x).sparse_categorical_crossentropy(targets)
            lib.optimizer_step(adam, loss.handle)
            return loss

        # Recording runs the step once; what a caller sees begins with the weights as given.
        before = {name: value.numpy().copy() for name, value in p.items()}
        kept = lib.state()
        lib.state_init(kept, self.context.handle)
        lib.state_set_optimizer(kept, b"", adam)
        count = lib.state_count(kept)
        names = [lib.state_name(kept, i) for i in range(count)]
        fresh = {name: self.get(kept, name).numpy().copy() for name in names}
        made = Step(self.context, step, [x, targets])
        for name, value in p.items():
            overwrite(value, before[name])
        for name in names:
            overwrite(self.get(kept, name), fresh[name])
        made.state = (state, adam, kept, p)
        return made

    def get(self, state, name):
        out = Tensor.__new__(Tensor)
        out.handle, out.context = library().lazy(), self.context
        library().state_get(out.handle, state, name)
        return out

    def eager_chain(self, x, y):
        lib, context = library(), self.context.handle
        first, second = x.view(), y.view()

        def run():
            a = first
            for _ in range(100):
                out = lib.tensor()
                lib.tensor_add(out, context, a, second)
                if a is not first:
                    lib.tensor_free(a)
                a = out
            memory = (ctypes.c_char * a.storage.bytes).from_address(a.storage.data)
            array = np.frombuffer(memory, np.float32).copy()
            lib.tensor_free(a)
            return array

        run.kept = (x, y)
        return run

    def to_np(self, result):
        return result.numpy() if hasattr(result, "numpy") else np.asarray(result)


def tensor(array):
    return Tensor(array.astype(np.int32) if array.dtype == np.int64 else array)


def overwrite(target, array):
    """Writes an array into the storage of a realised tensor."""
    view = target.view()
    ctypes.memmove(view.storage.data + view.byte_offset, np.ascontiguousarray(array).ctypes.data,
                   array.nbytes)
