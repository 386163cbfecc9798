"""Random views of NumPy arrays (turned, backwards, with steps, broadcast, nested) against NumPy.

Eager functions, lazy ones, indexing, products, scatters and sorts read them where they lie. Longer:
ASTER_ML_FUZZ_VIEWS=10000 and ASTER_ML_FUZZ_SEED=1.
"""

import os

import numpy as np
import pytest

from aster_ml import BufferView, Tensor
from aster_ml import _native as n

CASES = int(os.environ.get("ASTER_ML_FUZZ_VIEWS", "60"))
SEED = int(os.environ.get("ASTER_ML_FUZZ_SEED", "20"))


def random_view(rng, ndim):
    """A view of whole numbers, and the array that it is of."""
    shape = tuple(int(x) for x in rng.integers(1, 6, ndim))
    base = rng.permutation(int(np.prod([2 * s + 3 for s in shape]))).astype(
        rng.choice(["int32", "float32", "int64", "float64"])
    )
    base = base.reshape([2 * s + 3 for s in shape])
    view = base
    for axis, size in enumerate(shape):
        step = int(rng.choice([-2, -1, 1, 2]))
        start = int(rng.integers(0, view.shape[axis] - (size - 1) * abs(step)))
        stop = start + (size - 1) * abs(step)
        last = start - 1 if start else None
        places = slice(start, stop + 1, step) if step > 0 else slice(stop, last, step)
        view = view[(slice(None),) * axis + (places,)]
    view = view.transpose(rng.permutation(ndim))
    if rng.random() < 0.3 and ndim:
        axis = int(rng.integers(0, ndim))
        one = view[(slice(None),) * axis + (slice(0, 1),)]
        view = np.broadcast_to(one, view.shape)
    return view, base


def lazy_of(rng, view):
    """A tensor in the memory of a view, by one of the ways in."""
    way = int(rng.integers(0, 3))
    if way == 0:
        return n.from_buffer(view)
    if way == 1:
        return BufferView.from_numpy(view).tensor()
    return Tensor.from_dlpack(view)


def eager(view, other):
    """Sums, differences and reductions at once."""
    a, b = (n.view_to_tensor(n.view_of_object(each)) for each in (view, other))
    for name, function in (("add", np.add), ("sub", np.subtract), ("maximum", np.maximum)):
        got, want = getattr(n, f"tensor_{name}")(a, b), function(view, other)
        np.testing.assert_array_equal(np.asarray(memoryview(n.view_from_tensor(got))), want)
    total = n.tensor_sum(a, tuple(range(view.ndim)), 0)
    assert int(np.asarray(memoryview(n.view_from_tensor(total)))) == int(view.sum())


def check(rng, view, x):
    """One function of a tensor against NumPy's of the view."""
    axis = int(rng.integers(0, view.ndim))
    size = view.shape[axis]
    places = rng.integers(0, size, size + 2)
    order = np.argsort(view, axis=axis, kind="stable")
    along = rng.integers(0, size, view.shape)
    target = np.zeros(view.shape, view.dtype)
    np.put_along_axis(target, order, view, axis)
    backwards = (slice(None, None, -1),) * view.ndim
    cases = {
        "plain": lambda: (x * 2 - 1, view * 2 - 1),
        "sum": lambda: (x.sum(axis), view.sum(axis)),
        "max": lambda: (x.max(axis), view.max(axis)),
        "argmax": lambda: (x.argmax(axis), view.argmax(axis)),
        "cumsum": lambda: (x.cumsum(axis), np.cumsum(view, axis, dtype=view.dtype)),
        "sort": lambda: (x.sort(axis)[0], np.sort(view, axis)),
        "argsort": lambda: (x.argsort(axis), order),
        "backwards": lambda: (x[backwards], view[backwards]),
        "take": lambda: (
            x[(slice(None),) * axis + (Tensor(places),)], np.take(view, places, axis)
        ),
        "gather": lambda: (
            x.gather(axis, Tensor(along)), np.take_along_axis(view, along, axis)
        ),
        "scatter": lambda: (
            Tensor.zeros(*view.shape, dtype=x.dtype).contiguous().scatter(axis, Tensor(order), x),
            target,
        ),
        "mask": lambda: (x[x > 3], view[view > 3]),
        "cat": lambda: (x.cat(x + 1, dim=axis), np.concatenate([view, view + 1], axis)),
        "pad": lambda: (
            x.pad(((1, 2),) * view.ndim), np.pad(view, ((1, 2),) * view.ndim)
        ),
        "product": lambda: (
            x @ x.transpose(-1, -2), view @ view.swapaxes(-1, -2)
        ) if view.ndim > 1 else ((x * x).sum(), (view * view).sum()),
        "realised": lambda: (x.contiguous().realize(), view),
    }  # fmt: skip
    name = str(rng.choice(sorted(cases)))
    got, want = cases[name]()
    np.testing.assert_array_equal(got.numpy(), want, err_msg=name)


@pytest.mark.parametrize("case", range(CASES))
def test_views_against_numpy(case):
    rng = np.random.default_rng((SEED, case))
    ndim = int(rng.integers(1, 4))
    view, base = random_view(rng, ndim)
    copies = n.engine_count()["copies"]
    x = lazy_of(rng, view)
    for _ in range(3):
        check(rng, view, x)
    if case % 4 == 0:
        eager(view, np.broadcast_to(view[:1], view.shape))
    assert n.engine_count()["copies"] == copies
    # The memory is the array's own. (Reading x itself made it a tensor of its own.)
    y = lazy_of(rng, view)
    base += 1
    np.testing.assert_array_equal((y * 2).numpy(), view * 2)
