"""A second device that every machine has: tensors computed on the CPU that say they are far away.

As on a GPU, what is far does not meet what is near: an operation on tensors of both, a draw with
the other's generator, or a numpy view of what is far is an error. What CUDA allows is allowed:
single numbers of the CPU anywhere, indices of the CPU into what is far, and copies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("far")
FAR = torch.device("far", 0)
NEAR = torch.device("cpu")
INDEXED = {"index.Tensor", "index_put_.default", "index_put.default", "_index_put_impl_.default"}
COPIED = {"_to_copy.default", "copy_.default"}


class WrongDeviceError(RuntimeError):
    """Tensors of two devices met."""


GENERATOR = torch.Generator


class FarGenerator(GENERATOR):
    """Draws for what is far away."""

    device = FAR


class _AnyGenerator(GENERATOR):
    """Makes one for either device."""

    def __new__(cls, device: torch.device | str = NEAR) -> Any:
        if torch.device(device).type != FAR.type:
            return GENERATOR(device)
        made = FarGenerator()
        FAR_GENERATORS[_address(made)] = made  # torch hands on the draws, and not this object
        return made


FAR_GENERATORS: dict[int, FarGenerator] = {}


def _address(generator: Any) -> int:
    return int(generator._cdata)


class FarTensor(Tensor):
    """A tensor that is far away; ``near`` has its numbers."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> "FarTensor":
        far: FarTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride() if near.layout == torch.strided else None,
            storage_offset=near.storage_offset() if near.layout == torch.strided else None,
            dtype=near.dtype,
            device=FAR,
            requires_grad=near.requires_grad,
        )
        far.near = near
        return far

    def __repr__(self) -> str:  # type: ignore[override]
        return f"far({self.near!r})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What ``func`` gives, on the device it is to be on; an error where devices are mixed."""
    name = func.__name__
    given = tree_flatten((args, kwargs))[0]
    tensors = [x for x in given if isinstance(x, Tensor)]
    far = [x for x in tensors if isinstance(x, FarTensor)]
    wanted = kwargs.get("device")
    where = FAR if far else NEAR
    if wanted is not None:
        where = FAR if torch.device(wanted).type == FAR.type else NEAR
    if far and name not in COPIED:
        checked = tensors if name not in INDEXED else [args[0], *_values(name, args)]
        if any(not isinstance(x, FarTensor) and x.dim() for x in checked):
            raise WrongDeviceError(f"{name}: tensors of {FAR} and of {NEAR}")
        if name in INDEXED and not isinstance(args[0], FarTensor):
            raise WrongDeviceError(f"{name}: indices of {FAR} into a tensor of {NEAR}")
    draws = [x for x in given if isinstance(x, GENERATOR)]
    if any((_address(one) in FAR_GENERATORS) != (where == FAR) for one in draws):
        raise WrongDeviceError(f"{name}: a generator of the other device than {where}")
    near_args, near_kwargs = tree_map(_nearer, (args, kwargs))
    if wanted is not None and where == FAR:
        near_kwargs["device"] = NEAR
    found = func(*near_args, **near_kwargs)
    if name == "copy_.default" or where == NEAR:
        if func._schema.is_mutable:
            return args[0]
        return found
    wrapped = tree_map(lambda x: FarTensor(x) if isinstance(x, Tensor) else x, found)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if far else wrapped


def _values(name: str, args: Any) -> list[Tensor]:
    return [] if name == "index.Tensor" else [args[2]]


def _nearer(x: Any) -> Any:
    return x.near if isinstance(x, FarTensor) else x


class _Factories(TorchDispatchMode):
    """Takes what is made far away, and draws: they come with no far tensor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Numbers(TorchFunctionMode):
    """Takes ``tensor`` and ``new_tensor``, which torch makes without telling anybody."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.tolist and isinstance(args[0], FarTensor):
            return args[0].near.tolist()
        if func is Tensor.new_tensor:
            like, *args = args
            kwargs = {"dtype": like.dtype, "device": like.device, **kwargs}
            func = torch.tensor
        if func is not torch.tensor:
            return func(*args, **kwargs)
        device = kwargs.pop("device", None) or NEAR
        return torch.tensor(*args, **kwargs).to(device)


@contextmanager
def second_device() -> Iterator[str]:
    """The name of a device that exists while this lasts."""
    torch.Generator = _AnyGenerator  # type: ignore[assignment, misc]
    try:
        with _Factories(), _Numbers():  # type: ignore[no-untyped-call]
            yield str(FAR)
    finally:
        torch.Generator = GENERATOR  # type: ignore[misc]
        FAR_GENERATORS.clear()
