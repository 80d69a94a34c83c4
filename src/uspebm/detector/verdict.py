"""What a model is, in one sentence: for closing lines, cards and pages."""

import math

from torch import nn

from ..energies.features import FeatureEnergy, Joined, Pixels
from ..energies.kernel import TiltedEnergy
from ..energies.neighbour import NeighbourEnergy
from ..recipes import Recipe
from ..recipes.held_out import Curve
from .worth import FALSE_ALARMS, Worth


def verdict_on(
    recipe: Recipe | None, energy: nn.Module, curve: Curve, log_z_error: float | None
) -> str:
    """Which recipe ran, whether its network was kept, and what it was worth."""
    trained = "an energy trained elsewhere" if recipe is None else f"recipe {recipe.name}"
    if isinstance(energy, NeighbourEnergy):
        return f"{trained}: {_on_neighbours(energy)}"
    if not isinstance(energy, TiltedEnergy):
        kind = f"{trained}: a network ({type(energy).__name__})"
        if log_z_error is not None:
            return f"{kind} whose log Z is known: scores are log-densities"
        return f"{kind} whose energies are the scores; they order points and are no densities"
    if not energy.strength:
        why = "no network did better on held-out points" if len(curve) > 1 else "none was trained"
        return f"{trained}: the kernel density alone, no network is kept ({why})"
    rule = None if recipe is None else recipe.schedule.held_out
    if rule is None or not curve:
        return f"{trained}: a kernel density and a network"
    kept = rule.best(curve)
    return (
        f"{trained}: a kernel density and a network, kept after {kept.update} updates and worth "
        f"{kept.log_likelihood - curve[0].log_likelihood:.3f} nats per held-out point over the "
        "kernel density alone"
    )


def verdict_on_images(recipe: Recipe | None, energy: FeatureEnergy, worth: Worth | None) -> str:
    """The same for energies over features."""
    trained = "an energy trained elsewhere" if recipe is None else f"recipe {recipe.name}"
    near = f"scores are scaled distances to {len(energy.centres):,} images of the data"
    if worth is None:
        how = "in pixels, and no network is trained"
        if not isinstance(energy.network, Pixels):
            how = f"in the features of {_named(energy)}"
        return f"{trained}: {near} {how}; they order images and are no densities"
    found = (
        f"of held-back images that were changed, {worth.by_network:.0%} are found by the network "
        f"at a false-alarm rate of {FALSE_ALARMS:.0%}, {worth.by_pixels:.0%} by pixels alone"
    )
    updates = "" if recipe is None else f" after {recipe.schedule.updates} updates"
    kept = "in pixels, the network is discarded"
    if not isinstance(energy.network, Pixels):
        kept = f"in the features of {_named(energy)}, kept{updates}"
    return f"{trained}: {near} {kept}; {found}"


def _named(energy: FeatureEnergy) -> str:
    network = energy.network
    if isinstance(network, Joined):
        trained, untrained = (type(part).__name__ for part in network.networks)
        together = "and" if len(energy.widths) == 1 else "and, by itself,"
        return f"a network ({trained}) {together} a smaller one that is not trained ({untrained})"
    return f"a network ({type(network).__name__})"


def _on_neighbours(energy: NeighbourEnergy) -> str:
    return (
        f"distances to {energy.rows:,} rows of the data in {len(energy.views)} "
        "kinds of units; scores order rows and are no densities"
    )


def known_looks(curve: Curve) -> Curve:
    """Minus infinity stands for a log Z that nobody knows, NaN for no held-out points."""
    return [look for look in curve if math.isfinite(look.log_likelihood)]
