"""aster_ml/trace.h from Python and by ASTER_ML_TRACE: what is dumped, what is said of values."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from aster_ml import Tensor, TinyJit, trace

PROGRAM = (
    "from aster_ml import Tensor\n"
    "x = Tensor([[1.0, 2.0], [3.0, 4.0]])\n"
    "y = ((x @ x).relu() + 0.125).realize()\n"
    "(y * 2).realize()\n"
    "((x @ x).relu() + 0.125).realize()\n"
)


@pytest.fixture(autouse=True)
def ended():
    yield
    trace.configure()


def run(said, program=PROGRAM, **more):
    env = dict(os.environ, ASTER_ML_TRACE=said, **more)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)


def test_the_environment_dumps_and_profiles(tmp_path):
    done = run(f"dump={tmp_path}/dump,profile={tmp_path}/p.txt")
    assert done.returncode == 0, done.stderr
    folders = sorted(os.listdir(tmp_path / "dump"))
    assert len(folders) == 2 and "matmul" in folders[0]  # the third is the first again
    names = set(os.listdir(tmp_path / "dump" / folders[0]))
    assert names >= {"tensor.dot", "prepared.dot", "schedule.dot", "schedule.txt"}
    for ending in (".c", ".plan", ".program"):
        (file,) = [name for name in names if name.endswith(ending)]
        assert "matmul" in file and (tmp_path / "dump" / folders[0] / file).stat().st_size > 0
    source = next(name for name in names if name.endswith(".c"))
    assert "0.125" in (tmp_path / "dump" / folders[0] / source).read_text() or "0x1p-3" in (
        tmp_path / "dump" / folders[0] / source
    ).read_text()
    table = (tmp_path / "p.txt").read_text().splitlines()
    assert sum(int(row.split()[1]) for row in table[1:-1]) == 3
    assert table[0].split()[-3:] == ["%", "limit", "stored"] and "a result" in table[1]
    assert "GFLOP/s (float32)" in table[-1]
    # The object file: that of the kernel's name.
    (code,) = [name for name in names if name.endswith(".o")]
    assert code[:-2] == source[:-2]
    code = (tmp_path / "dump" / folders[0] / code).read_bytes()
    assert code[:4] == b"\x7fELF" and b".text" in code
    schedule = (tmp_path / "dump" / folders[0] / "schedule.txt").read_text()
    assert "stored: a result" in schedule


def test_mistakes_of_the_environment(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for said, message in (
        ("debug=everything", "tensors, nan or compare"),
        ("dumps=/tmp", "ASTER_ML_TRACE"),
        (f"dump={file}", str(file)),
        ("dump=/no/such/folder", "/no/such/folder"),
    ):
        done = run(said)
        assert done.returncode != 0 and message in done.stderr, said


def test_values(tmp_path):
    trace.configure(dump=tmp_path, debug="tensors")
    x = np.array([1.0, 2.0, 6.0], np.float32)
    (Tensor(x) * 2).realize()
    line = (tmp_path / "values.txt").read_text()
    assert "float32[3] from 2 to 12, mean 6, 0 NaN" in line


def test_the_first_nan_is_found():
    trace.configure(debug="nan")
    x = Tensor([4.0, -1.0]).realize()
    first = (x * 2).contiguous()
    second = (first.sqrt() + 1).contiguous()
    with pytest.raises(ArithmeticError, match=r"wrote NaN: element 1 of float32\[2\]"):
        (second * 3).realize()
    assert (x * 2).tolist() == [8.0, -2.0]

    @TinyJit
    def step(x):
        return x.log().realize()

    for _ in range(3):
        step(Tensor([1.0, 2.0]).realize())
    with pytest.raises(ArithmeticError, match="wrote NaN"):  # in a replay
        step(Tensor([1.0, -2.0]).realize())


def test_kernels_are_those_of_the_reference_runtime():
    trace.configure(debug="compare")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((33, 47)).astype(np.float32)
    y = (Tensor(a) @ Tensor(a.T)).softmax().sum(0).log()
    assert np.isfinite(y.numpy()).all()
    w = Tensor(a).realize()
    w.assign(w * 2 + 1).realize()  # in place
    np.testing.assert_array_equal(w.numpy(), a * 2 + 1)
    Tensor(a).sort(dim=1)[0].realize()
    with pytest.raises(ValueError, match="one of none"):
        trace.configure(debug="maybe")


def test_a_kernel_that_differs_is_named(tmp_path):
    """By a compiler that adds where it should subtract."""
    real = next(path for path in ("/usr/bin/gcc", "/usr/bin/cc", "/usr/bin/clang")
                if os.path.exists(path))  # fmt: skip
    wrong = tmp_path / "wrong"
    wrong.write_text(
        f"#!{sys.executable}\n"
        "import subprocess, sys\n"
        "args = sys.argv[1:]\n"
        "given = sys.stdin.buffer.read() if '-' in args else None\n"
        "for i, name in enumerate(args):\n"
        "    if name.endswith('.c'):\n"
        "        text = open(name).read().replace('7.625', '7.5').replace('0x1.e8p+2', '7.5')\n"
        "        open(name, 'w').write(text)\n"
        "if given is not None:\n"
        "    given = given.replace(b'7.625', b'7.5').replace(b'0x1.e8p+2', b'7.5')\n"
        f"sys.exit(subprocess.run([{real!r}, *args], input=given).returncode)\n"
    )
    wrong.chmod(0o755)
    program = (
        "from aster_ml import Tensor\n"
        "x = Tensor([1.0, 2.0]).realize()\n"
        "(x * 3).realize()\n"
        "print((x * 7.625).contiguous().exp2().tolist())\n"
    )
    done = run("debug=compare", program, ASTER_ML_CC=str(wrong),
               ASTER_ML_CACHE_DIR=str(tmp_path / "cache"), ASTER_ML_NO_SIZES="1",
               ASTER_ML_TIERS="off")  # fmt: skip
    assert "differs from the reference runtime: element 0 of float32[2]" in done.stderr, done
    assert "is 181.019" in done.stderr and "not 197.4" in done.stderr  # 2 to those powers
    assert "mul" in done.stderr and "mul_exp2_2" in done.stderr


def test_profile_as_json(tmp_path):
    trace.configure(profile=tmp_path / "p.json")
    (Tensor([1.0, 2.0]) * 3).realize()
    trace.configure()
    events = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    assert len(events) == 1 and events[0]["dur"] > 0
