r"""Half the digits where few are needed: gradients of an energy in bfloat16, by torch's autocast.

A gradient moves points by steps far larger than its rounding, and enters the weights as a mean over
a batch; bfloat16 keeps the range of float32, so nothing overflows that did not before. Weights,
particles, distances, losses and the optimiser stay as they are. So do energies that become
log-weights: with 8 significant bits :math:`e^{-E}` is off by a factor of :math:`e^{|E| / 256}`, and
the nodes' weights are what the estimator rests on.

Not guaranteed: that it is faster. It is for GPUs that multiply matrices of bfloat16 faster than of
float32. On the CPU it is there to be tried: compiled code is given up for it, and oneDNN too, whose
bfloat16 ends the process ("illegal instruction") on virtual machines that announce a matrix unit
and have none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from ..support.checks import one_of
from ..types import Energy
from .engine import Engine

Precision = Literal["full", "bf16"]


class HalfEnergy:
    """A module whose gradients are computed in bfloat16, and whose energies are where none is."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self, x: Tensor) -> Tensor:
        """Energies ``(N,)``, of the points' own dtype."""
        energy: Tensor
        if not torch.is_grad_enabled():  # it becomes a weight
            energy = self._module(x)
            return energy
        with torch.autocast(x.device.type, torch.bfloat16):
            energy = self._module(x)
        return energy.to(x.dtype)


def in_precision(precision: Precision, energy: Energy) -> Energy:
    """``energy``, with its gradients in so many digits."""
    return HalfEnergy(energy) if precision == "bf16" and isinstance(energy, nn.Module) else energy


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Around an update: nothing that the precision is not safe with on the device."""
    if precision == "full" or device.type != "cpu":
        yield
        return
    # Not by torch.backends.mkldnn.flags, which sets more, and warns of Intel's GPUs.
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def placed(device: str) -> tuple[str, Precision]:
    """The device and the precision that a name asks for.

    >>> placed("cuda"), placed("cuda:1+bf16")
    (('cuda', 'full'), ('cuda:1', 'bf16'))
    """
    name, plus, digits = device.partition("+")
    if plus and digits != "bf16":
        raise ValueError(f"device={device!r}: what may follow the plus is bf16")
    return name, "bf16" if plus else "full"


def check_precision(precision: Precision, module: nn.Module, engine: Engine | None) -> None:
    """Refuse half the digits where they are not to be had."""
    one_of(("full", "bf16"), precision=precision)
    if precision == "full":
        return
    weight = next(module.parameters())
    if weight.dtype != torch.float32:
        raise ValueError(f"precision={precision!r} is for weights of float32, not {weight.dtype}")
    if engine == "native":
        raise ValueError(
            f"precision={precision!r} is torch's, and engine='native' has all digits: "
            "leave one of them out"
        )
    try:
        with torch.autocast(weight.device.type, torch.bfloat16):
            pass
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"precision={precision!r} on {weight.device}: {reason}") from None
