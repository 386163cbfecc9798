"""Sparse matrices against SciPy's, on the same memory."""

import unittest

import numpy as np
import scipy.sparse

import aster_ml
from aster_ml import Tensor, sparse

DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float32, np.float64]


def random_coo(rng, rows, columns, count, dtype, index=np.int32):
    """SciPy's array with places in no order and some of them twice."""
    places = rng.integers(0, rows, count), rng.integers(0, columns, count)
    values = rng.integers(-9 if np.dtype(dtype).kind in "if" else 0, 9, count).astype(dtype)
    made = scipy.sparse.coo_array((values, places), shape=(rows, columns))
    made.coords = tuple(c.astype(index) for c in made.coords)
    return made


class SparseTest(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(3)

    def test_every_format_dtype_and_index(self):
        for dtype in DTYPES + FLOATS:
            for index in (np.int32, np.int64):
                theirs = random_coo(self.rng, 30, 20, 150, dtype, index)
                ours = sparse.from_scipy(theirs)
                for form in ("coo", "csr", "csc"):
                    made = ours.compress(form)
                    wanted = theirs.asformat(form)
                    wanted.sum_duplicates()
                    if form != "coo":
                        wanted.sort_indices()
                    got = made.to_scipy()
                    self.assertEqual(got.format, form)
                    self.assertTrue(made.is_canonical)
                    self.assertEqual(got.dtype, wanted.dtype)
                    np.testing.assert_array_equal(got.toarray(), wanted.toarray())
                    np.testing.assert_array_equal(got.data, self.sorted(wanted))
                    np.testing.assert_array_equal(made.T.numpy(), wanted.toarray().T)

    @staticmethod
    def sorted(x):
        if x.format != "coo":
            return x.data
        return x.data[np.lexsort((x.col, x.row))]

    def test_memory_is_shared_both_ways(self):
        theirs = random_coo(self.rng, 40, 40, 200, np.float32).tocsr()
        ours = sparse.from_scipy(theirs)
        back = ours.to_scipy()
        for a, b in (
            (theirs.data, back.data),
            (theirs.indices, back.indices),
            (theirs.indptr, back.indptr),
        ):
            self.assertEqual(a.ctypes.data, b.ctypes.data)
        theirs.data[:] = 2
        self.assertEqual(ours.sum().item(), 2 * theirs.nnz)
        self.assertEqual(ours.values.numpy()[0], 2)
        self.assertEqual(ours.T.to_scipy().data.ctypes.data, theirs.data.ctypes.data)
        address, total = back.data.ctypes.data, back.sum()
        del theirs, ours  # the arrays live on
        self.assertEqual(back.sum(), total)
        self.assertEqual(back.data.ctypes.data, address)

    def test_products_with_dense(self):
        for dtype in DTYPES + FLOATS:
            a = random_coo(self.rng, 50, 30, 300, dtype)
            ours = sparse.from_scipy(a).compress()
            for columns in (1, 3, 8, 17, 64):
                b = self.rng.integers(0, 5, (30, columns)).astype(dtype)
                got = (ours @ b).numpy()
                self.assertEqual(got.dtype, b.dtype)
                np.testing.assert_array_equal(got, a.toarray() @ b)
                np.testing.assert_array_equal((ours @ np.asfortranarray(b)).numpy(), got)
                np.testing.assert_array_equal((b.T @ ours.T).numpy(), got.T)
            v = b[:, 0].copy()
            np.testing.assert_array_equal((ours @ v).numpy(), a.toarray() @ v)
            np.testing.assert_array_equal((v @ ours.T).numpy(), a.toarray() @ v)

    def test_products_have_scipys_bits(self):
        a = scipy.sparse.random_array((300, 200), density=0.1, format="csr", rng=self.rng)
        b = self.rng.standard_normal((200, 70))
        got = (sparse.from_scipy(a) @ b).numpy()
        np.testing.assert_array_equal(got, a @ b)

    def test_sparse_with_sparse(self):
        for dtype in DTYPES + FLOATS:
            a = random_coo(self.rng, 40, 30, 200, dtype)
            b = random_coo(self.rng, 40, 30, 100, dtype)
            c = random_coo(self.rng, 30, 25, 150, dtype)
            x, y, z = (sparse.from_scipy(m) for m in (a, b, c))
            da, db, dc = (m.toarray() for m in (a, b, c))
            np.testing.assert_array_equal((x + y).numpy(), da + db)
            np.testing.assert_array_equal((x - y).numpy(), da - db)
            np.testing.assert_array_equal((x * y).numpy(), da * db)
            np.testing.assert_array_equal((x @ z).numpy(), da @ dc)
            product = a.tocsr() @ c.tocsr()
            self.assertEqual((x @ z).values.numpy().dtype, product.dtype)
            product.sort_indices()
            ours = (x @ z).to_scipy()
            ours.eliminate_zeros()  # which SciPy's product leaves out
            np.testing.assert_array_equal(ours.indices, product.indices)

    def test_rows_and_reductions(self):
        for dtype in [np.int32] + FLOATS:
            a = random_coo(self.rng, 40, 30, 500, dtype)
            dense = a.toarray()
            for form in ("coo", "csr", "csc"):
                x = sparse.from_scipy(a.asformat(form))
                for axis in (None, 0, 1, -1):
                    np.testing.assert_array_equal(x.sum(axis).numpy(), dense.sum(axis))
                    np.testing.assert_array_equal(x.max(axis).numpy(), dense.max(axis))
                    np.testing.assert_array_equal(x.min(axis).numpy(), dense.min(axis))
                np.testing.assert_array_equal(x[3:-4].numpy(), dense[3:-4])
                np.testing.assert_array_equal(x[-1].numpy(), dense[-1:])
                self.assertEqual(x[7:5].shape, (0, 30))
        with self.assertRaises(ValueError):
            x[::2]

    def test_narrow_floats(self):
        dense = self.rng.integers(-3, 4, (12, 10)).astype(np.float32)
        b = self.rng.integers(-3, 4, (10, 20)).astype(np.float32)
        for name in ("float16", "bfloat16"):
            x = sparse.from_dense(Tensor(dense, dtype=name).realize())
            self.assertEqual(x.dtype, getattr(aster_ml.dtypes, name))
            out = x @ Tensor(b, dtype=name).realize()
            np.testing.assert_array_equal(out.cast("float32").numpy(), dense @ b)

    def test_wide_floats(self):
        for dtype in aster_ml.dtypes.wides:
            tenth = Tensor([["0.1", "0", "3"], ["0", "-7", "1e300"]], dtype=dtype).realize()
            x = sparse.from_dense(tenth)
            self.assertEqual((x.dtype, x.nnz), (dtype, 4))
            self.assertEqual(x.dense().tolist(), tenth.tolist())
            b = Tensor([["1", "2"], ["0.3", "4"], ["5", "-1e-300"]], dtype=dtype).realize()
            self.assertEqual((x @ b).tolist(), (tenth @ b).tolist())
            self.assertEqual((x @ x.T).dense().tolist(), (tenth @ tenth.T).tolist())
            self.assertEqual((x + x - x).dense().tolist(), tenth.tolist())
            self.assertEqual(x.sum(0).tolist(), tenth.sum(0).tolist())
            self.assertEqual(x.max().item(), tenth.max().item())
            twice = sparse.coo([0, 0], [1, 1], Tensor(["0.1", "0.2"], dtype=dtype).realize(),
                               shape=(1, 2)).compress()
            both = Tensor("0.1", dtype=dtype) + Tensor("0.2", dtype=dtype)
            self.assertEqual((twice.nnz, twice.values.item()), (1, both.item()))
            self.assertEqual(x.cast("float64").numpy().tolist(), [[0.1, 0, 3], [0, -7, 1e300]])
            for call in (lambda: x @ np.ones((3, 1)), lambda: x + x.cast("float32")):
                with self.assertRaises(TypeError):
                    call()

    def test_values_by_functions_of_tensors(self):
        a = random_coo(self.rng, 9, 9, 20, np.float32).tocsr()
        x = sparse.from_scipy(a)
        np.testing.assert_array_equal((x * 3).numpy(), a.toarray() * 3)
        np.testing.assert_array_equal((-x).numpy(), -a.toarray())
        np.testing.assert_array_equal(x.with_values(x.values.square()).numpy(), a.toarray() ** 2)
        self.assertEqual(x.cast("int64").values.dtype.name, "long")

    def test_malformed(self):
        good = [0, 1, 2], [0, 1], np.ones(2, np.float32)
        for offsets, columns, values in (
            ([0, 1, 3], [0, 1], good[2]),
            ([0, 2, 1], [0, 1], good[2]),
            ([1, 1, 2], [0, 1], good[2]),
            ([0, 1, 2], [0, 2], good[2]),
            ([0, 1, 2], [0, -1], good[2]),
            ([0, 1], [0, 1], good[2]),
            ([0, 1, 2], [0, 1], np.ones(1, np.float32)),
        ):
            with self.assertRaises(aster_ml.errors.FormatError):
                sparse.csr(offsets, columns, values, shape=(2, 2))
        with self.assertRaises(TypeError):
            sparse.csr(good[0], [0.0, 1.0], good[2], shape=(2, 2))
        with self.assertRaises(ValueError):
            sparse.from_dense([[1]], "dia")
        x = sparse.csr(*good, shape=(2, 2))
        with self.assertRaises(aster_ml.errors.ShapeError):
            x @ np.ones((3, 2), np.float32)
        with self.assertRaises(aster_ml.errors.ShapeError):
            x + x[:1]

    def test_empty(self):
        x = sparse.csr([0], [], np.zeros(0, np.float32), shape=(0, 3))
        self.assertEqual(x.numpy().shape, (0, 3))
        self.assertEqual((x @ np.ones((3, 4), np.float32)).shape, (0, 4))
        self.assertEqual(x.sum().item(), 0)
        y = sparse.coo([], [], np.zeros(0, np.float32), shape=(4, 0))
        self.assertEqual((y @ np.ones((0, 2), np.float32)).numpy().tolist(), [[0, 0]] * 4)


if __name__ == "__main__":
    unittest.main()
