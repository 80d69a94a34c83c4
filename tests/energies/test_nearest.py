"""Nearest centres: compiled code and torch find what a sorted list of all distances has."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from uspebm.energies import nearest as module
from uspebm.energies.features import FeatureEnergy, Pixels
from uspebm.energies.nearest import MOST_NEIGHBOURS, Nearest, log_scales
from uspebm.support.compiled import library_if_any
from uspebm.support.randomness import generator


def drawn(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=generator(seed))


def by_sorting(z: Tensor, centres: Tensor, k: int, own: Tensor | None = None) -> Tensor:
    distances = (z.double()[:, None] - centres.double()).square().sum(2).sqrt()
    if own is not None:
        distances[torch.arange(len(z)), own] = torch.inf
    return distances.sort(1).values[:, :k].float()


def test_torchs_settings_of_precision_and_of_modes_change_nothing() -> None:
    """Centres in float32 are searched as such whatever torch makes by default."""
    centres, z = drawn(70, 5), drawn(30, 5, seed=1)
    wanted = Nearest(centres).which(z, 3)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(Nearest(centres).which(z, 3), wanted)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode():
        inside = FeatureEnergy(Pixels((5,)), centres.clone(), torch.zeros(70))
        assert torch.equal(inside(z), inside(z))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 6), st.integers(1, 20), st.booleans())
def test_the_nearest_are_those_of_a_sorted_list(
    n: int, points: int, k: int, d: int, compiled: bool
) -> None:
    """Whatever does not fill a tile or a panel; a mutant that forgets the last is caught."""
    k = min(k, n)
    centres, z = drawn(n, d), drawn(points, d, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(module, "library_if_any", lambda _: None)
        distances, which = Nearest(centres)(z, k)
    wanted = by_sorting(z, centres, k)
    torch.testing.assert_close(distances.sort(1).values, wanted, atol=1e-5, rtol=1e-5)
    assert all(len(set(row)) == k for row in which.tolist())
    with pytest.raises(AssertionError):
        torch.testing.assert_close(distances.sort(1).values, wanted + 1e-3)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_centre_is_not_its_own_neighbour(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(module, "library_if_any", lambda _: None)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 500)  # in several parts
    centres = drawn(70, 3)
    distances, which = Nearest(centres).among_themselves(5)
    own = torch.arange(70)
    assert not (which == own[:, None]).any()
    torch.testing.assert_close(distances.sort(1).values, by_sorting(centres, centres, 5, own))


def test_there_is_compiled_code_here_and_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library_if_any(module.NEAREST_SOURCE) is not None
    monkeypatch.setattr(Nearest, "_search", None)
    with pytest.raises(TypeError):
        Nearest(drawn(5, 2))(drawn(1, 2), 1)
    Nearest(drawn(5, 2).double())(drawn(1, 2).double(), 1)  # there is none for these
    Nearest(drawn(99, 2))(drawn(1, 2), MOST_NEIGHBOURS + 1)  # nor for so many


def test_threads_find_the_same() -> None:
    search, z = Nearest(drawn(1000, 7)), drawn(501, 7, seed=1)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(search(z, 4)[1])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_groups_of_columns_are_searched_apart_and_again_when_they_change() -> None:
    """Each by itself, in whatever order they are asked for."""
    held = FeatureEnergy(Pixels((3,)), drawn(30, 3), torch.zeros(30))
    z = drawn(9, 3, seed=1)

    def by_hand(place: Tensor, part: Tensor) -> Tensor:
        apart: Tensor = (place.unsqueeze(1) - part).square().sum(2).sqrt()
        return apart.topk(4, largest=False).values

    both = held._searches((1, 2))
    for search, part, place in zip(
        both, held.centres.split((1, 2), 1), z.split((1, 2), 1), strict=True
    ):
        torch.testing.assert_close(search(place, 4)[0], by_hand(place, part), rtol=1e-4, atol=1e-5)
    assert held._searches((1, 2)) is both
    torch.testing.assert_close(held._nearest()(z, 4)[0], by_hand(z, held.centres))
    held.centres.mul_(2.0)
    away = by_hand(z[:, 1:], held.centres[:, 1:])
    torch.testing.assert_close(held._searches((1, 2))[1](z[:, 1:], 4)[0], away)
    assert held._searches((1, 2)) is not both


def test_weights_that_come_later_are_searched_among() -> None:
    energy = FeatureEnergy(Pixels((2,)), drawn(20, 2), torch.zeros(20), neighbours=1)
    z = drawn(4, 2, seed=1)
    energy(z)
    energy.load_state_dict({"centres": z.repeat(5, 1), "log_scale": torch.zeros(20)})
    assert energy(z).max() < -10  # each lies on a centre


def test_a_search_can_be_copied_and_pickled() -> None:
    energy = FeatureEnergy(Pixels((2,)), drawn(20, 2), torch.zeros(20), neighbours=1)
    z = drawn(4, 2, seed=1)
    found = energy(z)
    assert torch.equal(copy.deepcopy(energy)(z), found)
    assert torch.equal(pickle.loads(pickle.dumps(energy))(z), found)


def test_scales_of_points_that_repeat_are_those_of_the_closest_others() -> None:
    distances = torch.tensor([[1e-6, 1e-6], [0.5, 1.5], [2.0, 4.0]])
    assert log_scales(distances).exp().tolist() == pytest.approx([1.0, 1.0, 3.0])
    assert log_scales(distances[:1]).exp().tolist() == [1.0]


def test_own_distances_are_held_below_a_quantile() -> None:
    distances = torch.arange(1.0, 12.0).unsqueeze(1)  # 1 to 11
    for cap, most in ((1.0, 11.0), (0.9, 10.0), (0.85, 10.0), (0.0, 1.0)):
        capped = log_scales(distances, cap).exp()
        torch.testing.assert_close(capped, distances[:, 0].clamp_max(most))
