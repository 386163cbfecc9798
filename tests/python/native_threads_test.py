"""Threads, signals and captured programs: who waits for whom, and what a replay does."""

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from aster_ml import _native as n

F32 = n.DTYPE_FLOAT32


def tensor(values, dtype=np.float32):
    return n.from_buffer(np.array(values, dtype), 0, None, True)


def long_work(context, size=1024, products=6):
    """A product of matrices that takes a while, not computed yet."""
    x = n.lazy_full((1e-3, F32), 0, (size, size), context)
    n.lazy_realize([x])
    y = x
    for _ in range(products):
        y = n.lazy_contiguous(n.lazy_matmul(y, x))
    return y


class Running:
    """Realises a tensor in a thread; `started` and `ended` are times."""

    def __init__(self, y):
        self.y, self.ended = y, None
        self.thread = threading.Thread(target=self.run)
        self.started = time.perf_counter()
        self.thread.start()

    def run(self):
        n.lazy_realize([self.y])
        self.ended = time.perf_counter()

    def join(self):
        self.thread.join()
        return self.ended - self.started


def test_python_runs_while_kernels_do():
    context = n.context_init({"threads": 1})
    Running(long_work(context)).join()  # compiled from here on
    running = Running(long_work(context))
    steps = 0
    while running.ended is None and steps < 10_000_000:
        steps += 1
    took = running.join()
    # Without the GIL released this thread would stand still, or the kernels would.
    assert steps > 1000 * took


def test_a_call_on_the_same_context_waits():
    context = n.context_init({"threads": 1})
    small = n.lazy_ones(F32, (2,), context)
    n.lazy_realize([small])
    Running(long_work(context)).join()
    running = Running(long_work(context, products=20))
    time.sleep(0.005)
    before = time.perf_counter()
    seen = running.ended
    made = n.lazy_add(small, 1)  # waits, and does not fail
    assert seen is not None or (running.ended is not None or time.perf_counter() - before > 0.001)
    running.join()
    assert memoryview(made).tolist() == [2, 2]


def test_other_contexts_do_not_wait():
    busy, free = n.context_init({"threads": 1}), n.context_init({"threads": 1})
    x = n.lazy_ones(F32, (2,), free)
    n.lazy_realize([x])
    Running(long_work(busy)).join()
    running = Running(long_work(busy, products=40))
    time.sleep(0.005)
    calls = 0
    while running.ended is None and calls < 1_000_000:
        n.lazy_add(x, x)
        calls += 1
    running.join()
    assert calls > 3


def test_many_threads_share_a_context():
    context = n.context_init({"threads": 2})
    x = n.from_buffer(np.arange(256, dtype=np.float32), 0, None, True, context)
    failures = []

    def work(seed):
        try:
            for i in range(40):
                y = n.lazy_mul(n.lazy_add(x, float(seed)), 2.0)
                if i % 3 == 0:
                    n.lazy_realize([y])
                np.testing.assert_array_equal(np.asarray(y), (np.arange(256) + seed) * 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_tensors_dropped_while_a_call_runs_are_freed_after_it():
    context = n.context_init({"threads": 1})
    Running(long_work(context)).join()
    array = np.ones(64, np.float32)
    alive = weakref.ref(array)
    x = n.from_buffer(array, 0, None, False, context)
    del array
    running = Running(long_work(context, products=20))
    before = time.perf_counter()
    del x  # does not wait
    assert time.perf_counter() - before < 0.5
    running.join()
    gc.collect()
    assert alive() is None


def test_failures_of_a_thread_are_its_own():
    context = n.context_init({"threads": 1})
    x = n.lazy_ones(F32, (2,), context)
    messages = {}

    def work(size):
        for _ in range(100):
            with pytest.raises(ValueError) as caught:
                n.lazy_reshape(x, (size,))
            messages.setdefault(size, set()).add(str(caught.value))

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        len(said) == 1 and f"[{size}]" in next(iter(said)) for size, said in messages.items()
    )


INTERRUPTED = """
import os, signal, sys, threading, time
from aster_ml import _native as n
context = n.context_init({"threads": 1})
x = n.lazy_full((1e-3, n.DTYPE_FLOAT32), 0, (768, 768), context)
n.lazy_realize([x])
def work(products):
    y = x
    for _ in range(products):
        y = n.lazy_contiguous(n.lazy_matmul(y, x))
    return y
n.lazy_realize([work(2)])
y = work(60 if sys.argv[1] == "waiting" else 6000)
if sys.argv[1] == "waiting":
    thread = threading.Thread(target=lambda: n.lazy_realize([y]))
    thread.start()
    time.sleep(0.02)
print("ready", flush=True)
try:
    n.lazy_add(x, 1) if sys.argv[1] == "waiting" else n.lazy_realize([y])
    time.sleep(5)
    print("lost")
except KeyboardInterrupt:
    print("interrupted", flush=True)
if sys.argv[1] == "waiting":
    thread.join()
else:
    assert not n.lazy_is_realized(y), "what runs is ended"
assert abs(memoryview(n.lazy_add(x, 1)).tolist()[0][0] - 1.001) < 1e-6
print("usable")
"""


