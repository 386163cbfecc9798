#!/usr/bin/env python3
"""Tests what the ctypes binding adds to the C interface: arguments, errors, capture, lifetimes."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import numpy as np
except ImportError:
    python = os.environ.get("ASTER_ML_PYTHON")
    if python and not os.environ.get("ASTER_ML_CONFORMANCE_AGAIN"):
        os.environ["ASTER_ML_CONFORMANCE_AGAIN"] = "1"
        os.execv(python, [python, *sys.argv])
    print("SKIPPED: needs a Python with NumPy: set ASTER_ML_PYTHON to one")
    sys.exit(77)

import binding
from binding import Context, Tensor, TinyJit, dtypes


def same(tensor, wanted):
    np.testing.assert_array_equal(tensor.numpy(), np.array(wanted))


class Data(unittest.TestCase):
    def test_numbers_are_weak_and_lists_are_not(self):
        self.assertIs(Tensor(3).dtype, dtypes.weakint)
        self.assertIs(Tensor(2.5).dtype, dtypes.weakfloat)
        self.assertIs(Tensor(True).dtype, dtypes.bool)
        self.assertIs(Tensor([1, 2]).dtype, dtypes.int32)
        self.assertIs(Tensor([1, 2.5]).dtype, dtypes.float32)

    def test_arrays_of_any_layout_are_copied(self):
        array = np.arange(12, dtype=np.int16).reshape(3, 4).T[::-1]
        tensor = Tensor(array)
        same(tensor, array)
        array[0, 0] = 99
        self.assertNotEqual(tensor.numpy()[0, 0], 99)

    def test_dtypes_that_numpy_lacks(self):
        tensor = Tensor([1.0, 2.5, 1000.0], dtype="bfloat16")
        self.assertEqual(tensor.dtype.itemsize, 2)
        same(tensor, np.float32([1, 2.5, 1000]))
        self.assertEqual(tensor.raw().size, 6)
        same(Tensor([1.0, 2.5], dtype=dtypes.fp8e4m3), np.float32([1, 2.5]))

    def test_item_needs_one_element(self):
        self.assertEqual(Tensor([[7]]).item(), 7)
        with self.assertRaises(binding.Error):
            Tensor([1, 2]).item()

    def test_unknown_dtypes(self):
        for what in ("nonsense", "of", "promote", object()):
            with self.assertRaises(TypeError):
                Tensor([1], dtype=what)

    def test_promotion(self):
        self.assertIs(dtypes.promote("int8", "uint8"), dtypes.int16)
        self.assertIs(dtypes.promote("half", "bfloat16"), dtypes.float)


class Index(unittest.TestCase):
    def test_against_numpy(self):
        array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
        tensor = Tensor(array)
        for index in (
            np.s_[1],
            np.s_[-1, ..., 2],
            np.s_[::-1],
            np.s_[..., ::-2],
            np.s_[:, None, 1:3],
            np.s_[None, ..., None],
            np.s_[5:],
            np.s_[2, 3, 4],
            np.s_[3::-1, :0],
            np.s_[:, -2:99, 4:0:-3],
        ):
            with self.subTest(index=index):
                same(tensor[index], array[index])

    def test_refusals(self):
        tensor = Tensor(np.zeros((2, 3), np.float32))
        for index in (2, (0, 0, 0), (..., ...)):
            with self.assertRaises(IndexError):
                tensor[index]
        with self.assertRaises(TypeError):
            tensor["a"]


class Errors(unittest.TestCase):
    def test_the_library_says_what_is_wrong(self):
        with self.assertRaises(binding.Error) as caught:
            Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
        self.assertEqual(caught.exception.status, "SHAPE")
        self.assertEqual(caught.exception.code, binding.library().constants["SHAPE"])
        self.assertIn("aster_ml_lazy_add", str(caught.exception))
        self.assertIn("float32[2]", str(caught.exception))

    def test_statuses_are_pythons_own_errors_too(self):
        with self.assertRaises(IndexError):
            Tensor([1.0]).sum(3)
        with self.assertRaises(TypeError):
            Tensor([1.0]) & Tensor([1.0])

    def test_contexts_do_not_mix(self):
        with Context(threads=1):
            a = Tensor([1.0])
        with Context(threads=1):
            b = Tensor([1.0])
        with self.assertRaises(binding.Error) as caught:
            a + b
        self.assertEqual(caught.exception.status, "ARGUMENT")

    def test_numbers_that_do_not_fit(self):
        with self.assertRaises(OverflowError):
            Tensor([1.0]).reshape(2**70)
        with self.assertRaises(TypeError):
            Context(nonsense=1)


class State(unittest.TestCase):
    def test_a_number_joins_the_context_of_its_operand(self):
        with Context(compiler="none") as context:
            x = Tensor([1.0, 2.0])
        same((1 + x * 2).sum(), 8)
        self.assertEqual(context.counters()["interpreted"], 1)

    def test_assign(self):
        x = Tensor([1.0, 2.0]).realize()
        x.assign(x * 3)
        same(x, [3.0, 6.0])

    def test_tensors_outlive_their_context(self):
        with Context():
            x = Tensor([1.0, 2.0]) + 1
        same(x, [2.0, 3.0])

    def test_gradient(self):
        x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        dx, dy = (x * y).sum().gradient(x, y)
        same(dx, [3, 4])
        same(dy, [1, 2])
        (seeded,) = (x * y).gradient(x, gradient=Tensor([1.0, 0.5]))
        same(seeded, [3, 2])


class Capture(unittest.TestCase):
    def test_replays_follow_their_inputs(self):
        with Context() as context:
            step = TinyJit(lambda a, b: (a @ b, a.sum()))
            b = Tensor(np.eye(2, dtype=np.float32) * 2).realize()
            for k in range(5):
                a = Tensor(np.full((2, 2), k, np.float32)).realize()
                product, total = step(a, b)
                same(product, np.full((2, 2), 2 * k))
                self.assertEqual(total.item(), 4 * k)
            built = context.counters()["schedule_misses"]
            step(a, b)
            self.assertEqual(context.counters()["schedule_misses"], built)

    def test_captured_state_advances(self):
        with Context():
            weight = Tensor([1.0, 1.0]).realize()

            def train(x):
                weight.assign(weight + x)
                return weight.sum().realize()

            step = TinyJit(train, warm=0)
            results = [step(Tensor([1.0, 2.0]).realize()).item() for _ in range(4)]
            self.assertEqual(results, [5, 8, 11, 14])
            same(weight, [5, 9])

    def test_a_replay_refuses_other_shapes(self):
        with Context():
            step = TinyJit(lambda a: a + 1, warm=0)
            step(Tensor([1.0, 2.0]))
            with self.assertRaises(binding.Error) as caught:
                step(Tensor([1.0, 2.0, 3.0]))
            self.assertEqual(caught.exception.status, "SHAPE")

    def test_a_failed_capture_is_over(self):
        with Context():
            step = TinyJit(lambda a: a + Tensor([1.0, 2.0, 3.0]), warm=0)
            with self.assertRaises(binding.Error):
                step(Tensor([1.0, 2.0]))
            same(Tensor([1.0]) + 1, [2.0])


if __name__ == "__main__":
    unittest.main()
