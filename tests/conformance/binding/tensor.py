"""Tensor: a lazy tensor of the library under tinygrad's method names.

Operations that take operands only are made from the tables below; the methods written out are those
that translate Python's arguments (axes, shapes, options) into the C interface's.
"""

import ctypes

import numpy as np

from .context import current
from .dtype import NARROW, dtypes
from .clib import library

UNARY = """neg abs sign square trunc floor ceil round relu logical_not bitwise_not isnan isinf
isfinite reciprocal sqrt rsqrt exp exp2 log log2 log10 sin cos tan tanh erf sigmoid silu softplus
contiguous clone detach""".split()
BINARY = """add sub mul truncdiv floordiv mod fmod pow maximum minimum eq ne lt le gt ge logical_and
logical_or logical_xor bitwise_and bitwise_or bitwise_xor matmul""".split()
REDUCE = "sum prod max min mean any all logsumexp".split()
OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floordiv",
    "mod": "mod",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "shl",
    "rshift": "shr",
}
COMPARISONS = "eq ne lt le gt ge".split()
REDUCTIONS = {"mean": 0, "sum": 1, "none": 2}
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def int64s(values):
    """A C array of dimensions or axes."""
    values = [int(v) for v in values]
    for value in values:
        if not INT64_MIN <= value <= INT64_MAX:
            raise OverflowError(f"{value} does not fit 64 bits")
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def flat(arguments):
    """f(1, 2), f((1, 2)) and f([1, 2]) mean the same shape."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return tuple(arguments[0])
    return arguments


def scalar(value, dtype=None):
    """An aster_ml_scalar of a Python number; weak without a dtype, but for bool."""
    lib, out = library(), library().scalar()
    if isinstance(value, (bool, np.bool_)):
        lib.scalar_from_int64(out, (dtype or dtypes.bool).code, int(value))
    elif isinstance(value, (int, np.integer)):
        make = lib.scalar_from_int64 if value <= INT64_MAX else lib.scalar_from_uint64
        make(out, (dtype or dtypes.weakint).code, int(value))
    else:
        lib.scalar_from_double(out, (dtype or dtypes.weakfloat).code, float(value))
    return out


def host_bytes(array, dtype):
    """The bytes of a NumPy array as dtype."""
    array = np.ascontiguousarray(array)
    source = dtypes.of(array.dtype)
    if source is dtype:
        return array
    out = np.empty(array.size * dtype.itemsize, np.uint8)
    library().dtype_copy(out.ctypes.data, dtype.code, array.ctypes.data, source.code, array.size)
    return out


class Tensor:
    """A lazy tensor. Tensor(data, dtype=None): data is a number (weak), a nested list or a NumPy
    array (copied)."""

    __slots__ = ("handle", "context", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, data, dtype=None):
        self.context = current()
        self.handle = library().lazy()
        dtype = dtype and dtypes.of(dtype)
        if isinstance(data, (bool, int, float)):
            _call(self, "scalar", self.context.handle, scalar(data, dtype))
            return
        if isinstance(data, (list, tuple)):
            data = np.array(data)
            data = data.astype({"i": np.int32, "f": np.float32}.get(data.dtype.kind, data.dtype))
        shape = np.shape(data)
        held = host_bytes(data, dtype or dtypes.of(data.dtype))
        dtype = dtype or dtypes.of(data.dtype)
        _call(
            self,
            "from",
            self.context.handle,
            held.ctypes.data,
            dtype.code,
            len(shape),
            int64s(shape),
        )

    def __del__(self, free=library().lazy_free):
        if hasattr(self, "handle"):
            free(self.handle)

    def __repr__(self):
        return f"<Tensor {self.shape} {self.dtype.name}>"

    # ---- what it is

    @property
    def ndim(self):
        return library().lazy_ndim(self.handle)

    @property
    def shape(self):
        lib = library()
        return tuple(lib.lazy_dim(self.handle, axis) for axis in range(self.ndim))

    @property
    def dtype(self):
        return dtypes.of(library().lazy_dtype(self.handle))

    @property
    def is_realized(self):
        return bool(library().lazy_is_realized(self.handle))

    def numel(self):
        return library().lazy_count(self.handle)

    # ---- computing and reading

    def realize(self, *others):
        """Computes this tensor and the others, together."""
        realize(self, *others)
        return self

    def numpy(self):
        """The elements as a NumPy array; dtypes that NumPy lacks are read as float32."""
        if self.dtype.name in NARROW:
            raw = np.empty(self.numel() * self.dtype.itemsize, np.uint8)
            library().lazy_copy_out(raw.ctypes.data, raw.nbytes, self.handle)
            out = np.empty(self.shape, np.float32)
            library().dtype_copy(
                out.ctypes.data, dtypes.float32.code, raw.ctypes.data, self.dtype.code, out.size
            )
            return out
        strong = {"weakint": "int32", "weakfloat": "float32"}.get(self.dtype.name, self.dtype.name)
        out = np.empty(self.shape, strong)
        library().lazy_copy_out(out.ctypes.data, out.nbytes, self.handle)
        return out

    def raw(self):
        """The stored bytes, row-major, as a uint8 array."""
        out = np.empty(self.numel() * self.dtype.itemsize, np.uint8)
        library().lazy_copy_out(out.ctypes.data, out.nbytes, self.handle)
        return out

    def tolist(self):
        return self.numpy().tolist()

    def item(self):
        """The one element as a Python number."""
        return self.reshape(()).numpy().item()

    def view(self):
        """The concrete descriptor, lent until this tensor is freed, realised anew or assigned."""
        out = library().tensor()
        library().lazy_view(out, self.handle)
        return out

    def assign(self, value):
        """Writes value into this tensor's storage at the next realize."""
        value = self._operand(value)
        library().lazy_assign(self.handle, value.handle)
        return self

    def gradient(self, *targets, gradient=None):
        """d sum(self * gradient) / d target for each target."""
        lib = library()
        outs = (lib.lazy * max(len(targets), 1))()
        options = lib.gradient_options()
        if gradient is not None:
            options.seed = ctypes.pointer(gradient.handle)
        lib.gradient(outs, self.handle, handles(targets), len(targets), options)
        return [_adopt(lib.lazy(impl=outs[k].impl), self.context) for k in range(len(targets))]

    # ---- creation

    @classmethod
    def full(cls, shape, fill_value, dtype=None):
        code = dtypes.of(dtype).code if dtype else 0
        return cls._made("full", scalar(fill_value), code, *_shape(shape))

    @classmethod
    def zeros(cls, *shape, dtype=None):
        return cls._made("zeros", _code(dtype), *_shape(flat(shape)))

    @classmethod
    def ones(cls, *shape, dtype=None):
        return cls._made("ones", _code(dtype), *_shape(flat(shape)))

    @classmethod
    def empty(cls, *shape, dtype=None):
        return cls._made("empty", _code(dtype), *_shape(flat(shape)))

    @classmethod
    def arange(cls, start, stop=None, step=1, dtype=None):
        if stop is None:
            start, stop = 0, start
        whole = all(isinstance(v, int) for v in (start, stop, step))
        return cls._made("arange" if whole else "arange_float", start, stop, step, _code(dtype))

    @classmethod
    def linspace(cls, start, stop, steps, dtype=None):
        return cls._made("linspace", start, stop, steps, _code(dtype))

    @classmethod
    def eye(cls, n, m=None, dtype=None):
        return cls._made("eye", n, n if m is None else m, _code(dtype))

    @staticmethod
    def manual_seed(seed=0):
        library().lazy_manual_seed(current().handle, seed)

    @classmethod
    def random_bits(cls, num):
        return cls._made("random_bits", num)

    @classmethod
    def rand(cls, *shape, dtype=None):
        return cls._made("rand", _code(dtype), *_shape(flat(shape)))

    @classmethod
    def uniform(cls, *shape, low=0.0, high=1.0, dtype=None):
        return cls._made("uniform", low, high, _code(dtype), *_shape(flat(shape)))

    @classmethod
    def randint(cls, *shape, low=0, high=10, dtype=None):
        return cls._made("randint", low, high, _code(dtype), *_shape(flat(shape)))

    @classmethod
    def randn(cls, *shape, dtype=None):
        return cls._made("randn", _code(dtype), *_shape(flat(shape)))

    @classmethod
    def normal(cls, *shape, mean=0.0, std=1.0, dtype=None):
        return cls._made("normal", mean, std, _code(dtype), *_shape(flat(shape)))

    @classmethod
    def _made(cls, name, *arguments):
        return _new(name, current(), current().handle, *arguments)

    # ---- elementwise

    def _operand(self, value):
        """Another operand: numbers become constants of this tensor's context."""
        if isinstance(value, Tensor):
            return value
        with self.context:
            return Tensor(value)

    def _binary(self, name, other, reverse=False):
        a, b = self, self._operand(other)
        if reverse:
            a, b = b, a
        return _new(name, self.context, a.handle, b.handle)

    def div(self, other, rounding_mode=None):
        return self._binary(
            {None: "div", "trunc": "truncdiv", "floor": "floordiv"}[rounding_mode], other
        )

    def gelu(self, approximate="tanh"):
        name = "gelu" if approximate == "tanh" else "gelu_erf"
        return _new(name, self.context, self.handle)

    def leaky_relu(self, neg_slope=0.01):
        return _new("leaky_relu", self.context, self.handle, neg_slope)

    def cast(self, dtype):
        return _new("cast", self.context, self.handle, dtypes.of(dtype).code)

    def bitcast(self, dtype):
        return _new("bitcast", self.context, self.handle, dtypes.of(dtype).code)

    def where(self, x, y):
        """x where this tensor holds, else y."""
        x, y = self._operand(x), self._operand(y)
        return _new("where", self.context, self.handle, x.handle, y.handle)

    def fma(self, b, c):
        b, c = self._operand(b), self._operand(c)
        return _new("fma", self.context, self.handle, b.handle, c.handle)

    def lerp(self, end, weight):
        end, weight = self._operand(end), self._operand(weight)
        return _new("lerp", self.context, self.handle, end.handle, weight.handle)

    def clamp(self, min_=None, max_=None):
        bounds = [None if v is None else self._operand(v) for v in (min_, max_)]
        return _new("clamp", self.context, self.handle, *map(_handle, bounds))

    # ---- movement

    def reshape(self, *shape):
        shape = tuple(s if n is None else n for s, n in _paired(self.shape, flat(shape)))
        return _new("reshape", self.context, self.handle, *_shape(shape))

    def expand(self, *shape):
        return _new("expand", self.context, self.handle, *_shape(flat(shape)))

    def permute(self, *order):
        return _new("permute", self.context, self.handle, *_shape(flat(order)))

    def transpose(self, dim0=1, dim1=0):
        return _new("transpose", self.context, self.handle, dim0, dim1)

    def flip(self, *axis):
        return _new("flip", self.context, self.handle, *_shape(flat(axis)))

    def pad(self, padding, value=0.0):
        """padding: ((before, after) or None per axis), or flat from the last axis on."""
        padding = tuple(padding)
        if not any(p is None or isinstance(p, tuple) for p in padding):
            if len(padding) % 2:
                raise ValueError("flat padding comes in pairs")
            pairs = [padding[k : k + 2] for k in range(0, len(padding), 2)][::-1]
            padding = [(0, 0)] * (self.ndim - len(pairs)) + pairs
        padding = [p or (0, 0) for p in padding]
        before, after = int64s(p[0] for p in padding), int64s(p[1] for p in padding)
        return _new("pad", self.context, self.handle, len(padding), before, after, scalar(value))

    def shrink(self, bounds):
        """(begin, end) or None per axis."""
        bounds = [b or (0, s) for s, b in _paired(self.shape, tuple(bounds))]
        begin, end = int64s(b[0] for b in bounds), int64s(b[1] for b in bounds)
        return _new("shrink", self.context, self.handle, len(bounds), begin, end)

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if index.count(Ellipsis) > 1:
            raise IndexError("an index has at most one ellipsis")
        axes = sum(i is not None and i is not Ellipsis for i in index)
        if axes > self.ndim:
            raise IndexError(f"{axes} indices for {self.ndim} axes")
        if Ellipsis in index:
            k = index.index(Ellipsis)
            fill = (slice(None),) * (self.ndim - axes)
            index = index[:k] + fill + index[k + 1 :]
        bounds = [i for i in index if isinstance(i, slice)]
        out, axis = (
            self._slice(
                [i if isinstance(i, slice) else slice(None) for i in index if i is not None]
            )
            if bounds
            else self
        ), 0
        for i in index:
            if i is None:
                out = out.unsqueeze(axis)
            elif isinstance(i, int):
                out = _new("select", self.context, out.handle, axis, i)
                continue
            elif not isinstance(i, slice):
                raise TypeError(f"cannot index with {i!r}")
            axis += 1
        return out

    def _slice(self, slices):
        def arrays(name, up, down):
            ends = [down if (s.step or 1) < 0 else up for s in slices]
            values = [getattr(s, name) for s in slices]
            return int64s(e if v is None else v for v, e in zip(values, ends))

        step = int64s(1 if s.step is None else s.step for s in slices)
        start = arrays("start", INT64_MIN, INT64_MAX)
        stop = arrays("stop", INT64_MAX, INT64_MIN)
        return _new("slice", self.context, self.handle, len(slices), start, stop, step)

    def squeeze(self, dim=None):
        if dim is None:
            return self.reshape(tuple(s for s in self.shape if s != 1))
        return _new("squeeze", self.context, self.handle, dim)

    def unsqueeze(self, dim):
        return _new("unsqueeze", self.context, self.handle, dim)

    def flatten(self, start_dim=0, end_dim=-1):
        return _new("flatten", self.context, self.handle, start_dim, end_dim)

    def cat(self, *others, dim=0):
        return _new("cat", self.context, handles((self, *others)), 1 + len(others), dim)

    def stack(self, *others, dim=0):
        return _new("stack", self.context, handles((self, *others)), 1 + len(others), dim)

    def one_hot(self, num_classes):
        return _new("one_hot", self.context, self.handle, num_classes)

    # ---- reductions

    def _reduce(self, name, axis, keepdim, *more):
        axes = (axis,) if isinstance(axis, int) else axis
        count, array = (0, None) if axes is None else _shape(axes)
        return _new(name, self.context, self.handle, count, array, int(keepdim), *more)

    def var(self, axis=None, keepdim=False, correction=1):
        return self._reduce("var", axis, keepdim, correction)

    def _index_of(self, name, axis, keepdim):
        if axis is None:
            out = self.flatten() if self.ndim else self.reshape(1)
            out = _new(name, self.context, out.handle, 0, 0)
            return out.reshape((1,) * self.ndim) if keepdim else out
        return _new(name, self.context, self.handle, axis, int(keepdim))

    def argmax(self, axis=None, keepdim=False):
        return self._index_of("argmax", axis, keepdim)

    def argmin(self, axis=None, keepdim=False):
        return self._index_of("argmin", axis, keepdim)

    # ---- composites

    dot = property(lambda self: self.matmul)

    def conv2d(self, weight, bias=None, groups=1, stride=1, dilation=1, padding=0):
        """padding: one number, (rows, columns) or (left, right, top, bottom)."""
        padding = pair(padding)
        if len(padding) == 2:
            padding = (padding[1], padding[1], padding[0], padding[0])
        left, right, top, bottom = padding
        options = library().conv2d_options(
            groups=groups,
            stride=pair(stride),
            dilation=pair(dilation),
            padding=(top, bottom, left, right),
        )
        return _new("conv2d", self.context, self.handle, weight.handle, _handle(bias), options)

    def _pool(self, name, kernel_size, stride, dilation, padding, exclude_pad=0):
        padding = pair(padding)
        if len(padding) == 2:
            padding = (padding[1], padding[1], padding[0], padding[0])
        left, right, top, bottom = padding
        options = library().pool2d_options(
            kernel=pair(kernel_size),
            stride=pair(kernel_size if stride is None else stride),
            dilation=pair(dilation),
            padding=(top, bottom, left, right),
            exclude_pad=exclude_pad,
        )
        return _new(name, self.context, self.handle, options)

    def max_pool2d(self, kernel_size=(2, 2), stride=None, dilation=1, padding=0):
        return self._pool("max_pool2d", kernel_size, stride, dilation, padding)

    def avg_pool2d(
        self, kernel_size=(2, 2), stride=None, dilation=1, padding=0, count_include_pad=True
    ):
        return self._pool(
            "avg_pool2d", kernel_size, stride, dilation, padding, int(not count_include_pad)
        )

    def softmax(self, axis=-1):
        return _new("softmax", self.context, self.handle, axis)

    def log_softmax(self, axis=-1):
        return _new("log_softmax", self.context, self.handle, axis)

    def layernorm(self, axis=-1, eps=1e-5, weight=None, bias=None):
        """Over the last axes: axis is -1 or all axes from some one to the last."""
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        if sorted(a % self.ndim for a in axes) != list(range(self.ndim - len(axes), self.ndim)):
            raise ValueError("layernorm works on the last axes")
        return _new(
            "layer_norm", self.context, self.handle, len(axes), _handle(weight), _handle(bias), eps
        )

    def batchnorm(self, weight, bias, mean, invstd):
        return _new(
            "batch_norm",
            self.context,
            self.handle,
            _handle(weight),
            _handle(bias),
            mean.handle,
            invstd.handle,
        )

    def sparse_categorical_crossentropy(
        self, Y, ignore_index=-1, label_smoothing=0.0, reduction="mean"
    ):
        """Labels Y [...] against logits [..., classes]."""
        options = library().cross_entropy_options(
            reduction=REDUCTIONS[reduction],
            label_smoothing=label_smoothing,
            ignore=int(ignore_index != -1),
            ignore_index=ignore_index,
        )
        return _new("cross_entropy", self.context, self.handle, Y.handle, options)

    def __hash__(self):
        return id(self)

    def __len__(self):
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __bool__(self):
        raise TypeError("the truth of a tensor is ambiguous: compare elements, or call item()")


