"""x[...], x[...] = v, gather, scatter, sort and selections, against NumPy on generated cases."""

import functools
import itertools

import numpy as np
import pytest

from aster_ml import Tensor, TinyJit, _native, dtypes

WORLDS = {"compiled": {}, "narrow": {"vector_bytes": 16}, "interpreted": {"compiler": "none"}}


@functools.cache
def context(name):
    return _native.context_init(WORLDS[name])


def inside(name):
    outer = _native.current()
    _native.set_current(context(name))
    yield name
    _native.set_current(outer)


@pytest.fixture(params=WORLDS)
def world(request):
    yield from inside(request.param)


@pytest.fixture
def interpreted():
    yield from inside("interpreted")


# ---- Index expressions: as NumPy, but integers have gone before tensors count as neighbours


class Index:
    """An index expression, for us and for NumPy in two steps: the view, then the tensors."""

    def __init__(self):
        self.ours, self.view, self.named = [], [], []

    def add(self, ours, view, named):
        self.ours.append(ours)
        self.view += view
        self.named += named

    def of(self, array):
        part = array[tuple(self.view)]
        return (
            part[tuple(self.named)] if any(not isinstance(i, slice) for i in self.named) else part
        )

    def put(self, array, value):
        part = array[tuple(self.view)]
        if any(not isinstance(i, slice) for i in self.named):
            part[tuple(self.named)] = value
        else:
            array[tuple(self.view)] = value

    def __repr__(self):
        return f"view {self.view}, then {self.named}"


ALL = slice(None)
INDEX_DTYPES = (np.int8, np.int16, np.int32, np.int64)


def any_slice(rng, size):
    def bound():
        return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))

    step = rng.choice([None, 1, 2, 3, -1, -2, -5])
    return slice(bound(), bound(), step if step is None else int(step))


def index_array(rng, size, shape):
    out = rng.integers(-size, size, shape) if size else np.zeros(shape, int)
    return np.asarray(out, rng.choice(INDEX_DTYPES))


def generate(rng, shape, masks=True):
    """An index of a shape; its tensors broadcast to one shape."""
    index, axis, dots = Index(), 0, False
    together = [(), (3,), (2, 3), (2, 1), (0,)][rng.integers(0, 5)]
    lists = rng.random() < 0.5
    for _ in range(rng.integers(0, len(shape) + 3)):
        kind = rng.choice(["integer", "slice", "none", "dots", "array", "mask"])
        left = len(shape) - axis
        if kind == "none":
            index.add(None, [None], [ALL])
        elif kind == "dots" and not dots:
            dots = True
            keep = int(rng.integers(0, left + 1))
            index.add(Ellipsis, [ALL] * keep, [ALL] * keep)
            axis += keep
            rest = len(shape) - axis
            # what the ellipsis leaves has to be named
            for k in range(rest):
                item = any_slice(rng, shape[axis + k])
                index.add(item, [item], [ALL])
            return index
        elif left == 0:
            continue
        elif kind == "integer" and shape[axis]:
            i = int(rng.integers(-shape[axis], shape[axis]))
            index.add(i, [i], [])
            axis += 1
        elif kind == "slice":
            item = any_slice(rng, shape[axis])
            index.add(item, [item], [ALL])
            axis += 1
        elif kind == "array" and shape[axis]:
            cut = together[rng.integers(0, len(together) + 1) :]
            cut = tuple(1 if rng.random() < 0.2 else n for n in cut)
            array = index_array(rng, shape[axis], cut)
            ours = array.tolist() if lists and array.ndim and array.size else Tensor(array)
            index.add(ours, [ALL], [array])
            axis += 1
        elif kind == "mask" and masks and together == ():
            covers = int(rng.integers(1, left + 1))
            mask = rng.random(shape[axis : axis + covers]) < 0.5
            index.add(Tensor(mask), [ALL] * covers, [mask])
            axis += covers
            masks = False
    return index


SHAPES = [(), (5,), (4, 3), (2, 3, 4), (3, 1, 2, 5), (0, 3), (7, 2)]


