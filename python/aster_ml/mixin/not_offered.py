"""Methods of tinygrad's tensors that say why they are not offered, or do what is left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ..errors import not_offered
from .inplace import InPlaceMixin


class NotOfferedMixin(InPlaceMixin):
    """Devices beside each other, graphs in UOps, schedules."""

    __slots__ = ()

    if TYPE_CHECKING:  # of Tensor

        @property
        def device(self) -> str: ...
        def to(self, device: Any) -> Self: ...
        def replace(self, x: Self) -> Self: ...

    def shard(self, devices: Any, axis: int | None = None) -> Self:
        """Not offered but for one device: tensors live on one."""
        if len(devices) == 1:
            return self.to(devices[0])
        raise not_offered("shard", "a tensor lives on one device")

    def shard_(self, devices: Any, axis: int | None = None) -> Self:
        """As shard, in place."""
        return self.replace(self.shard(devices, axis))

    def shard_like(self, y: Self) -> Self:
        """This tensor on the device of y.

        >>> Tensor([1]).shard_like(Tensor([2])).device
        'CPU'
        """
        return self.to(y.device)

    def decode_hevc_frame(self, *args: Any, **kwargs: Any) -> Self:
        """Not offered: there is no video decoder."""
        raise not_offered("decode_hevc_frame", "there is no video decoder")

    def custom_kernel(self, *lst: Self, fxn: Any, grad_fxn: Any = None) -> list[Self]:
        """Not offered: kernels are made by the library."""
        raise not_offered("custom_kernel", "kernels written in UOps are tinygrad's own form")

    def alu(self, op: Any, *src: Self) -> Self:
        """Not offered: use the methods."""
        raise not_offered("alu", "operations are methods, not members of an enumeration")

    def call(self, *lst: Self, fxn: Any, grad_fxn: Any = None) -> Self:
        """Not offered: use aster_ml.function."""
        raise not_offered("call", "functions over UOps are tinygrad's own form")

    def as_param(self, slot: int) -> Self:
        """Not offered: parameters of graphs stay inside the library."""
        raise not_offered("as_param", "parameters of graphs stay inside the library")

    def callify(self, *lst: Self) -> Self:
        """Nothing: graphs become calls when they are realised."""
        return self

    def linear_with_vars(self, *lst: Self) -> Any:
        """Not offered: schedules are not objects of Python."""
        raise not_offered("linear_with_vars", "schedules stay inside the library")

    def schedule_linear(self, *lst: Self) -> Any:
        """Not offered: schedules are not objects of Python."""
        raise not_offered("schedule_linear", "schedules stay inside the library")
