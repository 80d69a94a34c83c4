"""A training once more, from its record, and where it differs from what it was."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..support.reading import UnreadableError
from ..support.threads import computing_threads
from ..training import DivergedError
from ..training.run_log import log_rows, whole_rows
from ..types import Proposal
from .plain import OwnPartError, as_plain, fingerprint, from_plain
from .record import changed, environment, read_record
from .run import Run

NOT_COMPARED = ("seconds",)
"""Of a log's line: what is no part of the result."""


class Repetition(NamedTuple):
    """What came of a repetition."""

    difference: str | None
    """The first one, in words; None where all is the same, bit for bit."""
    changed: list[str]
    """What the computation was made with and is not any more."""
    updates: int
    """That were repeated."""
    weights: str | None
    """A digest of those at the end; None where there was none to compare with."""


def repeated(folder: Path, out: Path, points: Tensor | None, show: bool = True) -> Repetition:
    """Repeat the run in ``folder`` in ``out``: as far as it came, with as many threads.

    ``points`` are what it was trained on, if that was no law; others are not trained on.
    """
    settings, record = _settings(folder), read_record(folder)
    data = _law(folder, record.law) if points is None else points
    if isinstance(data, Tensor):
        if fingerprint(data) != settings["data"]:
            data = data.float()  # as networks are mostly trained
        if (found := fingerprint(data)) != settings["data"]:
            said = f"the data: their fingerprint was {settings['data']}, is {found}"
            return Repetition(said, changed(record.environments, environment()), 0, None)
    then, back = log_rows(folder / "log.jsonl"), len(whole_rows(folder / "rollbacks.jsonl"))
    last, recipe = record.environments[-1], _recipe(folder, settings["recipe"])
    with computing_threads(last["threads"]):
        now = changed(record.environments, environment(last["device"]))
        run = Run(recipe, data, out, settings["seed"], show, last["device"])
        with suppress(DivergedError):  # as the first may have
            for one in run:
                # Before the last time that it went back, it may have come further.
                as_often = len(run.rollback.done) >= back
                if record.weights is None and as_often and one.step >= len(then):
                    break
        weights = as_plain(run.energy)["digest"] if record.weights else None
    history = run.history if record.weights else run.history[: len(then)]
    difference = first_difference(_compared(then), _compared(history), "log.jsonl")
    if difference is None and weights != record.weights:
        difference = f"the weights: their digest was {record.weights}, is {weights}"
    return Repetition(difference, now, len(history), weights)


def first_difference(then: Any, now: Any, where: str) -> str | None:
    """Of two values as JSON holds them, in words; None where they are the same.

    >>> first_difference({"a": [1, 2.5]}, {"a": [1, 3]}, "model.json")
    'model.json, a, 2: was 2.5, is 3'
    """
    if isinstance(then, dict) and isinstance(now, dict):
        names = [*then, *(name for name in now if name not in then)]
        pairs = [(name, then.get(name), now.get(name)) for name in names]
    elif isinstance(then, list) and isinstance(now, list):
        pairs = [(str(k + 1), a, b) for k, (a, b) in enumerate(zip(then, now, strict=False))]
        if len(then) != len(now):
            pairs.append(("length", len(then), len(now)))
    else:
        # By its digits: NaN, which a log may hold, does not equal itself.
        same = json.dumps(then) == json.dumps(now)
        return None if same else f"{where}: was {_short(then)}, is {_short(now)}"
    found = (first_difference(a, b, f"{where}, {name}") for name, a, b in pairs)
    return next((one for one in found if one is not None), None)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows]


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    try:
        settings = dict(json.loads(path.read_text()))
        if missing := {"recipe", "data", "seed"} - settings.keys():
            raise LookupError(f"it has no {min(missing)}")
        if not isinstance(settings["seed"], int):
            raise TypeError(f"seed={settings['seed']!r} is no whole number")
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableError(f"{path} is damaged: {' '.join(str(error).split())}") from error
    return settings


def _recipe(folder: Path, plain: Any) -> Any:
    try:
        return from_plain(plain)
    except OwnPartError as error:
        raise ValueError(f"{folder} cannot be repeated by its record: {error}") from error


def _law(folder: Path, plain: Any) -> Proposal:
    if plain is None:
        raise ValueError(f"{folder} was trained on data that it does not hold: give them as --data")
    law: Proposal = _recipe(folder, plain)
    return law
