"""A detector as a folder: weights, settings, calibration scores, and a card for people to read.

``weights.safetensors`` holds numbers, ``model.json`` says what they are, who made them (the version
of the package, the date, the recipe with its seed) and what the checksum of all of it is;
``README.md`` is the card, ``curve.png`` its picture. Reading them runs no code from the folder; an
energy of the user's own is not stored, only its weights, and has to be given again.
"""

import hashlib
import json
import math
from datetime import UTC, datetime
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from .. import __version__
from ..data.encoding import Encoding
from ..energies.scaling import Scaling
from ..recipes.held_out import Look
from ..recipes.plain import OwnPartError, as_plain, from_plain
from ..support.files import check_writable, whole_folder
from ..support.reading import UnreadableError, one_line, read_at_most, reading
from .card import card, draw_curve
from .choice import OWN
from .decisions import plain_number
from .energy_detector import EnergyDetector
from .energy_parts import OWN_ENERGY, check_weights, energy_from, parts_of
from .fitting import KnownScores
from .worth import Worth

FORMAT = 2
WEIGHTS, ABOUT, CARD, CURVE = "weights.safetensors", "model.json", "README.md", "curve.png"
REPORT, EVIDENCE, DRIFT = "report.html", "evidence.json", "drift.json"
"""What :mod:`uspebm.report` may add: a page, and what it is made of."""
MOST_SAID = 1 << 22
"""Bytes that a model's JSON may have, and its card; more where the weights have more."""
SETTINGS = ("calibration", "false_alarm_rate", "verbose")
"""Of the constructor's, those that are stored as they are."""


class ModelFileError(UnreadableError):
    """A folder is no model, a damaged one, or one of another version."""


def save_model(
    detector: EnergyDetector,
    folder: Path | str,
    title: str = "Energy-based model",
    data: str | None = None,
    made: dict[str, Any] | None = None,
) -> None:
    """Write a fitted detector to ``folder``, whole or not at all; a model there is replaced.

    ``title`` and what ``data`` it was fitted to, if that is told, are for the card; how it was
    ``made``, in JSON's values, is for who repeats it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     save_model(load("fashion-mnist"), f"{place}/model")
    ...     describe(f"{place}/model")[0]["recipe"]["name"]
    'images-energy'
    """
    folder = Path(folder)
    if not hasattr(detector, "scorer_"):
        raise NotFittedError("this detector is not fitted yet: call fit, then save it")
    check_place(folder)
    tensors = {name: t.contiguous() for name, t in detector.scorer_.state_dict().items()}
    tensors |= detector.calibrated_by().tensors()
    weights = safetensors.torch.save(tensors)
    about = _about(detector) | {"title": title, "data": data, "made": made}
    about["sha256"] = _checksum(about, weights)
    with whole_folder(folder) as filling:
        # As bytes: the library's own writing leaves files that only their owner may read.
        (filling / WEIGHTS).write_bytes(weights)
        (filling / ABOUT).write_text(json.dumps(about, indent=1, allow_nan=False), encoding="utf-8")
        drawn = draw_curve(detector.curve_, filling / CURVE)
        (filling / CARD).write_text(card(detector, title, data, drawn), encoding="utf-8")


def check_place(folder: Path) -> None:
    """Whether a model may be written to ``folder``: before the work, and again after it."""
    if folder.is_dir():
        found = {entry.name for entry in folder.iterdir()}
        if found and not found >= {WEIGHTS, ABOUT}:
            raise ModelFileError(
                f"{folder} exists and is no model: choose another folder, or empty it"
            )
        if others := sorted(found - {WEIGHTS, ABOUT, CARD, CURVE, REPORT, EVIDENCE, DRIFT}):
            raise ModelFileError(
                f"{folder} is a model that would be replaced, but also holds {others[0]!r}: choose "
                "another folder, or move that"
            )
    elif folder.exists():
        raise ModelFileError(f"{folder} is a file: choose a folder")
    check_writable(folder.resolve())


