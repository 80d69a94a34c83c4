"""A detector as a folder: weights, settings, calibration scores, and a card for people to read.

``weights.safetensors`` holds numbers, ``model.json`` says what they are and what their checksum is,
``README.md`` is the card, ``curve.png`` its picture. Reading them runs no code from the folder; a
network of the user's own is not stored, only its weights, and has to be given again.
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from .card import card, draw_curve
from .detector import EnergyDetector
from .energies import MLP, Conv
from .files import check_writable, whole_folder
from .learning import Look
from .reference import KernelReference, TiltedEnergy
from .scaling import Scaling
from .scorer import Scorer

FORMAT = 1
WEIGHTS, ABOUT, CARD, CURVE = "weights.safetensors", "model.json", "README.md", "curve.png"
NETWORKS: dict[str, type[nn.Module]] = {"MLP": MLP, "Conv": Conv}
OWN = "own"
"""The kind of a network that is not the package's."""


class ModelFileError(ValueError):
    """A folder is no model, a damaged one, or one of a later version."""


def save(
    detector: EnergyDetector,
    folder: Path | str,
    title: str = "Energy-based model",
    data: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted detector to ``folder``, whole or not at all; a model there is replaced.

    ``title`` and what ``data`` it was fitted to, if that is told, are for the card. ``training``
    says how the network was trained if not by the detector's own ``fit``.
    """
    folder = Path(folder)
    if not hasattr(detector, "scorer_"):
        raise NotFittedError("this detector is not fitted yet: call fit, then save it")
    check_place(folder)
    tensors = {name: t.contiguous() for name, t in detector.scorer_.state_dict().items()}
    tensors["calibration_scores"] = torch.from_numpy(detector.calibration_scores_)
    weights = safetensors.torch.save(tensors)
    about = _about(detector) | {"sha256": hashlib.sha256(weights).hexdigest()}
    if training is not None:
        about["training"] = dict(training)
    with whole_folder(folder) as filling:
        # As bytes: the library's own writing leaves files that only their owner may read.
        (filling / WEIGHTS).write_bytes(weights)
        (filling / ABOUT).write_text(json.dumps(about, indent=1, allow_nan=False), encoding="utf-8")
        drawn = draw_curve(detector.curve_, filling / CURVE)
        (filling / CARD).write_text(card(detector, title, data, drawn, training), encoding="utf-8")


def check_place(folder: Path) -> None:
    """Whether a model may be written to ``folder``: before the work, and again after it."""
    if folder.is_dir():
        found = {entry.name for entry in folder.iterdir()}
        if found and not found >= {WEIGHTS, ABOUT}:
            raise ModelFileError(
                f"{folder} exists and is no model: choose another folder, or empty it"
            )
        if others := sorted(found - {WEIGHTS, ABOUT, CARD, CURVE}):
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
    try:
        return about, (folder / CARD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{folder}: {CARD} cannot be read: {error}") from error


def load(model: Path | str, network: nn.Module | None = None) -> EnergyDetector:
    """The detector in a folder, or one that comes with the package, such as ``"fashion-mnist"``.

    ``network`` is needed for a model that was fitted with a network of the user's own: one that is
    built alike, whatever its weights. It is copied.
    """
    folder = _folder(model)
    about = _read_about(folder)
    try:
        content = (folder / WEIGHTS).read_bytes()
        tensors = safetensors.torch.load(content)
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelFileError(f"{folder}: {WEIGHTS} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != about.get("sha256"):
        raise ModelFileError(
            f"{folder}: {WEIGHTS} is damaged or another model's: its checksum is not the one in "
            f"{ABOUT}"
        )
    try:
        with torch.random.fork_rng(devices=[]):  # a new network draws weights
            return _rebuilt(about, tensors, network)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from error
    # What a wrong JSON value leads to depends on the value.
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as e:
        reason = " ".join(str(e).split())[:200]
        other = "" if network is None else ", or network is another one"
        raise ModelFileError(
            f"{folder}: {ABOUT} and {WEIGHTS} do not fit together{other} "
            f"({type(e).__name__}: {reason})"
        ) from e


def pretrained() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(entry.parent.name for entry in _shipped().glob("*/model.json"))


def _shipped() -> Path:
    return Path(str(package_files("uspebm"))) / "models"


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
    network = detector.scorer_.energy.network
    kind = type(network).__name__
    known = NETWORKS.get(kind) is type(network)
    settings = {k: _plain(v) for k, v in detector.get_params(deep=False).items() if k != "network"}
    if not isinstance(settings["random_state"], int | None):
        settings["random_state"] = None
    names = getattr(detector, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "event_shape": list(detector.event_shape_),
        "columns": None if names is None else [str(name) for name in names],
        "network": {"kind": kind, "settings": network.settings} if known else {"kind": OWN},
        "network_given": detector.network is not None,
        "reference": detector.scorer_.energy.reference is not None,
        "of_bytes": bool(detector.of_bytes_),
        "settings": settings,
        "offset": _in_json(detector.offset_),
        "curve": [[look.update, _in_json(look.log_likelihood)] for look in detector.curve_],
    }


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _in_json(value: float) -> float | str:
    """JSON has neither infinity nor NaN; as text, ``float`` reads them."""
    return value if math.isfinite(value) else str(value)


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        version = int(about["format"])
    except FileNotFoundError as error:
        raise ModelFileError(f"{folder} is no model's folder: it has no {ABOUT}") from error
    except KeyError as error:
        raise ModelFileError(f"{folder} is no model's folder: {ABOUT} has no 'format'") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{folder}: {ABOUT} cannot be read: {error}") from error
    if version > FORMAT:
        raise ModelFileError(
            f"{folder} is of format {version}; this version of uspebm reads formats up to {FORMAT}:"
            " install a newer one"
        )
    return dict(about)


def _rebuilt(
    about: dict[str, Any], tensors: dict[str, Tensor], network: nn.Module | None
) -> EnergyDetector:
    event = tuple(about["event_shape"])
    given = network
    if network is not None:
        network = copy.deepcopy(network)
    elif about["network"]["kind"] == OWN:
        raise ModelFileError(
            "this model has a network of its maker's own: give it as load(..., network=...)"
        )
    else:
        network = _network(about)
        given = _network(about) if about["network_given"] else None
    reference = None
    if about["reference"]:
        reference = KernelReference(tensors["energy.reference.centres"], 1.0)
    scaling = Scaling(tensors["scaling.shift"], tensors["scaling.factor"])
    scorer = Scorer(scaling, TiltedEnergy(network, reference))
    scores = tensors.pop("calibration_scores")
    for name, tensor in scorer.state_dict().items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            raise TypeError(f"{name} is of {tensors[name].dtype}, not {tensor.dtype}")
    scorer.load_state_dict(tensors)
    if tuple(scaling.shift.shape) != event:
        raise ValueError(f"event_shape {event} is not that of the weights")
    detector = EnergyDetector(network=given, **about["settings"])
    detector.scorer_ = scorer.eval()
    detector.calibration_scores_ = scores.numpy()
    detector.offset_ = float(about["offset"])
    detector.event_shape_ = event
    detector.of_bytes_ = bool(about["of_bytes"])
    detector.n_features_in_ = math.prod(event)
    detector.curve_ = [Look(int(update), float(value)) for update, value in about["curve"]]
    if about["columns"] is not None:
        detector.feature_names_in_ = np.array(about["columns"], dtype=object)
    return detector


def _network(about: dict[str, Any]) -> nn.Module:
    return NETWORKS[about["network"]["kind"]](about["event_shape"], **about["network"]["settings"])
