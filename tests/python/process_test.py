"""Processes and threads: children of a fork compute, failed recordings and interrupts leave all as
it was, loops do not grow."""

import gc
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from aster_ml import Tensor, TinyJit, Variable, nn

A = np.random.default_rng(3).standard_normal((300, 300)).astype(np.float32)


def child(k):
    """Run in another process: new kernels, the pool of workers, a sort."""
    x = Tensor(A) * k
    product = (x @ x).sum(0).sort()[0]
    return float(product.numpy()[0]), Tensor([1.0, 2.0]) * k


def check(results):
    for k, (least, pair) in zip((1, 2), results, strict=True):
        want = (A * k) @ (A * k)
        assert least == pytest.approx(want.sum(0).min(), rel=1e-3)
        assert pair.tolist() == [k, 2 * k]


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_children_compute(how):
    child(1)  # the parent's workers are running
    with multiprocessing.get_context(how).Pool(2) as pool:
        check(pool.map_async(child, [1, 2]).get(120))


def test_a_forked_child_has_the_parent_s_tensors():
    x = Tensor(A).realize()
    step = TinyJit(lambda t: (t + 1).sum().realize())
    want = [step(x).item() for _ in range(3)][-1]
    pid = os.fork()
    if pid == 0:
        try:
            same = step(x).item() == want and abs((x @ x).numpy() - A @ A).max() < 1e-2
            os._exit(0 if same else 3)
        except BaseException:
            os._exit(4)
    for _ in range(3000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            break
        time.sleep(0.02)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        pytest.fail("the child hangs")
    assert step(x).item() == want


@pytest.mark.parametrize("how", ["own", "shape", "read", "interrupt"])
def test_a_failed_recording_is_forgotten(how):
    calls, n = [], Variable("n", 1, 4)

    def body(t, k):
        calls.append(1)
        y = (t[:k] * 2).realize()
        if len(calls) == 2:
            if how == "own":
                raise KeyError("mine")
            if how == "interrupt":
                raise KeyboardInterrupt
            t.reshape(7) if how == "shape" else t.sum().item()
        return (y + 1).sum().realize()

    jitted, failures = TinyJit(body), []
    for k in range(1, 5):
        try:
            got = jitted(Tensor([float(k)] * 4).realize(), n.bind(k)).item()
            assert got == k * (2 * k + 1)
        except BaseException as error:
            failures.append(type(error))
        assert (Tensor([1.0]) + k).tolist() == [1.0 + k]
    assert len(failures) == 1 and len(calls) == 3 and jitted.captured is not None


def test_threads_with_tensors_and_recordings_of_their_own():
    errors = []

    def work(seed):
        try:
            a = np.random.default_rng(seed).standard_normal((17, 33)).astype(np.float32)
            step = TinyJit(lambda t: (t * 2 + seed).sum().realize())
            for k in range(25):
                w = Tensor(a + k)
                (w * w).sum().backward()
                np.testing.assert_allclose(w.grad.numpy(), 2 * (a + k), rtol=1e-5)
                assert step(Tensor([float(k)] * 9).realize()).item() == 9 * (2 * k + seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)


def resident():
    """MiB of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def refused(f):
    with pytest.raises(ValueError):
        f()


X = Tensor(A[:64, :64]).realize()
N = Variable("n", 1, 64)
LOOPS = {
    "lazy": lambda k: (X + k).exp(),
    "refused": lambda k: refused(lambda: X.reshape(3, 3)),
    "copied": lambda k: (Tensor(A) * 2).numpy(),
    "variables": lambda k: X[:, : N.bind(1 + k % 64)].sum(1).realize(),
    "gradients": lambda k: (nn.Linear(64, 8)(X.detach()).square().mean().backward().item()),
    "recordings": lambda k: [f(X) for f in [TinyJit(lambda t: (t + 1).realize())] * 3],
    "shown": lambda k: repr((X * 2).realize()),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_do_not_grow(name):
    for k in range(100):
        LOOPS[name](k)
    gc.collect()
    before = resident()
    for k in range(300):
        LOOPS[name](k)
    gc.collect()
    assert resident() - before < 4
