"""Recipes as JSON, and back.

A value is written as its class's name and its fields; only the classes listed here are ever made
again, so that reading a recipe runs no code but their constructors, which check their settings.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from ..domains import Box
from ..energies import Gaussian, GaussianMixture
from ..energies.features import FeatureRule
from ..energies.neighbour import NeighbourRule
from ..energies.reading import Reading
from ..energies.rules import ConvRule, MLPRule, ReconstructionRule
from ..negative import (
    USP,
    CrowdedUSP,
    Importance,
    Langevin,
    PersistentUSP,
    RandomFields,
    Replay,
    RiemannGrid,
)
from ..objective import Leveled, Likelihood, Tempered
from .held_out import HeldOut
from .recipe import AtData, Recipe, Schedule
from .tables import TiltChains, TiltDraws, TiltedKernel, TiltPartition

KNOWN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Recipe, Schedule, HeldOut, AtData),
        *(MLPRule, ReconstructionRule, ConvRule, TiltedKernel, NeighbourRule),
        *(FeatureRule, Reading),
        *(Langevin, Replay, Importance, RiemannGrid, USP, PersistentUSP, CrowdedUSP),
        *(TiltDraws, TiltChains, TiltPartition),
        *(Likelihood, Leveled, Tempered),
        *(Box, Gaussian, GaussianMixture, RandomFields),
    )
}


class OwnPartError(ValueError):
    """A recipe has a part of its maker's own, which no file can hold."""


def as_plain(value: Any) -> Any:
    """``value`` as JSON's dictionaries, lists and numbers; what has no such form, as a digest."""
    if isinstance(value, nn.Module):
        digest = hashlib.blake2b(repr(value).encode())
        for name, tensor in value.state_dict().items():
            digest.update(name.encode() + fingerprint(tensor).encode())
        return {"kind": type(value).__name__, "digest": digest.hexdigest()[:16]}
    if isinstance(value, Tensor):
        return {"kind": "Tensor", "shape": list(value.shape), "digest": fingerprint(value)}
    if is_dataclass(value):
        content = {f.name: as_plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": _kind(value), **content}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"kind": _kind(value), "repr": repr(value)}


def _kind(value: Any) -> str:
    """The class's name; with its module where one of ours is called alike."""
    kind = type(value)
    known = KNOWN.get(kind.__name__, kind) is kind
    return kind.__name__ if known else f"{kind.__module__}.{kind.__qualname__}"


def from_plain(plain: Any) -> Any:
    """The value that ``as_plain`` was given, equal to it; its numbers are checked anew."""
    if isinstance(plain, list):
        return tuple(from_plain(one) for one in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain.get("kind")
    if kind not in KNOWN:
        raise OwnPartError(f"{kind} is no part of a recipe that this version of uspebm knows")
    return KNOWN[kind](**{k: from_plain(v) for k, v in plain.items() if k != "kind"})


def fingerprint(tensor: Tensor) -> str:
    """Sixteen digits that tell one tensor's content from another's."""
    content = tensor.detach().cpu().contiguous().numpy().data  # bytes would be a copy
    return hashlib.blake2b(content, digest_size=8).hexdigest()
