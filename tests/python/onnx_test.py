"""aster_ml.nn.onnx.OnnxRunner, on a model written here; results are NumPy's."""

import numpy as np
import pytest

from aster_ml import Tensor
from aster_ml.nn.onnx import OnnxRunner

# y = x + x, x of any length n.
MODEL = bytes.fromhex(
    "08083a370a0e0a01780a0178120179220341646412016d5a100a0178120b0a09080112050a0312016e6210"
    "0a0179120b0a09080112050a0312016e42040a001014"
)


def test_a_model_runs_for_any_length(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    for run in (OnnxRunner(path), OnnxRunner(str(path)), OnnxRunner(Tensor(MODEL))):
        assert run.graph_outputs == ("y",)
        assert run.graph_inputs["x"].shape == ("n",)
        for n in (1, 5):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(run({"x": x})["y"].numpy(), x + x)
            np.testing.assert_array_equal(run({"x": Tensor(x)})["y"].numpy(), x + x)


def test_what_does_not_fit_is_told():
    run = OnnxRunner(Tensor(MODEL))
    with pytest.raises(RuntimeError, match="input data for x"):
        run({})
    with pytest.raises(RuntimeError, match="2 axes"):
        run({"x": np.zeros((2, 2), np.float32)})
    with pytest.raises(Exception, match="no graph"):
        OnnxRunner(Tensor(b"\x08\x08"))
    with pytest.raises(FileNotFoundError):
        OnnxRunner("no.onnx")