def cases(seed, count, **options):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = SHAPES[rng.integers(0, len(SHAPES))]
        yield rng, shape, generate(rng, shape, **options)


def same(got, expected, what=""):
    got = np.asarray(got)
    assert got.shape == np.shape(expected), what
    np.testing.assert_array_equal(got, expected, err_msg=str(what))


def numbers(rng, shape, dtype=np.float32):
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape), dtype)


READS, WRITES = 400, 300


@pytest.mark.parametrize("seed", range(4))
def test_reads_are_numpys(interpreted, seed):
    for rng, shape, index in cases(seed, READS // 4):
        x = numbers(rng, shape)
        same(Tensor(x)[tuple(index.ours)].numpy(), index.of(x), (shape, index))


def test_reads_in_few_kernels(world):
    """Many expressions computed at once: fused with each other, and with arithmetic."""
    x, y, expected, asked = [], [], [], []
    for rng, shape, index in cases(7, 60):
        values = numbers(rng, shape, rng.choice([np.float32, np.int16, np.float64]))
        asked.append((shape, index))
        expected.append(index.of(values))
        x.append(Tensor(values).realize())
        y.append(x[-1][tuple(index.ours)] + (1 if len(y) % 2 else 0))
    Tensor.realize(*y)
    for k, (got, want, what) in enumerate(zip(y, expected, asked)):
        same(got.numpy(), want + (want.dtype.type(1) if k % 2 else want.dtype.type(0)), what)


def value_for(rng, shape):
    """Something that broadcasts to a shape."""
    cut = shape[rng.integers(0, len(shape) + 1) :]
    cut = tuple(1 if rng.random() < 0.2 else n for n in cut)
    return np.asarray(rng.integers(100, 200, cut), np.float32)


TARGETS = {
    "realised": lambda x: Tensor(x).realize(),
    "computed": lambda x: Tensor(x) + 0.0,
    "copied": lambda x: Tensor(x).clone(),
    "view": lambda x: Tensor(np.stack([x - 1, x, x + 1])).realize()[1],
    "permuted": lambda x: Tensor(np.array(x.T, order="C"))
    .realize()
    .permute(tuple(range(x.ndim)[::-1])),
}


@pytest.mark.parametrize("target", TARGETS)
def test_writes_are_numpys(interpreted, target):
    for rng, shape, index in cases(11, WRITES // len(TARGETS)):
        x = numbers(rng, shape)
        value = value_for(rng, index.of(x).shape)
        y = TARGETS[target](x)
        y[tuple(index.ours)] = Tensor(value) if rng.random() < 0.7 or value.ndim else float(value)
        index.put(x, value)
        same(y.numpy(), x, (shape, index, value.shape))


def test_writes_in_few_kernels(world):
    """Targets of every kind written twice, and computed at once."""
    y, expected, asked = [], [], []
    for rng, shape, index in cases(13, 40):
        x = numbers(rng, shape)
        kind = list(TARGETS)[len(y) % len(TARGETS)]
        y.append(TARGETS[kind](x))
        asked.append((kind, shape, index))
        for _ in range(2):
            value = value_for(rng, index.of(x).shape)
            y[-1][tuple(index.ours)] = Tensor(value)
            index.put(x, value)
        expected.append(x)
    Tensor.realize(*y)
    for got, want, what in zip(y, expected, asked):
        same(got.numpy(), want, what)


def test_index_tensors_of_every_integer_dtype(interpreted):
    x = np.arange(5) * 10
    for dtype in ("char", "short", "int", "long", "uchar", "ushort", "uint", "ulong"):
        at = Tensor([4, 0, 2, 2], dtype=dtype)
        same(Tensor(x)[at].numpy(), x[[4, 0, 2, 2]])
        y = Tensor(x, dtype="int").realize()
        y[at] = Tensor([1, 2, 3, 4])
        same(y.numpy(), [2, 10, 4, 30, 1])


def test_narrow_indices_count_from_the_end_of_long_axes(world):
    x = np.arange(200.0, dtype=np.float32)
    at = np.array([-1, -128, 127, 0], np.int8)
    same(Tensor(x)[Tensor(at)].numpy(), x[at])
    y = Tensor(x).realize()
    y[Tensor(at)] = -1
    x[at] = -1
    same(y.numpy(), x)


def test_elements_of_every_dtype(world):
    out, expected = [], []
    for dtype in (np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float64):
        x = np.arange(6).astype(dtype)
        out.append(Tensor(x)[Tensor([5, 0, -1])])
        expected.append(x[[5, 0, -1]])
        y = Tensor(x).realize()
        y[Tensor([1, 1])] = Tensor(np.asarray([0, 1], dtype))
        x = x.copy()
        x[1] = 1
        out.append(y)
        expected.append(x)
    Tensor.realize(*out)
    for got, want in zip(out, expected):
        same(got.numpy(), want)
    same(Tensor([1.5, 2.5], dtype="bfloat16")[Tensor([1, 0])].float().numpy(), [2.5, 1.5])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("world", ["compiled", "narrow"], indirect=True)  # numbers, interpreted
def test_what_is_moved_keeps_its_bits(world, dtype):
    codes = np.arange(65536).astype(np.uint16).reshape(256, 256)  # NaNs of all kinds among them
    at = np.random.default_rng(7).permutation(256)
    x = Tensor(codes).bitcast(dtype).realize()
    for moved, expected in (
        (x[Tensor(at)], codes[at]),
        (x[:, Tensor(at)], codes[:, at]),
        (x.T, codes.T),
        (x.flip(1), codes[:, ::-1]),
    ):
        same(moved.contiguous().realize().bitcast("ushort").numpy(), expected)


def test_what_lies_outside_reads_zero_and_writes_nothing(world):
    x = Tensor([1, 2, 3]).realize()
    same(x[Tensor([3, 2, -3, -4, 100])].numpy(), [0, 3, 1, 0, 0])
    x[Tensor([3, -4, -1])] = Tensor([7, 8, 9])
    same(x.numpy(), [1, 2, 9])
    same(x[Tensor([2**32, 2**40 + 1], dtype="long")].numpy(), [0, 0])


def test_masks_beside_lists():
    x = np.arange(24).reshape(2, 3, 4)
    mask = np.array([[True, False, True], [False, True, False]])
    same(Tensor(x)[Tensor(mask), [3, 1, 0]].numpy(), x[mask, [3, 1, 0]])
    same(Tensor(x)[mask, [3, 1, 0]].numpy(), x[mask, [3, 1, 0]])
    same(Tensor(x)[mask.tolist(), [3, 1, 0]].numpy(), x[mask, [3, 1, 0]])
    same(Tensor(x)[[True, False], [2, 1, 0]].numpy(), x[[True, False], [2, 1, 0]])
    same(Tensor(x)[:, [False] * 3].numpy(), x[:, [False] * 3])


# ---- Writes: what sees them, and what does not


def test_writes_follow_one_another(world):
    x = Tensor([1.0, 2.0, 3.0]).realize()
    for _ in range(3):
        x[0] = x[0] + 1
    same(x.numpy(), [4, 2, 3])
    x[0:2] = x[1:3] + 1
    x[1:3] = x[0:2] * 2
    x[0] = x[2] + 1
    same(x.numpy(), [9, 6, 8])
    x[1:3] += 10
    x[Tensor([0, 0])] += 1
    x[0:1] *= 2
    same(x.numpy(), [20, 16, 18])


def test_long_chains_of_writes(interpreted):
    x, at = Tensor([0.0, 0.0, 0.0]).realize(), np.zeros(3)
    for k in range(150):
        x[k % 3 : k % 3 + 1] += 1
        x[Tensor([0, 2])] = x[Tensor([2, 1])]
        at[k % 3] += 1
        at[[0, 2]] = at[[2, 1]]
    same(x.numpy(), at)


def test_writes_overlapping_what_they_read(world):
    n = np.arange(8, dtype=np.float32)
    for put in (
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: x.__setitem__(slice(None, -1), x[1:]),
        lambda x: x.__setitem__(slice(None), x[::-1]),
        lambda x: x.__setitem__(slice(2, 6), x[1:5] + x[3:7]),
    ):
        expected = n.copy()
        put(expected)
        x = Tensor(n).realize()
        put(x)
        same(x.numpy(), expected)
    x = Tensor(n).realize()
    x[Tensor([1, 2, 3, 4, 5, 6, 7])] = x[:-1]
    same(x.numpy(), [0, 0, 1, 2, 3, 4, 5, 6])
    x[Tensor([7, 0])] = x[Tensor([0, 7])]
    same(x.numpy(), [6, 0, 1, 2, 3, 4, 5, 0])


@pytest.mark.parametrize("index", [0, [0], slice(0, 1)])
@pytest.mark.parametrize("first", ["x", "other"])
def test_views_see_writes_and_results_do_not(world, index, first):
    x = Tensor([1.0, 2.0, 3.0]).realize()
    view, result, same_tensor = x[:2], x + 1, x.reshape(3, 1)
    done = x[:2].realize()
    x[index] = 5
    if first == "x":
        same(x.numpy(), [5, 2, 3])
    same(result.numpy(), [2, 3, 4])
    same(view.numpy(), [5, 2])
    same(done.numpy(), [5, 2])
    same(same_tensor.numpy(), [[5], [2], [3]])
    same(x.numpy(), [5, 2, 3])


def test_writes_through_views_of_views(world):
    x = Tensor(np.arange(6.0)).realize()
    v = x.reshape(2, 3).transpose()
    v[Tensor([2]), 1] = 99
    v[0] = Tensor([7.0, 8.0]).cast(v.dtype)
    same(x.numpy(), [7, 1, 2, 8, 4, 99])
    same(v.numpy(), [[7, 8], [1, 4], [2, 99]])
    w = x[2:].realize()
    w[0] = -1
    same(x.numpy(), [7, 1, -1, 8, 4, 99])


def test_constants_as_targets(world):
    for make in (Tensor.zeros, Tensor.ones, lambda n: Tensor.full((n,), 2.0), Tensor.arange):
        for prepare in (lambda x: x, Tensor.realize, Tensor.contiguous):
            x = prepare(make(4))
            expected = make(4).numpy().copy()
            x[1] = 3
            x[Tensor([2])] = 9
            expected[1:3] = 3, 9
            same(x.numpy(), expected)
    same(Tensor.zeros(4).numpy(), np.zeros(4))


def test_a_value_computed_twice_is_a_copy(world):
    x = Tensor([1.0, 2.0]).realize()
    x.assign(x + 1)
    same((x * 1).realize().numpy(), [2, 3])
    same(x.numpy(), [2, 3])


def test_masks_as_targets(world):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = Tensor(x).realize()
    mask = y > 2
    y[mask] = 0
    same(y.numpy(), np.where(x > 2, 0, x))
    same(mask.numpy(), x > 2)
    y[mask] = Tensor([10.0, 20.0, 30.0])
    same(y.numpy(), [[0, 1, 2], [10, 20, 30]])
    y[Tensor([False, True])] = Tensor([[7.0]])
    same(y.numpy(), [[0, 1, 2], [7, 7, 7]])
    y[Tensor([False, True]), 1:] = Tensor([[5.0, 6.0]])
    same(y.numpy(), [[0, 1, 2], [7, 5, 6]])
    z = Tensor(x) * 1.5
    z[Tensor(x) < 1] = -1
    same(z.numpy(), np.where(x < 1, -1, x * 1.5))


def test_weak_values_take_the_targets_dtype(world):
    x = Tensor([1, 2, 3]).realize()
    x[0] = 7
    x[1] = Tensor(8)
    same(x.numpy(), [7, 8, 3])
    assert x.dtype == dtypes.int
    y = Tensor([1.0, 2.0], dtype="half").realize()
    y[0] = 3
    y[Tensor([1])] = 0.5
    assert y.dtype == dtypes.half
    same(y.numpy(), [3, 0.5])


def test_loops_of_a_captured_step(world):
    cache = Tensor.zeros(4, 3).contiguous().realize()

    @TinyJit
    def step(row, at):
        cache[at] = row.reshape(1, 3) * 2
        cache[0, 1:] = row[:2]
        return (cache[at] + cache[:, 0].sum()).realize()

    expected = np.zeros((4, 3), np.float32)
    for k in range(5):
        row = np.arange(3, dtype=np.float32) + k
        at = np.array([k % 4], np.int32)
        expected[at] = row * 2
        expected[0, 1:] = row[:2]
        got = step(Tensor(row).realize(), Tensor(at).realize())
        same(got.numpy(), expected[at] + expected[:, 0].sum())
        same(cache.numpy(), expected)


# ---- Gradients


def test_gradients_of_reads(interpreted):
    for rng, shape, index in cases(17, 60):
        values = numbers(rng, shape)
        x = Tensor(values)
        y = x[tuple(index.ours)]
        seed = np.asarray(rng.integers(1, 9, y.shape), np.float32)
        expected = np.zeros(shape, np.float32)
        where = index.of(np.arange(values.size).reshape(shape))
        np.add.at(expected.reshape(-1), where.reshape(-1), seed.reshape(-1))
        (got,) = (y * Tensor(seed)).sum().gradient(x)
        same(got.numpy(), expected, (shape, index))


def test_gradients_of_functional_writes(world):
    x, v = Tensor([1.0, 2.0, 3.0, 4.0]), Tensor([10.0, 20.0])
    weights = Tensor([1.0, 2.0, 3.0, 4.0])
    for index, gone in ((slice(1, 3), [1, 2]), ([1, 2], [1, 2]), (Tensor([3, 0]), [3, 0])):
        y = x * 1.0 + 0.0
        y = y * 2
        y[index] = v * 3
        dx, dv = (y * weights).sum().gradient(x, v)
        kept = np.array([2.0, 4.0, 6.0, 8.0])
        kept[gone] = 0
        same(dx.numpy(), kept)
        same(dv.numpy(), np.array([1.0, 2.0, 3.0, 4.0])[gone] * 3)


# ---- Gather and scatter

FLOATS, INTEGERS = (np.float32, np.float64, np.float16), (np.int32, np.int8, np.uint8, np.int64)


def scatter_model(x, axis, index, src, mode, include_self=True):
    """scatter_reduce by its definition, in Python."""
    met, out = {}, x.copy()
    for at in itertools.product(*map(range, index.shape)):
        to = list(at)
        to[axis] = index[at]
        if 0 <= to[axis] < x.shape[axis]:
            met.setdefault(tuple(to), []).append(src[at])
    for to, values in met.items():
        wide = [float(v) if x.dtype.kind == "f" else int(v) for v in values]
        if mode != "write" and include_self:
            wide.insert(0, x[to].item())
        out[to] = {
            "write": lambda v: v[-1],
            "sum": sum,
            "prod": lambda v: functools.reduce(lambda a, b: a * b, v),
            "mean": lambda v: sum(v) / len(v),
            "amax": max,
            "amin": min,
        }[mode](wide)
    return out


def along(rng, shape, axis, outside=False):
    """An index for gather or scatter along an axis."""
    cut = [int(rng.integers(0 if n == 0 else 1, n + 1)) for n in shape]
    cut[axis] = int(rng.integers(1, 7)) if shape[axis] else 0
    low, high = (-2, shape[axis] + 2) if outside else (0, max(shape[axis], 1))
    return rng.integers(low, high, cut).astype(rng.choice([np.int32, np.int64, np.int8]))


@pytest.mark.parametrize("seed", range(3))
def test_gathers(interpreted, seed):
    rng = np.random.default_rng(seed)
    for shape in [(5,), (4, 3), (2, 3, 4), (0, 3), (3, 0)] * 5:
        axis = int(rng.integers(0, len(shape)))
        x = numbers(rng, shape, rng.choice(FLOATS + INTEGERS))
        index = along(rng, shape, axis, outside=True)
        part = x[tuple(slice(0, n) if k != axis else ALL for k, n in enumerate(index.shape))]
        inside = (index >= 0) & (index < shape[axis])
        picked = np.zeros(index.shape, x.dtype)
        if index.size:
            picked = np.take_along_axis(part, np.where(inside, index, 0).astype(np.int64), axis)
        got = Tensor(x).gather(axis - len(shape) if rng.random() < 0.5 else axis, Tensor(index))
        same(got.numpy(), np.where(inside, picked, 0).astype(x.dtype), (shape, axis, index))


MODES = ("write", "sum", "prod", "mean", "amax", "amin")


def scatter_case(rng, mode, dtype):
    shape = [(5,), (4, 3), (2, 3, 4)][rng.integers(0, 3)]
    axis = int(rng.integers(0, len(shape)))
    index = along(rng, shape, axis, outside=True)
    src = rng.integers(1, 4, [n + int(rng.integers(0, 2)) for n in index.shape]).astype(dtype)
    x = rng.integers(1, 4, shape).astype(dtype)
    include = bool(rng.integers(0, 2))
    args = (axis, Tensor(index), Tensor(src))
    ours = (
        Tensor(x).scatter(*args)
        if mode == "write"
        else Tensor(x).scatter_reduce(*args, mode, include)
    )
    expected = scatter_model(
        x.astype(np.float64) if mode == "mean" else x, axis, index, src, mode, include
    )
    return ours, expected


def check_scatter(ours, expected, mode, dtype):
    assert ours.shape == expected.shape
    if mode == "mean":
        np.testing.assert_allclose(
            ours.numpy(), expected, rtol=2e-3 if dtype == np.float16 else 1e-6
        )
    else:
        same(ours.numpy(), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_scatters(interpreted, mode, dtype):
    rng = np.random.default_rng(MODES.index(mode))
    for _ in range(6):
        check_scatter(*scatter_case(rng, mode, dtype), mode, dtype)


def test_scatters_in_few_kernels(world):
    rng, made = np.random.default_rng(5), []
    for mode in MODES:
        for dtype in (np.float32, np.int8):
            made.append((*scatter_case(rng, mode, dtype), mode, dtype))
    Tensor.realize(*(m[0] for m in made))
    for m in made:
        check_scatter(*m)


def test_scatter_with_numbers(world):
    index = Tensor([[0, 2, 2]])
    same(Tensor.ones(1, 3).scatter(1, index, 5.0).numpy(), [[5, 1, 5]])
    same(Tensor.ones(1, 3).scatter(1, index, 5.0, reduce="add").numpy(), [[6, 1, 11]])
    same(Tensor.ones(1, 3).scatter(1, index, 5.0, reduce="multiply").numpy(), [[5, 1, 25]])


@pytest.mark.parametrize("mode", ["amax", "amin", "sum", "prod", "mean"])
def test_scattered_nan_wins(world, mode):
    src = Tensor([1.0, float("nan"), 2.0, 3.0])
    for include in (True, False):
        got = Tensor([5.0, 5.0]).scatter_reduce(0, Tensor([0, 0, 0, 1]), src, mode, include).numpy()
        assert np.isnan(got[0]) and not np.isnan(got[1])


def test_gradients_of_gather_and_scatter(world):
    index = Tensor([2, 0, 2, 1])
    x, src = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0, 6.0, 7.0])
    weights, four = Tensor([1.0, 10.0, 100.0]), Tensor([1.0, 2.0, 3.0, 4.0])
    (dx,) = (x.gather(0, index) * four).sum().gradient(x)
    same(dx.numpy(), [2, 4, 4])
    dx, ds = (x.scatter_reduce(0, index, src, "sum") * weights).sum().gradient(x, src)
    same(dx.numpy(), [1, 10, 100])
    same(ds.numpy(), [100, 1, 100, 10])
    dx, ds = (x.scatter(0, index[:3], src) * weights).sum().gradient(x, src)
    same(dx.numpy(), [0, 10, 0])
    same(ds.numpy(), [0, 1, 100, 0])


# ---- Sorting and selecting


def order_of(x, axis, descending):
    """A stable order, NaN greater than every number."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.flip(x, axis)
    return x.shape[axis] - 1 - np.flip(np.argsort(back, axis=axis, kind="stable"), axis)


SORTED = (np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64) + FLOATS


def sort_input(rng, shape, dtype):
    x = rng.integers(0, 8, shape).astype(dtype)
    if x.dtype.kind == "i":
        x -= np.asarray(4, dtype)
    if x.dtype.kind == "f" and x.size:
        x = x - np.asarray(3, dtype)
        flat = x.reshape(-1)
        flat[rng.integers(0, x.size, 3)] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", SORTED)
def test_sorting(world, dtype):
    rng, out, expected = np.random.default_rng(3), [], []
    for shape in [(9,), (3, 5), (2, 70, 2), (1,), (0,), (2, 0), (0, 4)]:
        for axis, descending in itertools.product({0, len(shape) - 1}, (False, True)):
            x = sort_input(rng, shape, dtype)
            order = order_of(x, axis, descending)
            values = np.take_along_axis(x, order, axis)
            out += [*Tensor(x).sort(axis, descending), Tensor(x).argsort(axis, descending)]
            expected += [values, order, order]
            k = min(3, shape[axis])
            first = [slice(0, k) if a == axis else ALL for a in range(len(shape))]
            out += Tensor(x).topk(k, axis, descending)
            expected += [values[tuple(first)], order[tuple(first)]]
    Tensor.realize(*out)
    for got, want in zip(out, expected):
        same(got.numpy(), want)


def test_sorting_long_rows(world):
    rng = np.random.default_rng(4)
    for x in (
        rng.standard_normal(70000).astype(np.float32),
        rng.integers(0, 9, 70000),
        np.zeros(5000),
    ):
        values, indices = Tensor(x).sort()
        same(indices.numpy(), np.argsort(x, kind="stable"))
        same(values.numpy(), np.sort(x))
        top, at = Tensor(x).topk(100)
        order = order_of(x, 0, True)[:100]
        same(at.numpy(), order)
        same(top.numpy(), x[order])


def test_sorting_numbers(world):
    values, index = Tensor(3.0).sort()
    assert values.item() == 3 and index.item() == 0


def test_gradients_of_sorting(world):
    x = Tensor([3.0, 1.0, 2.0])
    w = Tensor([1.0, 10.0, 100.0])
    (dx,) = (x.sort()[0] * w).sum().gradient(x)
    same(dx.numpy(), [100, 1, 10])
    (dx,) = (x.topk(2)[0] * w[:2]).sum().gradient(x)
    same(dx.numpy(), [1, 0, 10])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float32, np.uint64])
def test_selecting(world, dtype):
    rng = np.random.default_rng(6)
    for shape in [(7,), (3, 4), (2, 0), (2, 3, 2)]:
        x = rng.integers(0, 3, shape).astype(dtype)
        mask = rng.random(shape) < 0.5
        same(Tensor(x).masked_select(Tensor(mask)).numpy(), x[mask])
        same(Tensor(x).nonzero().numpy(), np.argwhere(x))
        for size in (0, 2, 20):
            picked, places = x[mask][:size], np.argwhere(x)[:size]
            got = Tensor(x).masked_select(Tensor(mask), size=size, fill_value=1).numpy()
            same(got, np.concatenate([picked, np.ones(size - len(picked), dtype)]))
            rest = np.full((size - len(places), x.ndim), -1)
            same(
                Tensor(x).nonzero(size=size, fill_value=-1).numpy(), np.concatenate([places, rest])
            )
    row = rng.random(4) < 0.5
    x = rng.integers(0, 3, (3, 4)).astype(dtype)
    same(Tensor(x).masked_select(Tensor(row)).numpy(), x[np.broadcast_to(row, x.shape)])


def test_selecting_with_nan():
    x = Tensor([0.0, float("nan"), -0.0, 1.0])
    same(x.nonzero().numpy(), [[1], [3]])


def test_selecting_from_numbers(interpreted):
    assert Tensor(3).nonzero().shape == (1, 0)
    assert Tensor(0).nonzero().shape == (0, 0)
    same(Tensor(3).masked_select(Tensor(True)).numpy(), [3])


def test_gradients_of_selecting(world):
    x = Tensor([1.0, 2.0, 3.0])
    (dx,) = (x.masked_select(x > 1) * Tensor([5.0, 7.0])).sum().gradient(x)
    same(dx.numpy(), [0, 5, 7])
    (dx,) = (x[x > 1] * Tensor([5.0, 7.0])).sum().gradient(x)
    same(dx.numpy(), [0, 5, 7])


# ---- Refusals


@pytest.mark.parametrize(
    "index, error, words",
    [
        ((2,), IndexError, ("index", "2", "int32[2, 3]")),
        ((0, -4), IndexError, ("index", "-4", "axis 1", "int32[2, 3]")),
        ((0, 0, 0), IndexError, ("3",)),
        ((..., ...), IndexError, ("ellips",)),
        (([2],), IndexError, ("2", "out of bounds")),
        (([0.5],), IndexError, ("non-int",)),
        (("a",), IndexError, ("str",)),
        ((slice(None, None, 0),), ValueError, ("step",)),
        ((slice("a"),), TypeError, ("slice",)),
    ],
)
def test_refused_indices(index, error, words):
    x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
    for use in (x.__getitem__, lambda i: x.__setitem__(i, 0)):
        with pytest.raises(error) as raised:
            use(index)
        for word in words:
            assert word in str(raised.value)
    same(x.numpy(), [[1, 2, 3], [4, 5, 6]])


def test_refused_tensors_and_values():
    x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
    with pytest.raises(IndexError, match="float"):
        x[Tensor([0.0])]
    with pytest.raises(ValueError, match=r"int32\[2, 3\].*int32\[2\].*\[3\]"):
        x[Tensor([0, 1, 0]), Tensor([0, 1])]
    with pytest.raises((IndexError, ValueError), match=r"int32\[2, 3\].*bool\[3\]"):
        x[Tensor([True, False, True])]
    with pytest.raises(RuntimeError, match="dtype"):
        x[0] = Tensor([1.5])
    with pytest.raises(ValueError, match=r"int32\[2\].*3"):
        x[0] = Tensor([1, 2])
    with pytest.raises(ValueError, match=r"int32\[1, 2\].*3"):
        x[Tensor([0])] = Tensor([1, 2])
    with pytest.raises(RuntimeError, match="weak"):
        Tensor(1.0)[...] = 2
    same(x.numpy(), [[1, 2, 3], [4, 5, 6]])


def test_sizes_are_not_read_in_a_capture():
    @TinyJit
    def step(x):
        return x[x > 0].realize()

    step(Tensor([1.0, -1.0]).realize())
    with pytest.raises(Exception, match="capture"):
        step(Tensor([1.0, -1.0]).realize())


def test_slices_in_a_loop_are_scheduled_once():
    data = np.arange(320, dtype=np.float32).reshape(64, 5)
    x, weights = Tensor(data).realize(), Tensor(data[:5]).realize()
    kept = Tensor.zeros(64, 5).contiguous().realize()
    loops = {
        "read": lambda i: (x[8 * i : 8 * i + 8] @ weights, data[8 * i : 8 * i + 8] @ data[:5]),
        "next": lambda i: (x[i + 1 : i + 9] - x[i : i + 8], np.full((8, 5), 5, np.float32)),
        "written": lambda i: (kept.__setitem__(i, x[i] + 1) or kept[i], data[i] + 1),
    }
    for name, body in loops.items():
        made = []
        for i in range(8):
            got, expected = body(i)
            np.testing.assert_array_equal(got.numpy(), expected)
            made.append(_native.engine_count()["schedule_misses"])
        assert made[0] == made[-1], name
