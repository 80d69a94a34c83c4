"""What an energy is made of, in words that JSON holds; and an energy made of them again."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from ..energies import MLP, Conv, Reconstruction
from ..energies.features import FeatureEnergy, Joined, Pixels, features_of
from ..energies.kernel import KernelReference, TiltedEnergy
from ..energies.monotone import PiecewiseLinear
from ..energies.neighbour import READINGS, NeighbourEnergy, View
from ..energies.reading import PLAIN, Reading
from ..energies.scaling import Scaling
from ..energies.turning import Turning
from ..support.checks import at_least

NETWORKS: dict[str, type[MLP | Conv | Reconstruction | Pixels]] = {
    "MLP": MLP,
    "Conv": Conv,
    "Reconstruction": Reconstruction,
    "Pixels": Pixels,
}
STEEPEST = 1e6
"""A slope is below one, and beyond this no number for a network."""
OWN_ENERGY = {"kind": "own"}


def parts_of(energy: nn.Module) -> dict[str, Any]:
    """By kind and settings; ``own`` for what is not the package's."""
    if type(energy) is FeatureEnergy:
        network = parts_of(energy.network)
        if network == OWN_ENERGY:
            return network
        over = {"kind": "FeatureEnergy", "neighbours": energy.neighbours, "network": network}
        if energy.reading != PLAIN:
            over["reading"] = asdict(energy.reading)
        return over if len(energy.widths) == 1 else {**over, "widths": list(energy.widths)}
    if type(energy) is Joined:
        networks = [parts_of(network) for network in energy.networks]
        own = OWN_ENERGY in networks
        return dict(OWN_ENERGY) if own else {"kind": "Joined", "networks": networks}
    if type(energy) is TiltedEnergy:
        network = parts_of(energy.network)
        return network if network == OWN_ENERGY else {"kind": "TiltedEnergy", "network": network}
    if type(energy) is NeighbourEnergy:
        views = [_view_parts(view) for view in energy.views]
        return {"kind": "NeighbourEnergy", "views": views}
    kind = type(energy).__name__
    if NETWORKS.get(kind) is type(energy):
        return {"kind": kind, "settings": energy.settings}
    return dict(OWN_ENERGY)


def energy_from(
    parts: dict[str, Any], event_shape: tuple[int, ...], tensors: dict[str, Tensor]
) -> nn.Module:
    """An energy of these parts, for ``tensors`` that are yet to be loaded into it.

    Whatever the parts say, no more is built than there are tensors for.
    """
    if parts["kind"] == "FeatureEnergy":
        network = _network(parts["network"], event_shape, tensors, "energy.network.")
        return _over_features(network, parts, event_shape, tensors)
    if parts["kind"] == "NeighbourEnergy":
        return _over_neighbours(parts, event_shape, tensors)
    if parts["kind"] in ("Pixels", "Joined"):
        raise ValueError(f"{parts['kind']} has features, and is no energy")
    if parts["kind"] != "TiltedEnergy":
        return _network(parts, event_shape, tensors, "energy.")
    centres = tensors["energy.reference.centres"]
    if not len(centres) or tuple(centres.shape[1:]) != event_shape:
        raise ValueError(f"centres of shape {tuple(centres.shape)} are no points of {event_shape}")
    network = _network(parts["network"], event_shape, tensors, "energy.network.")
    return TiltedEnergy(network, KernelReference(centres, 1.0))


def check_weights(module: nn.Module) -> None:
    """An error where weights are not finite: every score would be minus infinity."""
    for name, weight in module.named_parameters():
        if not weight.isfinite().all():
            raise ValueError(f"{name} has numbers that are not finite")


def _view_parts(view: Any) -> dict[str, Any]:
    return {"units": type(view.units).__name__, "neighbours": view.neighbours}


def _over_neighbours(
    parts: dict[str, Any], event_shape: tuple[int, ...], tensors: dict[str, Tensor]
) -> NeighbourEnergy:
    found = []
    for k, view in enumerate(parts["views"]):
        own = f"energy.views.{k}."
        units: nn.Module
        if view["units"] == "Scaling":
            units = Scaling(tensors[f"{own}units.shift"], tensors[f"{own}units.factor"])
            seen = units.shift.shape
        elif view["units"] == "PiecewiseLinear":
            units = _curves(f"{own}units.", tensors)
            seen = units.knots.shape[:1]
        else:
            raise ValueError(f"units of kind {view['units']!r} are not known")
        centres, scale = tensors[f"{own}centres"], tensors[f"{own}log_scale"]
        tails = _curves(f"{own}tails.", tensors)
        if tuple(seen) != event_shape or tuple(centres.shape[1:]) != event_shape:
            raise ValueError(f"view {k} is not of points of {event_shape}")
        if len(tails.knots) != READINGS:
            raise ValueError(f"view {k} has {len(tails.knots)} tails, not {READINGS}")
        at_least(1, neighbours=view["neighbours"])
        found.append(View(units, centres, scale, tails, view["neighbours"]))
    return NeighbourEnergy(found)


