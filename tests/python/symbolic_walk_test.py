"""Every operator of the conformance table, and of aster_ml.linalg, on tensors of symbolic sizes:
what is recorded for one value gives for others what tensors cut to these give, or an error that
says why it does not."""

import numpy as np
import pytest
from aster_ml import Device, Tensor, TinyJit, Variable, dtypes, linalg, nn
from aster_ml.conformance.engines import listed
from aster_ml.conformance.generate import plainly
from aster_ml.conformance.operators import ROWS
from aster_ml.conformance.row import tuples
from aster_ml.conformance.values import NARROW, through_spec

CASES = 3  # of each operator
FAILURES = (AssertionError, IndexError, RuntimeError, TypeError, ValueError)


class Front:
    """What rows are called with."""

    Tensor, dtypes, nn = Tensor, dtypes, nn


def attempt(f):
    """The arrays that f gives, or the error that it raises."""
    try:
        return [np.array(t.numpy()) for t in f()]
    except FAILURES as error:
        return error


def same(got, want):
    if len(got) != len(want) or any(a.shape != b.shape for a, b in zip(got, want)):
        return False
    return all(
        np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
        if a.dtype.kind == "f"
        else np.array_equal(a, b)
        for a, b in zip(got, want)
    )


def walk(call, arrays, symbolic, sizes):
    """call(*tensors) -> tensors, where the arrays of which symbolic tells so are cut to each of the
    sizes, and the first is recorded."""
    most = max(sizes)
    tensors = [Tensor(a).realize() for a in arrays]
    jitted = TinyJit(lambda *xs: tuple(t.clone().realize() for t in listed(call(*xs))))
    n, told = Variable("n", 1, most), 0
    for k in (sizes[0], *sizes):
        plain = [t[:k].contiguous() if s else t for t, s in zip(tensors, symbolic)]
        want = attempt(lambda: listed(call(*[t.realize() for t in plain])))
        bound = [t[: n.bind(k)] if s else t for t, s in zip(tensors, symbolic)]
        got = attempt(lambda: jitted(*bound))
        if isinstance(got, Exception):
            assert str(got), "an error without a word"
            told += 1
            jitted.reset()
        else:
            assert not isinstance(want, Exception), f"{k}: {want} is no error"
            assert same(got, want), f"{k}: {got} for {want}"
    return told


def grown(array):
    """With more rows behind it, which are never those that are meant at first."""
    return np.concatenate([array, array[::-1], array])[: len(array) + 3]


@pytest.fixture(params=["PYTHON", "CPU"])
def device(request):
    """Both runtimes; all of it is computed on the one that compiles nothing."""
    before, Device.DEFAULT = Device.DEFAULT, request.param
    yield request.param
    Device.DEFAULT = before


@pytest.mark.parametrize("name", sorted(ROWS))
def test_operators(name, device):
    row, walked = ROWS[name], 0
    if device == "CPU" and sorted(ROWS).index(name) % 9 != 0:
        return
    dtype = next((d for d in ("float32", "int32", "bool") if d in row.dtypes), row.dtypes[0])
    if row.alone or dtype in NARROW:
        return
    for case in plainly(row, dtype, 40, 1):
        arrays = [np.array(through_spec(s)[0]) for s in case["inputs"]]
        length = next((len(a) for a in arrays if a.ndim and len(a) > 1), 0)
        if walked == CASES or not length or not all(a.size for a in arrays):
            continue
        if name == "squeeze" and case["args"]["dim"] is None:
            continue  # keeps axes that are variables, whatever they are now, as tinygrad
        symbolic = [a.ndim > 0 and len(a) == length for a in arrays]
        arrays = [grown(a) if s else a for a, s in zip(arrays, symbolic)]
        arguments = tuples(case["args"])

        def call(*tensors):
            if row.call:
                return row.call(Front, *tensors, **arguments)
            return getattr(tensors[0], row.name)(*tensors[1:], **arguments)

        walk(call, arrays, symbolic, (length, length - 1, length + 2, 1))
        walked += 1


MATRICES = {
    "inv": lambda a: linalg.inv(a),
    "det": lambda a: linalg.det(a),
    "slogdet": lambda a: linalg.slogdet(a),
    "cholesky": lambda a: linalg.cholesky(a),
    "qr": lambda a: (lambda q, r: q @ r)(*linalg.qr(a)),
    "svd": lambda a: linalg.svd(a)[1],
    "svdvals": lambda a: linalg.svdvals(a),
    "eigh": lambda a: linalg.eigh(a)[0],
    "eigvalsh": lambda a: linalg.eigvalsh(a),
    "solve": lambda a: linalg.solve(a, a[:, :1]),
    "lstsq": lambda a: linalg.lstsq(a, a[:, :1])[0],
    "pinv": lambda a: linalg.pinv(a),
    "matrix_rank": lambda a: linalg.matrix_rank(a),
    "cond": lambda a: linalg.cond(a),
    "trace": lambda a: a.diagonal().sum(),
}


@pytest.mark.parametrize("name", sorted(MATRICES))
@pytest.mark.parametrize("axes", ["rows", "square", "batch"])
def test_matrices(name, axes, device):
    random = np.random.default_rng(3)
    half = random.standard_normal((5, 5))
    matrix = (half @ half.T + 5 * np.eye(5)).astype(np.float32)
    f = MATRICES[name]
    if axes == "batch":
        walk(f, [np.stack([matrix * (k + 1) for k in range(5)])], [True], (3, 2, 5, 1))
    elif axes == "rows":
        walk(f, [matrix], [True], (3, 2, 5, 1))
    else:
        walk(lambda a: f((a @ Tensor(matrix)) @ a.T), [matrix], [True], (3, 2, 5, 1))