@pytest.mark.parametrize("where", ["running", "waiting"])
def test_ctrl_c_is_not_lost(where):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert out == "interrupted\nusable\n", (out, errors)


def products(context, count):
    x = n.lazy_full((1e-3, F32), 0, (500, 500), context)
    n.lazy_realize([x])
    y = x
    for _ in range(count):
        y = n.lazy_contiguous(n.lazy_matmul(y, x))
    return y


@pytest.fixture
def alarm():
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_what_a_handler_raises_ends_the_call(alarm):
    context = n.context_init({"threads": 2})
    y = products(context, 6000)

    def handler(*_):
        raise TimeoutError("enough")

    signal.signal(signal.SIGALRM, handler)
    alarm()
    with pytest.raises(TimeoutError, match="enough"):
        n.lazy_realize([y])
    assert not n.lazy_is_realized(y)
    n.lazy_realize([products(context, 2)])


def test_a_handler_cannot_use_the_context_that_computes(alarm):
    context = n.context_init({"threads": 2})
    y, x = products(context, 6000), n.lazy_full((1.0, F32), 0, (2,), context)
    signal.signal(signal.SIGALRM, lambda *_: n.lazy_add(x, 1))
    alarm()
    with pytest.raises(RuntimeError, match="signal handler"):
        n.lazy_realize([y])
    # One that does nothing disturbs nothing.
    came = []
    signal.signal(signal.SIGALRM, lambda *_: came.append(1))
    while not came:
        alarm()
        n.lazy_realize([products(context, 300)])


def test_another_thread_cancels():
    context = n.context_init({"threads": 2})
    y, said = products(context, 6000), []

    def run():
        try:
            n.lazy_realize([y])
        except Exception as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        n.engine_cancel(context)
        time.sleep(0.01)
    assert len(said) == 1 and "stopped as asked" in said[0]


# ---- Captured programs ----


class Jit(n.Jit):
    """A Jit that notes its slow calls."""

    def __init__(self):
        self.slow = []

    def _slow_call(self, *args, **kwargs):
        self.slow.append((args, kwargs))
        return "slow"


def captured(function, *inputs):
    n.engine_capture_begin(list(inputs))
    try:
        out = function(*inputs)
    except BaseException:
        n.engine_capture_cancel()
        raise
    return n.engine_capture_end([out]), out


def specs(*inputs, names=None):
    keys = names or range(len(inputs))
    return [(key, n.lazy_shape(x), n.lazy_dtype(x)) for key, x in zip(keys, inputs)]


def test_programs_run_on_concrete_tensors():
    x = tensor([1, 2, 3])
    program, _ = captured(lambda x: n.lazy_mul(x, x), x)
    assert n.program_count_kernels(program) == 1
    given, result = n.lazy_view(tensor([4, 5, 6])), n.lazy_view(n.lazy_zeros(F32, (3,)))
    for workspace in (None, n.workspace_init(program)):
        n.program_run(program, [given], [result], workspace)
        np.testing.assert_array_equal(np.asarray(n.lazy_from_tensor(result)), [16, 25, 36])
    with pytest.raises(ValueError):
        n.program_run(program, [], [result])
    with pytest.raises(TypeError):
        n.program_run(program, [x], [result])


def test_programs_run_at_once_in_workspaces_of_their_own():
    x = tensor(np.zeros((64, 64)))
    program, _ = captured(lambda x: n.lazy_matmul(n.lazy_add(x, 1), x), x)
    failures = []

    def work(seed):
        try:
            workspace = n.workspace_init(program)
            given = np.full((64, 64), seed, np.float32)
            source = n.tensor_from_data(given, F32, given.shape)
            result = n.tensor_from_data(np.zeros_like(given), F32, given.shape)
            for _ in range(50):
                n.program_run(program, [source], [result], workspace)
            out = np.zeros_like(given)
            n.tensor_copy_out(result, out)
            np.testing.assert_array_equal(out, (given + 1) @ given)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_a_replay_writes_the_captured_results():
    x, y = tensor([1, 2]), tensor([10, 20])
    program, out = captured(lambda x, y: n.lazy_sub(y, x), x, y)
    jit = Jit()
    result = {"out": out}
    jit._set_captured(program, specs(x, y), [out], result)
    assert jit(tensor([1, 1]), tensor([5, 6])) is result
    assert memoryview(out).tolist() == [4, 5]
    assert jit(tensor([0, 0]), tensor([7, 8]), 3, "a", None, flag=True) is result
    assert memoryview(out).tolist() == [7, 8]
    assert not jit.slow


