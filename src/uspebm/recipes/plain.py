"""Recipes as JSON, and back.

A value is written as its class's name and its fields; only the classes listed here are ever made
again, so that reading a recipe runs no code but their constructors, which check their settings.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
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
    Interpolated,
    Langevin,
    PersistentUSP,
    RandomFields,
    Replay,
    RiemannGrid,
)
from ..objective import Leveled, Likelihood, Tempered
from ..types import Proposal
from .held_out import HeldOut
from .recipe import AtData, Recipe, Schedule
from .tables import TiltChains, TiltDraws, TiltedKernel, TiltPartition

KNOWN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Recipe, Schedule, HeldOut, AtData),
        *(MLPRule, ReconstructionRule, ConvRule, TiltedKernel, NeighbourRule),
        *(FeatureRule, Reading),
        *(Langevin, Replay, Interpolated, Importance, RiemannGrid),
        *(USP, PersistentUSP, CrowdedUSP),
        *(TiltDraws, TiltChains, TiltPartition),
        *(Likelihood, Leveled, Tempered),
        *(Box, Gaussian, GaussianMixture, RandomFields),
    )
}

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""In the words for an object without words of its own: where it lies, which differs each time."""


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
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        bits = hashlib.blake2b(np.ascontiguousarray(value).data, digest_size=8).hexdigest()
        kind = f"ndarray of {value.dtype}"
        return {"kind": kind, "shape": list(value.shape), "digest": bits}
    if isinstance(value, dict):
        return {"kind": "dict", "has": [[as_plain(k), as_plain(v)] for k, v in value.items()]}
    wordless: bool = getattr(type(value), "__repr__", None) is object.__repr__
    if wordless and hasattr(value, "__dict__"):
        return {"kind": _qualified(type(value)), "has": as_plain(vars(value))["has"]}
    if getattr(value, "__closure__", value) is None:  # a function that knows no more than it says
        return {"kind": "function", "name": _qualified(value)}
    return {"kind": _kind(value), "repr": repr(value)}


def named_law(law: Proposal) -> Any:
    """``law`` in words, or in JSON's values, by which it is known again."""
    return as_plain(law) if ADDRESS.search(repr(law)) else repr(law)


def refuse_addresses(settings: dict[str, Any]) -> None:
    """An error where something in them would not be known again by another process."""
    if found := ADDRESS.search(said := json.dumps(settings)):
        part = said[max(0, found.start() - 60) : found.end()]
        raise ValueError(
            f"a run in a folder could not go on: a part of its recipe or its law is told only by "
            f"where it lies in memory (…{part}…); give its class a __repr__, or train without a "
            "folder"
        )


def _kind(value: Any) -> str:
    """The class's name; with its module where one of ours is called alike."""
    kind = type(value)
    known = KNOWN.get(kind.__name__, kind) is kind
    return kind.__name__ if known else _qualified(kind)


def _qualified(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


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
