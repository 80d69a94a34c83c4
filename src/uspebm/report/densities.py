"""Densities of the line and plane through training, as a player with a slider."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..recipes.frames import Frame
from .page import Picture, Player

RANGE = 12.0
"""Nats below the highest density that are told apart."""
MOST_FRAMES = 60
"""Of all runs of a player together."""
METHOD_COLOURS = {"ps_usp": "@ps_usp", "srlmc": "@srlmc", "importance": "@importance"}
METHOD_NAMES = {"ps_usp": "PS-USP", "srlmc": "SRLMC"}


def density_player(
    runs: Mapping[str, Sequence[Frame]], truth: Frame | None, title: str, note: str
) -> Player | None:
    """Runs side by side, behind the truth where it is known; None if none has a density."""
    each = max(4, MOST_FRAMES // max(1, len(runs)))
    shown = {n: kept for n, frames in runs.items() if (kept := _with_density(frames, each))}
    if not shown:
        return None
    first = next(iter(shown.values()))[-1]
    shown = {
        name: kept for name, kept in shown.items() if kept[-1].log_q.shape == first.log_q.shape
    }
    known = truth is not None and truth.log_q.shape == first.log_q.shape
    top = float(truth.log_q.max() if truth is not None and known else first.log_q.max())
    flat = first.log_q.ndim == 2
    panels = [_panel(name, kept, top) for name, kept in shown.items()]
    pictures = [_described(name, kept) for name, kept in shown.items()]
    if truth is not None and known and flat:
        panels.insert(0, {"colour": "@data", **_framed([truth], top)})
        pictures.insert(0, Picture("", "The density that the data come from.", "the truth"))
    data: dict[str, Any] = {
        "view": (truth if truth is not None and known else first).box.tolist(),
        "cells": len(first.log_q),
        "top": top,
        "range": RANGE,
        "truth": _framed([truth], top) if truth is not None and known else None,
        "panels": panels,
    }
    return Player(title, data, tuple(pictures), note)


def method_name(name: str) -> str:
    """As people call it; a run's own name where it is no method's."""
    return METHOD_NAMES.get(name, name)


def _with_density(frames: Sequence[Frame], most: int) -> list[Frame]:
    """At most so many of them, the first and the last among them."""
    found = [frame for frame in frames if frame.log_q.size]
    if len(found) <= most:
        return found
    return [found[k] for k in np.linspace(0, len(found) - 1, most).round().astype(int)]


def _panel(name: str, frames: Sequence[Frame], top: float) -> dict[str, Any]:
    colour = METHOD_COLOURS.get(name.partition("-")[0], "@third")
    return {"colour": colour, **_framed(frames, top)}


def _framed(frames: Sequence[Frame], top: float) -> dict[str, Any]:
    box = frames[-1].box.tolist()
    return {"low": box[0], "high": box[1], "frames": [_packed(frame, top) for frame in frames]}


def _described(name: str, frames: Sequence[Frame]) -> Picture:
    last = frames[-1]
    points = f", and {len(last.points):,} of its points" if len(last.points) else ""
    alt = f"The density that {method_name(name)} has learned{points}; the slider sets the update."
    return Picture("", alt, method_name(name))


def _packed(frame: Frame, top: float) -> dict[str, Any]:
    points = ""
    if len(frame.points):
        low, high = frame.box
        share = (frame.points - low) / (high - low)
        seen = share[((share >= 0) & (share <= 1)).all(1)]
        points = _base64((seen * 65535).round().astype("<u2"))
    return {"step": frame.step, "density": _bytes(frame.log_q, top), "points": points}


def _bytes(log_q: NDArray[np.float32], top: float) -> str:
    """Of every cell its logarithm below the top: a byte on the plane, two on the line."""
    share = (1 + (log_q.astype(np.float64) - top) / RANGE).clip(0, 1)
    if log_q.ndim == 1:
        return _base64((share * 65535).round().astype("<u2"))
    return _base64((share * 255).round().astype(np.uint8))


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode()