def test_inputs_by_name():
    x, y = tensor([1, 2]), tensor([10, 20])
    program, out = captured(lambda x, y: n.lazy_sub(y, x), x, y)
    jit = Jit()
    jit._set_captured(program, specs(x, y, names=[0, "y"]), [out], out)
    assert jit(tensor([1, 1]), y=tensor([5, 6])) is out
    assert memoryview(out).tolist() == [4, 5]
    assert jit(y, x) == "slow" and jit(x, z=y) == "slow" and jit(x) == "slow"


def test_anything_else_is_slow():
    x = tensor([1, 2])
    program, out = captured(lambda x: n.lazy_add(x, 1), x)
    jit = Jit()
    assert jit(x) == "slow"
    jit._set_captured(program, specs(x), [out], out)
    other = n.lazy_ones(F32, (2,), n.context_init({"threads": 1}))
    n.lazy_realize([other])
    wrong = [
        (),
        (tensor([1, 2, 3]),),
        (tensor([1, 2], np.int32),),
        (n.lazy_add(x, 5),),  # not realised
        (x, x),
        (x, [x]),
        (3,),
        (other,),
    ]
    for arguments in wrong:
        assert jit(*arguments) == "slow"
    n.set_capturing(True)
    assert jit(x) == "slow"
    n.set_capturing(False)
    assert jit(x) is out
    jit._clear_captured()
    assert jit(x) == "slow"
    assert len(jit.slow) == len(wrong) + 3


def test_a_result_may_be_the_next_input():
    x = tensor([1, 2, 3])
    program, out = captured(lambda x: n.lazy_add(n.lazy_flip(x, 0), 1), x)
    jit = Jit()
    jit._set_captured(program, specs(x), [out], out)
    wanted = np.array([1, 2, 3])
    jit(tensor(wanted))
    wanted = wanted[::-1] + 1
    for _ in range(5):
        assert jit(out) is out
        wanted = wanted[::-1] + 1
        np.testing.assert_array_equal(np.asarray(out), wanted)


def test_two_arguments_in_one_memory_are_slow():
    x, y = tensor([1, 2]), tensor([3, 4])
    program, out = captured(lambda x, y: n.lazy_add(x, y), x, y)
    jit = Jit()
    jit._set_captured(program, specs(x, y), [out], out)
    assert jit(x, x) == "slow"


def test_a_replay_sees_assigned_state():
    state, x = tensor([0, 0]), tensor([1, 2])
    n.lazy_realize([state])

    def step(x):
        n.lazy_assign(state, n.lazy_add(state, x))
        n.lazy_realize([state])
        return n.lazy_mul(state, 2)

    program, out = captured(step, x)
    jit = Jit()
    jit._set_captured(program, specs(x), [out], out)
    jit(x)
    jit(tensor([10, 10]))
    np.testing.assert_array_equal(np.asarray(state), [12, 14])
    np.testing.assert_array_equal(np.asarray(out), [24, 28])


def test_wrong_setups_are_refused_and_leave_the_jit_as_it_was():
    x = tensor([1, 2])
    program, out = captured(lambda x: n.lazy_add(x, 1), x)
    jit = Jit()
    jit._set_captured(program, specs(x), [out], out)
    for wrong in (
        (x, [], [], None),
        (program, [(0, (2,))], [out], out),
        (program, [(-1, (2,), F32)], [out], out),
        (program, specs(x), [1], out),
        (program, specs(x), [out]),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            jit._set_captured(*wrong)
    assert jit(x) is out


def test_jits_are_collected():
    x = tensor([1, 2])
    program, out = captured(lambda x: n.lazy_add(x, 1), x)
    jit = Jit()
    jit.me = jit
    jit._set_captured(program, specs(x), [out], [jit])
    alive = weakref.ref(jit)
    del jit
    gc.collect()
    assert alive() is None


def test_replays_of_several_threads_wait_for_each_other():
    x = tensor(np.arange(64))
    program, out = captured(lambda x: n.lazy_mul(x, 3), x)
    jit = Jit()
    jit._set_captured(program, specs(x), [out], out)
    failures = []

    def work():
        try:
            mine = tensor(np.arange(64))
            for _ in range(200):
                assert jit(mine) is out
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and not jit.slow
    np.testing.assert_array_equal(np.asarray(out), np.arange(64) * 3)
