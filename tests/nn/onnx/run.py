#!/usr/bin/env python3
"""`aster run` and `aster freeze` as people call them: run.py --aster bin/aster

Arrays of NumPy in and out, lists of cases, statuses and what is said of failures; the results are
NumPy's. 77 where the packages are not here.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

from packages import TensorProto, helper, np, numpy_helper, onnx

W = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)
N = np.array([3, 4], np.int64)


def model(nodes, inputs, outputs, opset=17):
    f32 = [numpy_helper.from_array(W, "w")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, f32)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save_models():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
        helper.make_node("Add", ["n", "n"], ["twice"]),
    ]
    inputs = [tensor("x", ["rows", 3]), tensor("n", [2], TensorProto.INT64)]
    outputs = [tensor("y", ["rows", 2]), tensor("twice", [2], TensorProto.INT64)]
    onnx.save(model(nodes, inputs, outputs), "net.onnx")
    onnx.save(model(nodes[:2], inputs[:1], outputs[:1]), "layer.onnx")
    decoded = helper.make_node("ImageDecoder", ["n"], ["y"])
    onnx.save(model([decoded], inputs[1:], outputs[:1], 20), "unsupported.onnx")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def check_results(y, twice):
    np.testing.assert_allclose(y, np.maximum(X @ W, 0), rtol=1e-6)
    np.testing.assert_array_equal(twice, N + N)
    assert (y.dtype, twice.dtype) == (np.float32, np.int64)


def fails(status, said, *command):
    done = run(*command)
    assert (done.returncode, done.stdout) == (status, ""), (command, done)
    assert said in done.stderr and done.stderr.count("\n") == 1, (command, done.stderr)


def check_run(aster):
    os.mkdir("named"), os.mkdir("numbered"), os.mkdir("protos")
    np.save("named/x.npy", np.asfortranarray(X)), np.save("named/n.npy", N)
    np.save("numbered/input_0.npy", X.astype(">f4")), np.save("numbered/input_1.npy", N)
    for i, array in enumerate((X, N)):
        with open(f"protos/input_{i}.pb", "wb") as file:
            file.write(numpy_helper.from_array(array).SerializeToString())
    np.savez("in.npz", x=X, n=N)
    np.savez_compressed("packed.npz", x=X, n=N)
    for given in ("named", "protos", "in.npz", "packed.npz"):
        for out in (f"out_{given}/deep", f"out_{given}.npz"):
            command = [aster, "run", "net.onnx", "--inputs", given, "--outputs", out]
            done = run(*command, "--format", "npy")
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (command, done)
            if out.endswith(".npz"):
                results = np.load(out)
                assert sorted(results) == ["twice", "y"]
                check_results(results["y"], results["twice"])
            else:
                assert sorted(os.listdir(out)) == ["output_0.npy", "output_1.npy"]
                check_results(*(np.load(f"{out}/output_{i}.npy") for i in range(2)))
    common = [aster, "run", "net.onnx", "--inputs"]
    done = run(*common, "protos", "--outputs", "protos_out")
    assert done.returncode == 0, done.stderr
    results = []
    for i in range(2):
        with open(f"protos_out/output_{i}.pb", "rb") as file:
            results.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read())))
    check_results(*results)
    # 2: not supported, named; 1: anything else.
    for status, name in ((2, "ImageDecoder"), (1, "nothing.onnx")):
        file = "unsupported.onnx" if status == 2 else name
        fails(status, name, aster, "run", file, "--inputs", "named", "--outputs", "o")
    fails(1, "no/n.npy", *common[:2], "layer.onnx", "--inputs", "no/n.npy", "--outputs", "o")
    np.savez("other.npz", x=X)
    fails(2, "input_0.npy': an array of dtype '>f4'", *common, "numbered", "--outputs", "o")
    # Inputs that are not what the model says; files that are none.
    for said, x in (
        ("'x' is of int64, the model takes float32", X.astype(np.int64)),
        ("'x' has 5 in axis 1, the model takes 3", np.ones((2, 5), np.float32)),
        ("'x' has 1 axes, the model takes 2", X[0]),
    ):
        np.savez("wrong.npz", x=x, n=N)
        fails(1, said, *common, "wrong.npz", "--outputs", "o")
    fails(1, "'other.npz' has no 'n.npy'", *common, "other.npz", "--outputs", "o")
    os.mkdir("broken")
    for name in ("x.npy", "input_1.pb"):
        with open(f"broken/{name}", "wb") as file:
            file.write(b"text")
        fails(1, f"'broken/{name}': ", *common, "broken", "--outputs", "o")
        np.save("broken/x.npy", X)
    fails(2, "--outputs is needed", *common, "named")
    fails(2, "--format png", *common, "named", "--outputs", "o", "--format", "png")
    assert not os.path.exists("o")
    # A device that is full: nothing half-written, and what was there before is there.
    before = open("out_named.npz", "rb").read()
    for out in ("full.npz", "out_named.npz"):
        done = subprocess.run(
            [*common, "named", "--outputs", out],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=small_files,
        )
        assert done.returncode == 1 and f"writing '{out}'" in done.stderr, done
    assert open("out_named.npz", "rb").read() == before
    assert not [name for name in os.listdir() if name.startswith("full") or name.endswith(".part")]


def check_batch(aster):
    cases = [("net.onnx", "named", "b0"), ("nothing.onnx", "named", "b1")]
    cases += [("unsupported.onnx", "named", "b2"), ("net.onnx", "in.npz", "b3.npz")]
    with open("list.tsv", "w", encoding="utf-8") as file:
        file.write("".join("\t".join(case) + "\n" for case in cases))
    done = run(aster, "run", "--batch", "list.tsv", "--format", "npy")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines] == [["CASE", str(i), s] for i, s in enumerate("0120")]
    assert all(len(line) == 4 for line in lines)
    assert "nothing.onnx" in lines[1][3] and "ImageDecoder" in lines[2][3]
    assert lines[0][3] == lines[3][3] == ""
    check_results(*(np.load(f"b0/output_{i}.npy") for i in range(2)))
    check_results(np.load("b3.npz")["y"], np.load("b3.npz")["twice"])
    # A line is there when its case is done, not when the list is.
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [aster, "run", "--batch", f"/dev/fd/{read}"], pass_fds=[read], stdout=subprocess.PIPE
        )
        file.write("net.onnx\tnamed\tlast\n")
    assert process.stdout.readline() == b"CASE\t0\t0\t\n"
    assert process.wait() == 0
    os.close(read)
    with open("list.tsv", "a", encoding="utf-8") as file:
        file.write("net.onnx\tnamed\n")
    fails(2, "line 5", aster, "run", "--batch", "list.tsv")
    fails(2, "--batch names the models", aster, "run", "net.onnx", "--batch", "list.tsv")
    fails(1, "none.tsv", aster, "run", "--batch", "none.tsv")


class Instance(ctypes.Structure):
    """aster_ml_dynamic_kernel_instance."""

    _fields_ = [
        ("kernel", ctypes.POINTER(ctypes.c_void_p * 2)),  # function, destructor
        ("size", ctypes.c_size_t),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


def check_freeze(aster):
    freeze = [aster, "freeze", "layer.onnx", "--size", "rows=2"]
    done = run(*freeze, "-o", "liblayer.so", "--kernel", "yes", "--threads", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    library, made = ctypes.CDLL("./liblayer.so"), Instance()
    assert library.layer_kernel(ctypes.byref(made)) == 0
    kernel, y = ctypes.cast(made.kernel, ctypes.c_void_p), np.empty((2, 2), np.float32)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(made.kernel.contents[0])
    results, operands = ((ctypes.c_void_p * 1)(a.ctypes.data) for a in (y, X))
    call(results, operands, kernel)
    np.testing.assert_allclose(y, np.maximum(X @ W, 0), rtol=1e-6)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.kernel.contents[1])(kernel)
    made.free(kernel)
    # Code for several CPUs, of which it takes the first that this one is; constants beside it.
    np.save("x.npy", X)
    targets = ["--target", "x86-64-v4,x86-64-v3,x86-64", "--constants", "file", "--name", "other"]
    done = run(*freeze, "-o", "many", *targets)
    assert done.returncode == 0, done.stderr
    assert os.path.exists("many.constants") or os.path.exists("other.constants")
    done = run("./many", "x.npy", "y.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load("y.npy"), np.maximum(X @ W, 0), rtol=1e-6)
    before = set(os.listdir("."))
    fails(2, "--kernel maybe", *freeze, "-o", "no.o", "--kernel", "maybe")
    fails(1, "gives nobody a kernel", *freeze, "-o", "no", "--kernel", "yes")
    fails(2, "--constants outside", *freeze, "-o", "no", "--constants", "outside")
    assert set(os.listdir(".")) == before


def check_convert(aster):
    """Programs of many sizes, run by the library as the C interface would."""
    convert = [aster, "convert", "layer.onnx", "-o"]
    done = run(*convert, "layer.aster", "--size", "rows=1..8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "sizes: rows 1..8\n", ""), done
    done = run(*convert, "default.txt", "--form", "text", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"program": "default.txt", "sizes": "rows 1..128"}
    with open("default.txt", encoding="utf-8") as file:
        text = file.read()
    assert text.startswith("aster ") and "sizes input 0 (\"rows\", 3)" in text, text
    done = run(*convert, "two.aster", "--size", "x.0=2", "--constants", "file")
    assert (done.returncode, done.stdout) == (0, ""), done
    assert os.path.exists("two.aster.data")
    # `profile` loads what is written and runs it.
    for name in ("layer.aster", "default.txt", "two.aster"):
        done = run(aster, "profile", name, "--runs", "1")
        assert done.returncode == 0, done.stderr
    # It runs as models do, for sizes that are its; inputs and outputs have the model's names.
    for i, name in enumerate(("layer.aster", "default.txt", "two.aster")):
        np.savez("x.npz", x=X)
        done = run(aster, "run", name, "--inputs", "x.npz", "--outputs", f"program_{i}.npz")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        y = np.load(f"program_{i}.npz")["y"]
        np.testing.assert_allclose(y, np.maximum(X @ W, 0), rtol=1e-6)
        assert (y.shape, y.dtype) == ((2, 2), np.float32)
    done = run(aster, "run", "layer.aster", "--inputs", "protos", "--outputs", "program_protos")
    assert done.returncode == 0, done.stderr
    with open("program_protos/output_0.pb", "rb") as file:
        y = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
    np.testing.assert_allclose(y, np.maximum(X @ W, 0), rtol=1e-6)
    with open("program.tsv", "w", encoding="utf-8") as file:
        file.write("layer.aster\tx.npz\tp0.npz\nlayer.onnx\tx.npz\tp1.npz\n")
    done = run(aster, "run", "--batch", "program.tsv")
    assert done.stdout == "CASE\t0\t0\t\nCASE\t1\t0\t\n", done
    np.testing.assert_array_equal(np.load("p0.npz")["y"], np.load("p1.npz")["y"])
    # It freezes as other programs do: the numbers are the model's.
    done = run(aster, "freeze", "two.aster", "-o", "frozen")
    assert done.returncode == 0, done.stderr
    np.save("x.npy", X)
    done = run("./frozen", "x.npy", "y.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load("y.npy"), np.maximum(X @ W, 0), rtol=1e-6)
    # Inputs that do not fit, a file that is cut off, axes that it cannot leave open.
    of = lambda name: [aster, "run", name, "--inputs", "bad.npz", "--outputs", "no.npz"]
    with open("layer.aster", "rb") as file, open("cut.aster", "wb") as cut:
        cut.write(file.read()[:-9])
    reversed_sum = helper.make_node("CumSum", ["x", "zero"], ["y"], reverse=1)
    zero = helper.make_node("Constant", [], ["zero"], value_int=0)
    shape = ["rows", 3]
    onnx.save(model([zero, reversed_sum], [tensor("x", shape)], [tensor("y", shape)]), "sums.onnx")
    before = set(os.listdir("."))
    for bad, status, said in (
        (np.zeros((9, 3), np.float32), 1, "9"),
        (np.zeros((2, 4), np.float32), 1, "4 elements along axis 1"),
        (np.zeros((2, 3), np.float64), 1, "float64"),
        (np.zeros(6, np.float32), 1, "1 axes, not 2"),
    ):
        np.savez("bad.npz", x=bad)
        before.add("bad.npz")
        fails(status, said, *of("layer.aster"))
    np.savez("bad.npz", other=X)
    fails(1, "x.npy", *of("layer.aster"))
    fails(1, "is truncated", *of("cut.aster"))
    hint = "(open: rows; with numbers: --size rows=1)"
    fails(1, hint, aster, "convert", "sums.onnx", "-o", "no.aster")
    fails(2, "MODEL.onnx is needed", aster, "convert", "-o", "no.aster")
    fails(2, "--output is needed", aster, "convert", "layer.onnx")
    fails(2, "--size rows=8..1", *convert, "no.aster", "--size", "rows=8..1")
    fails(2, "--size rows=0", *convert, "no.aster", "--size", "rows=0")
    fails(2, "--size row: no open axis", *convert, "no.aster", "--size", "row=2")
    fails(2, "--form pretty", *convert, "no.aster", "--form", "pretty")
    fails(1, "missing/no.aster", *convert, "missing/no.aster")
    fails(1, "none.onnx", aster, "convert", "none.onnx", "-o", "no.aster")
    fails(1, "ImageDecoder", aster, "convert", "unsupported.onnx", "-o", "no.aster")
    assert set(os.listdir(".")) == before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aster", required=True)
    aster = os.path.abspath(parser.parse_args().aster)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        save_models()
        check_run(aster)
        check_batch(aster)
        check_convert(aster)
        check_freeze(aster)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