# ---- helpers of the methods


def _adopt(handle, context):
    """A Tensor around a handle that it owns from now on."""
    out = Tensor.__new__(Tensor)
    out.handle, out.context = handle, context
    return out


def _handle(tensor):
    return None if tensor is None else tensor.handle


def _call(out, name, *arguments):
    getattr(library(), "lazy_" + name)(out.handle, *arguments)


def _new(name, context, *arguments):
    out = _adopt(library().lazy(), context)
    _call(out, name, *arguments)
    return out


def handles(tensors):
    """A C array of pointers to the tensors' handles."""
    lazy = ctypes.POINTER(library().lazy)
    pointers = [ctypes.pointer(t.handle) for t in tensors]
    return (lazy * max(len(pointers), 1))(*pointers)


def _shape(shape):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return len(shape), int64s(shape)


def _paired(shape, other):
    """(dimension or None, other) for each of other."""
    return [(shape[k] if k < len(shape) else None, o) for k, o in enumerate(other)]


def _code(dtype):
    return dtypes.of(dtype).code if dtype else 0


def realize(*tensors):
    """Computes the tensors, together."""
    library().lazy_realize(handles(tensors), len(tensors))


# ---- methods made from the tables


def _define(name, method, doc=None):
    method.__name__ = name
    method.__doc__ = doc or f"aster_ml_lazy_{name.strip('_')}."
    setattr(Tensor, name, method)


def _unary(name):
    return lambda self: _new(name, self.context, self.handle)


def _binary(name):
    return lambda self, other: self._binary(name, other)


def _reflected(name):
    return lambda self, other: self._binary(name, other, reverse=True)


def _reducing(name):
    return lambda self, axis=None, keepdim=False: self._reduce(name, axis, keepdim)


for _name in UNARY:
    _define(_name, _unary(_name))
for _name in BINARY:
    _define(_name, _binary(_name))
for _name in REDUCE:
    _define(_name, _reducing(_name))
for _name, _target in OPERATORS.items():
    _define(f"__{_name}__", _binary(_target))
    _define(f"__r{_name}__", _reflected(_target))
for _name in COMPARISONS:
    _define(f"__{_name}__", _binary(_name))
_define("lshift", _binary("shl"))
_define("rshift", _binary("shr"))
_define("__neg__", _unary("neg"))
_define("__invert__", _unary("bitwise_not"))
_define("__abs__", _unary("abs"))
