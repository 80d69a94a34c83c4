"""Energies and their gradients at points, checked once for everyone.

A wrong shape would broadcast silently and a NaN would spread through the particles, so both
stop here with a message.
"""

import copy

import torch
from torch import Tensor, nn

from ..types import Energy, NonFiniteError


def energy_at(energy: Energy, x: Tensor) -> Tensor:
    """Energies ``(N,)`` of points ``x``, without a graph."""
    with torch.no_grad():
        values = energy(x)
    _check(values, x)
    return values


def energy_gradient(energy: Energy, x: Tensor) -> Tensor:
    """The gradient of the energy at each point, shaped like ``x``, without a graph."""
    return energy_and_gradient(energy, x)[1]


def energy_and_gradient(energy: Energy, x: Tensor) -> tuple[Tensor, Tensor]:
    """Energies ``(N,)`` and their gradients, shaped like ``x``, without a graph.

    An energy that finds its gradient faster than autograd offers ``value_and_gradient(x)``.
    """
    values: Tensor
    gradient: Tensor
    known = getattr(energy, "value_and_gradient", None)
    if known is not None:
        values, gradient = known(x)
        _check(values, x)
    else:
        # Inference mode, which enable_grad does not lift, would give zeros in silence.
        with torch.inference_mode(False), torch.enable_grad():
            x = (x.clone() if x.is_inference() else x.detach()).requires_grad_()
            values = energy(x)
            _check(values, x)
            if not values.requires_grad:
                return values, torch.zeros_like(x)  # an energy that does not depend on the point
            (gradient,) = torch.autograd.grad(values.sum(), x)
    if not torch.isfinite(gradient).all():
        raise NonFiniteError(_count("gradients of the energy", gradient.flatten(1).sum(1)))
    return values.detach(), gradient


def check_energy(module: nn.Module, points: Tensor) -> None:
    """Refuse, in one line, a module that cannot be trained as an energy of points like these."""
    try:
        energy_at(copy.deepcopy(module).eval(), points[:2])
    except (RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"energy={type(module).__name__} does not fit points of shape "
            f"{tuple(points.shape[1:])}: {reason}"
        ) from error
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError(f"energy={type(module).__name__} has no parameters to train")


def _check(values: Tensor, x: Tensor) -> None:
    if not isinstance(values, Tensor):
        raise ValueError(f"the energy returned {type(values).__name__}; it must return a tensor")
    if values.shape != x.shape[:1]:
        raise ValueError(
            f"the energy returned shape {tuple(values.shape)} for {len(x)} points; "
            f"it must return one number per point, shape ({len(x)},)"
        )
    if not torch.isfinite(values).all():
        raise NonFiniteError(_count("energies", values))


def _count(what: str, values: Tensor) -> str:
    bad = int((~torch.isfinite(values)).sum())
    return f"{bad} of {len(values)} {what} are not finite"