def describe(model: Path | str) -> tuple[dict[str, Any], str]:
    """What ``model.json`` says, and the card."""
    folder = _folder(model)
    about = _read_about(folder)
    return about, _content(folder / CARD, MOST_SAID).decode(errors="replace")


def load(model: Path | str, energy: nn.Module | None = None) -> EnergyDetector:
    """The detector in a folder, or one that comes with the package, such as ``"fashion-mnist"``.

    ``energy`` is needed for a model of an energy of the user's own: one that is built alike,
    whatever its weights. It is copied.

    >>> load("fashion-mnist").predict(np.zeros((1, 28, 28), np.uint8))  # a black image: no clothes
    array([-1])
    """
    folder = _folder(model)
    about = _read_about(folder)
    content = _content(folder / WEIGHTS)
    with reading(folder / WEIGHTS, error=ModelFileError):
        tensors = safetensors.torch.load(content)
    if about.get("sha256") != _checksum(about, content):
        raise ModelFileError(
            f"{folder}: {WEIGHTS} and {ABOUT} are damaged, or not of one model: their checksum is "
            f"not the one in {ABOUT}"
        )
    other = "" if energy is None else ", or energy is another one"
    with reading(
        folder, f"has {ABOUT} and {WEIGHTS} that do not fit together{other}", ModelFileError
    ):
        return _rebuilt(about, tensors, energy, folder)


def pretrained() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(entry.parent.name for entry in _shipped().glob("*/model.json"))


def _shipped() -> Path:
    return Path(str(package_files("uspebm"))) / "detector" / "models"


def _folder(model: Path | str) -> Path:
    folder = Path(model)
    # A folder of data may be called as a model of the package is.
    if str(model) in pretrained() and not (folder / ABOUT).exists():
        return _shipped() / str(model)
    if folder.is_dir():
        return folder
    known = ", ".join(pretrained()) or "none so far"
    raise ModelFileError(
        f"{model} is no model's folder, nor the name of a model of the package ({known})"
    )


def _about(detector: EnergyDetector) -> dict[str, Any]:
    names = getattr(detector, "feature_names_in_", None)
    normaliser = detector.scorer_.log_normaliser.item()
    error = detector.log_z_error_
    settings = {name: plain_number(getattr(detector, name)) for name in SETTINGS}
    return {
        "format": FORMAT,
        "uspebm": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "recipe": as_plain(detector.recipe_),
        "seed": detector.seed_,
        "event_shape": list(detector.event_shape_),
        "encoding": None if detector.encoding_ is None else detector.encoding_.as_plain(),
        "columns": None if names is None else [str(name) for name in names],
        "dropped_columns": list(detector.dropped_columns_),
        "of_bytes": bool(detector.of_bytes_),
        "resized": bool(detector.resized_),
        "energy": parts_of(detector.scorer_.energy),
        "log_z": None if error is None else [normaliser, _in_json(error)],
        "settings": settings,
        "offset": detector.offset_,
        "folded": detector.folded_,
        "worth": None if detector.worth_ is None else list(detector.worth_),
        "curve": [[look.update, _in_json(look.log_likelihood)] for look in detector.curve_],
    }


def _in_json(value: float) -> float | str:
    """JSON has neither infinity nor NaN; as text, ``float`` reads them."""
    return value if math.isfinite(value) else str(value)


