"""A detector as a folder: weights, settings, calibration scores, and a card for people to read.

``weights.safetensors`` holds numbers, ``model.json`` says what they are, ``README.md`` is the card,
``curve.png`` its picture. Reading them runs no code from the folder; a network of the user's own is
not stored, only its weights, and has to be given again.
"""

import json
import math
import os
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
from .files import whole_folder
from .learning import Look
from .reference import KernelReference, TiltedEnergy
from .scaling import Scaling
from .scorer import Scorer

FORMAT = 1
NETWORKS: dict[str, type[nn.Module]] = {"MLP": MLP, "Conv": Conv}
OWN = "own"
"""The kind of a network that is not the package's."""


class ModelFileError(ValueError):
    """A folder is no model, a damaged one, or one of a later version."""


def save(detector: EnergyDetector, folder: Path | str, title: str = "Energy-based model") -> None:
    """Write a fitted detector to ``folder``, whole or not at all; a model there is replaced."""
    folder = Path(folder)
    if not hasattr(detector, "scorer_"):
        raise NotFittedError("this detector is not fitted yet: call fit, then save it")
    check_place(folder)
    tensors = {name: t.contiguous() for name, t in detector.scorer_.state_dict().items()}
    tensors["calibration_scores"] = torch.from_numpy(detector.calibration_scores_)
    about = _about(detector)
    with whole_folder(folder) as unfinished:
        # As bytes: the library's own writing leaves files that only their owner may read.
        (unfinished / "weights.safetensors").write_bytes(safetensors.torch.save(tensors))
        (unfinished / "model.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
        (unfinished / "README.md").write_text(card(detector, title), encoding="utf-8")
        if len(detector.curve_) > 1:
            draw_curve(detector.curve_, unfinished / "curve.png")


def check_place(folder: Path) -> None:
    """Whether a model may be written to ``folder``: before the work, and again after it."""
    if folder.is_file():
        raise ModelFileError(f"{folder} is a file: choose a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "model.json").exists():
        raise ModelFileError(f"{folder} exists and is no model: choose another folder, or empty it")
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{folder} cannot be written: no permission in {place}")


def describe(model: Path | str) -> tuple[dict[str, Any], str]:
    """What ``model.json`` says, and the card."""
    folder = _folder(model)
    about = _read_about(folder)
    try:
        return about, (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{folder}: README.md cannot be read: {error}") from error


def load(model: Path | str, network: nn.Module | None = None) -> EnergyDetector:
    """The detector in a folder, or one that comes with the package, such as ``"fashion-mnist"``.

    ``network`` is needed for a model that was fitted with a network of the user's own.
    """
    folder = _folder(model)
    about = _read_about(folder)
    try:
        tensors = safetensors.torch.load_file(folder / "weights.safetensors")
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelFileError(f"{folder}: weights.safetensors cannot be read: {error}") from error
    try:
        return _rebuilt(about, tensors, network)
    except (KeyError, TypeError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelFileError(
            f"{folder}: model.json and weights.safetensors do not fit together ({reason})"
        ) from error


def pretrained() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(entry.parent.name for entry in _shipped().glob("*/model.json"))


def _shipped() -> Path:
    return Path(str(package_files("uspebm"))) / "models"


def _folder(model: Path | str) -> Path:
    folder = Path(model)
    if folder.is_dir():
        return folder
    if str(model) in pretrained():
        return _shipped() / str(model)
    raise ModelFileError(
        f"{model} is no model's folder, and none of the models that come with the package: "
        f"{', '.join(pretrained())}"
    )


def _about(detector: EnergyDetector) -> dict[str, Any]:
    network = detector.scorer_.energy.network
    kind = type(network).__name__
    known = NETWORKS.get(kind) is type(network)
    settings = {k: v for k, v in detector.get_params(deep=False).items() if k != "network"}
    if not isinstance(settings["random_state"], int | None):
        settings["random_state"] = None
    names = getattr(detector, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "event_shape": list(detector.event_shape_),
        "columns": None if names is None else [str(name) for name in names],
        "network": {"kind": kind, "settings": network.settings} if known else {"kind": OWN},
        "reference": detector.scorer_.energy.reference is not None,
        "of_bytes": detector.of_bytes_,
        "settings": settings,
        "offset": detector.offset_,
        "curve": [list(look) for look in detector.curve_],
    }


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        version = int(about["format"])
    except FileNotFoundError as error:
        raise ModelFileError(f"{folder} is no model folder: it has no model.json") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{folder}: model.json cannot be read: {error}") from error
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
    if about["network"]["kind"] == OWN:
        if network is None:
            raise ModelFileError(
                "this model has a network of its maker's own: give it as load(..., network=...)"
            )
    elif network is None:
        network = NETWORKS[about["network"]["kind"]](event, **about["network"]["settings"])
    reference = None
    if about["reference"]:
        reference = KernelReference(tensors["energy.reference.centres"], 1.0)
    scaling = Scaling(tensors["scaling.shift"], tensors["scaling.factor"])
    scorer = Scorer(scaling, TiltedEnergy(network, reference))
    scores = tensors.pop("calibration_scores")
    scorer.load_state_dict(tensors)
    detector = EnergyDetector(**about["settings"])
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