def _curves(prefix: str, tensors: dict[str, Tensor]) -> PiecewiseLinear:
    names = ("knots", "values", "slopes")
    return PiecewiseLinear(*(tensors[prefix + name] for name in names))


def _over_features(
    network: nn.Module,
    parts: dict[str, Any],
    event_shape: tuple[int, ...],
    tensors: dict[str, Tensor],
) -> FeatureEnergy:
    centres, scale = tensors["energy.centres"], tensors["energy.log_scale"]
    # Models that were saved before each network had a distance of its own have no widths.
    widths, frame = parts.get("widths", []), None
    networks = 2 if parts["network"]["kind"] == "Joined" and "energy.turn" in tensors else 1
    if not isinstance(widths, list) or len(widths) not in (0, networks):
        raise ValueError(f"a list of {networks} widths is needed, not {widths}")
    if "energy.turn" in tensors:
        frame = Turning(tensors["energy.shift"], tensors["energy.turn"], tuple(widths))
    seen = _features_of(parts["network"], event_shape)
    wanted = centres.shape[-1] if frame is None else len(frame.shift)
    if seen != wanted:
        raise ValueError(f"the network has {seen} features, not {wanted}")
    # Older ones have no reading, or one without a cap.
    usual = asdict(PLAIN)
    said = parts.get("reading", usual)
    if not isinstance(said, dict) or {*said, "cap"} != {*usual}:
        raise ValueError(f"reading={said} must have {', '.join(usual)}")
    return FeatureEnergy(network, centres, scale, frame, parts["neighbours"], Reading(**said))


def _joined(parts: dict[str, Any]) -> list[dict[str, Any]]:
    """The two networks' parts, none of which is joined itself."""
    networks = parts["networks"]
    kinds = [part.get("kind") for part in networks if isinstance(part, dict)]
    if len(networks) != 2 or sum(str(kind) in NETWORKS for kind in kinds) != 2:
        raise ValueError(f"networks={networks} must be two, each one of {', '.join(NETWORKS)}")
    return list(networks)


def _features_of(parts: dict[str, Any], event_shape: tuple[int, ...]) -> int:
    """How many features a network has, without a number of it."""
    if parts["kind"] == "Joined":
        return sum(_features_of(part, event_shape) for part in _joined(parts))
    with torch.device("meta"):
        network = NETWORKS[parts["kind"]](event_shape, **parts["settings"])
        return features_of(network, torch.empty(1, *event_shape)).shape[1]


def _network(
    parts: dict[str, Any], event_shape: tuple[int, ...], tensors: dict[str, Tensor], prefix: str
) -> nn.Module:
    if parts["kind"] == "Joined":
        trained, untrained = (
            _network(part, event_shape, tensors, f"{prefix}networks.{k}.")
            for k, part in enumerate(_joined(parts))
        )
        return Joined(trained, untrained)
    settings = parts["settings"]
    # One tensor for each layer, at least.
    for count in (settings.get("layers", 0), len(settings.get("filters", ()))):
        if not isinstance(count, int) or count > len(tensors):
            raise ValueError(f"{count} layers need more than the {len(tensors)} tensors there are")
    slope = settings.get("slope", 0.0)
    if not isinstance(slope, int | float) or not abs(slope) <= STEEPEST:
        raise ValueError(f"slope={slope} must be a number, and no larger than {STEEPEST:g}")
    with torch.device("meta"):  # shapes without numbers: no memory, and no draws
        network = NETWORKS[parts["kind"]](event_shape, **settings)
    for name, wanted in network.state_dict().items():
        found = tensors[prefix + name]
        if found.shape != wanted.shape:
            raise ValueError(
                f"{prefix}{name} has shape {tuple(found.shape)}, not {tuple(wanted.shape)}"
            )
    return network.to_empty(device="cpu")