def _checksum(about: dict[str, Any], weights: bytes) -> str:
    """Of the weights and all that is said of them, but for the checksum itself."""
    said = {name: value for name, value in about.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    digest.update(weights)
    return digest.hexdigest()


def _read_about(folder: Path) -> dict[str, Any]:
    path, weights = folder / ABOUT, folder / WEIGHTS
    if not path.exists():
        raise ModelFileError(f"{folder} is no model's folder: it has no {ABOUT}")
    # Names of a million columns may be many, and then so are the weights.
    content = _content(path, max(MOST_SAID, weights.stat().st_size if weights.exists() else 0))
    with reading(path, error=ModelFileError):
        about = dict(json.loads(content, parse_float=_as_written))
        if "format" not in about:
            raise ModelFileError(f"{folder} is no model's folder: {ABOUT} has no 'format'")
        version = int(about["format"])
    if version != FORMAT:
        how = "install a newer one" if version > FORMAT else "fit the model again"
        raise ModelFileError(
            f"{folder} is of format {version}; this version of uspebm reads format {FORMAT}: {how}"
        )
    return about


def _as_written(number: str) -> float:
    """Only as ``json`` writes it: its last digit may be another one, and its value the same."""
    if number != repr(float(number)):
        raise ValueError(f"{number} is damaged: such numbers are not written")
    return float(number)


def _content(path: Path, most: int | None = None) -> bytes:
    """Of a file that is part of a model; ``most``: bytes that it may have."""
    try:
        return path.read_bytes() if most is None else read_at_most(path, most, ModelFileError)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {one_line(error)}") from error


def _rebuilt(
    about: dict[str, Any], tensors: dict[str, Tensor], energy: nn.Module | None, folder: Path
) -> EnergyDetector:
    if energy is None and about["energy"] == OWN_ENERGY:
        raise ModelFileError(
            f"{folder}: this model has an energy of its maker's own: give one that is built alike "
            "as load(..., energy=...)"
        )
    units = Scaling(tensors["scaling.shift"], tensors["scaling.factor"])
    event = tuple(units.shift.shape)
    if tuple(about["event_shape"]) != event:
        raise ValueError(f"event_shape is not that of the weights, {event}")
    if tuple(units.factor.shape) not in ((), event, 2 * event) or units.factor.dim() > 2:
        raise ValueError(
            f"scaling.factor of shape {tuple(units.factor.shape)} is no unit of {event}"
        )
    known = KnownScores.from_tensors(tensors, event, bool(about.get("folded", False)))
    detector = EnergyDetector.from_energy(
        energy_from(about["energy"], event, tensors) if energy is None else energy,
        known,
        scaling=units,
        of_bytes=bool(about["of_bytes"]),
        recipe=_recipe(about["recipe"]),
        random_state=about["seed"],
        **{name: about["settings"][name] for name in SETTINGS},
    )
    for name, tensor in detector.scorer_.state_dict().items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            raise TypeError(f"{name} is of {tensors[name].dtype}, not {tensor.dtype}")
    detector.scorer_.load_state_dict(tensors)
    check_weights(detector.scorer_)
    detector.log_z_error_ = None if about["log_z"] is None else float(about["log_z"][1])
    detector.offset_ = float(about["offset"])
    if not math.isfinite(detector.offset_):
        raise ValueError("the threshold is no finite number")
    detector.curve_ = [Look(int(update), float(value)) for update, value in about["curve"]]
    if (worth := about.get("worth")) is not None:  # older models have none
        detector.worth_ = Worth(*map(float, worth))
        if not all(0 <= share <= 1 for share in detector.worth_):
            raise ValueError("the worth is no two shares")
    detector.dropped_columns_ = _names(about["dropped_columns"])
    detector.resized_ = bool(about.get("resized", False))  # older models never were
    if about.get("encoding") is not None:
        encoding = Encoding.from_plain(about["encoding"])
        if (len(encoding.names),) != event:
            raise ValueError(f"the columns make {len(encoding.names)} numbers, not {event[0]}")
        detector.set_encoding(encoding)
    elif about["columns"] is not None:
        names = _names(about["columns"])
        if len(names) != event[0]:
            raise ValueError(f"there are {len(names)} names of {event[0]} columns")
        detector.feature_names_in_ = np.array(names, dtype=object)
    return detector


def _names(plain: Any) -> tuple[str, ...]:
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise ValueError("columns have names, in a list")
    return tuple(plain)


def _recipe(plain: Any) -> Any:
    if plain is None:
        return OWN
    try:
        return from_plain(plain)
    except OwnPartError:
        return OWN
