"""ONNX models: read from their files and run.

>>> from aster_ml import Tensor
>>> model = bytes.fromhex(
...     "08083a370a0e0a01780a0178120179220341646412016d5a100a0178120b0a09080112050a0312016e6210"
...     "0a0179120b0a09080112050a0312016e42040a001014"
... )
>>> OnnxRunner(Tensor(model))({"x": Tensor([1.0, 2.0])})["y"].tolist()
[2.0, 4.0]
"""

from __future__ import annotations

import dataclasses
import pathlib
import warnings
from typing import Any, Iterable, Sequence, Union

from .. import _native
from ..absent import of_module
from ..dtype import DType, dtypes, from_code
from ..tensor import Tensor
from .onnx_export import export

_NONE, _TENSOR, _SEQUENCE, _OPTIONAL = range(4)
_TEXT = 8


@dataclasses.dataclass(frozen=True)
class OnnxValue:
    """What a model says of one of its inputs: sizes that are any are named.

    >>> OnnxValue(("batch", 3), dtypes.float32, False, False).shape
    ('batch', 3)
    """

    shape: tuple[Union[str, int], ...]
    dtype: DType
    is_optional: bool
    is_sequence: bool


class OnnxRunner:
    """Runs a model: a path, or a uint8 tensor of its bytes.

    A run computes at once, by a program that is captured for the sizes of the inputs when they are
    met first, and for all sizes of axes without a number from the second ones on. It is lazy, as
    Tensors are, inside a capture, and where the graph decides by what inputs are (conditions of If
    and Loop, NonZero), which is computed when it is met. Weights stay in the file, which is
    mapped. Texts are lists of str, nested as their shape says; sequences are lists of values,
    optionals without a value None.

    >>> OnnxRunner("no.onnx")
    Traceback (most recent call last):
    aster_ml.errors.NotFoundError: onnx_read: opening 'no.onnx': no such file or directory
    """

    def __init__(self, model_path: Union[Tensor, str, pathlib.Path]):
        if isinstance(model_path, Tensor):
            self._model = _native.onnx_from_bytes(model_path)
        else:
            self._model = _native.onnx_read(pathlib.Path(model_path))
        self._device: str | None = None
        self.graph_inputs: dict[str, OnnxValue] = {}
        self._kinds: list[tuple[int, int]] = []
        for i in range(_native.onnx_input_count(self._model)):
            said = _native.onnx_input_type(self._model, i)
            self._kinds.append((said["kind"], said["element"]))
            self.graph_inputs[_native.onnx_input_name(self._model, i) or ""] = self._spec(i, said)
        count = _native.onnx_output_count(self._model)
        names = (_native.onnx_output_name(self._model, i) for i in range(count))
        self.graph_outputs: tuple[str, ...] = tuple(name or "" for name in names)

    def _spec(self, index: int, said: dict[str, Any]) -> OnnxValue:
        shape: list[str | int] = []
        for axis in range(max(said["ndim"], 0)):
            size = _native.onnx_input_dim(self._model, index, axis)
            name = _native.onnx_input_axis_name(self._model, index, axis)
            shape.append(size if size >= 0 else name or "")
        sequence = _SEQUENCE in (said["kind"], said["inner"])
        dtype = from_code(said["dtype"]) if said["dtype"] else dtypes.void
        return OnnxValue(tuple(shape), dtype, said["kind"] == _OPTIONAL, sequence)

    def to(self, device: str | None) -> OnnxRunner:
        """Inputs that are no tensors go to this device.

        >>> import inspect; list(inspect.signature(OnnxRunner.to).parameters)
        ['self', 'device']
        """
        self._device = device
        return self

    def __call__(self, inputs: dict[str, Any], debug: int = 0) -> dict[str, Any]:
        """The outputs by name, of inputs by name: tensors, or what makes tensors.

        >>> import inspect; list(inspect.signature(OnnxRunner.__call__).parameters)
        ['self', 'inputs', 'debug']
        """
        if debug:
            print(f"running {len(self.graph_inputs)} inputs to {len(self.graph_outputs)} outputs")
        return self._named(_native.onnx_compute(self._model, self._given(inputs)))

    def lazy(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The same, where nothing is computed yet: the graph goes on, also to gradients.

        >>> import inspect; list(inspect.signature(OnnxRunner.lazy).parameters)
        ['self', 'inputs']
        """
        return self._named(_native.onnx_run(self._model, self._given(inputs)))

    def _given(self, inputs: dict[str, Any]) -> Any:
        given = _native.onnx_value_init(_SEQUENCE)
        sizes: dict[str, int] = {}
        for (name, spec), (_, element) in zip(self.graph_inputs.items(), self._kinds):
            if name not in inputs:
                raise RuntimeError(f"Please provide input data for {name}")
            _native.onnx_value_push(given, self._value(name, inputs[name], spec, element, sizes))
        return given

    def _named(self, results: Any) -> dict[str, Any]:
        return {
            name: _python(_native.onnx_value_at(results, i))
            for i, name in enumerate(self.graph_outputs)
        }

    def _value(
        self, name: str, value: Any, spec: OnnxValue, element: int, sizes: dict[str, int]
    ) -> Any:
        if value is None and spec.is_optional:
            return _native.onnx_value_init(_NONE)
        if spec.is_sequence:
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise RuntimeError(f"input {name} received {value}, expected a sequence type")
            out = _native.onnx_value_init(_SEQUENCE)
            for item in value:
                _native.onnx_value_push(out, self._single(name, item, spec, element))
            return out
        single = self._single(name, value, spec, element)
        self._check_shape(name, single, spec, sizes)
        return single

    def _single(self, name: str, value: Any, spec: OnnxValue, element: int) -> Any:
        if element == _TEXT:
            texts, shape = _flat_texts(value)
            return _native.onnx_value_from_texts(texts, shape)
        if not isinstance(value, Tensor):
            dtype = None if hasattr(value, "dtype") else spec.dtype
            value = Tensor(value, dtype=dtype, device=self._device)
        if spec.dtype not in (dtypes.void, value.dtype):
            said = f"Expected {spec.dtype}, received {value.dtype}."
            warnings.warn(f"input {name} has mismatch on dtype. {said}", stacklevel=5)
        return _native.onnx_value_from_lazy(value)

    def _check_shape(self, name: str, value: Any, spec: OnnxValue, sizes: dict[str, int]) -> None:
        if not spec.shape:
            return
        ndim = _native.onnx_value_ndim(value)
        if ndim != len(spec.shape):
            raise RuntimeError(f"input {name} has {ndim} axes, expected {spec.shape}")
        for dim, wanted in enumerate(spec.shape):
            size = _native.onnx_value_dim(value, dim)
            if isinstance(wanted, str):
                wanted = sizes.setdefault(wanted, size) if wanted else size
            if size != wanted:
                raise RuntimeError(
                    f"input {name} has mismatch on dim={dim}. Expected {wanted}, received {size}."
                )


def _flat_texts(value: Any) -> tuple[list[str], list[int]]:
    """Texts in row-major order, and their shape."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)):
        return [value.decode() if isinstance(value, bytes) else value], []
    parts = [_flat_texts(item) for item in value]
    shape = [len(parts), *(parts[0][1] if parts else [])]
    if any(part[1] != shape[1:] for part in parts):
        raise ValueError("texts are nested unevenly")
    return [text for part in parts for text in part[0]], shape


def _nested(texts: Iterable[str], shape: Sequence[int]) -> Any:
    """Texts as lists in lists."""
    texts = iter(texts)
    if not shape:
        return next(texts)
    return [_nested(texts, shape[1:]) for _ in range(shape[0])]


def _python(value: Any) -> Any:
    """A value of a model as Python has it."""
    kind = _native.onnx_value_kind(value)
    if kind == _NONE:
        return None
    if kind == _SEQUENCE:
        count = _native.onnx_value_count(value)
        return [_python(_native.onnx_value_at(value, i)) for i in range(count)]
    if _native.onnx_value_element(value) != _TEXT:
        return _native.onnx_value_get(value)
    shape = [_native.onnx_value_dim(value, i) for i in range(_native.onnx_value_ndim(value))]
    count = _native.onnx_value_count(value)
    return _nested([_native.onnx_value_text(value, i) or "" for i in range(count)], shape)


__all__ = ["OnnxRunner", "OnnxValue", "export"]

__getattr__ = of_module("nn.onnx")
