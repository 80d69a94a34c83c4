"""Energies over neighbours: tails, ranks, rows that are their own, gaps, and units."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import Tensor
from torch.nn.functional import one_hot

from uspebm.energies import gaps
from uspebm.energies.gaps import filled, filled_table
from uspebm.energies.neighbour import NeighbourEnergy, NeighbourRule, View
from uspebm.energies.ranks import ranks_of, tail_curves
from uspebm.energies.scaling import as_is
from uspebm.support.randomness import generator

NAN = math.nan


def rows(n: int = 400, seed: int = 0) -> Tensor:
    """Two columns that depend on each other, in units far apart, and one that does not."""
    z = torch.randn(n, 3, generator=generator(seed), dtype=torch.float64)
    return torch.stack([z[:, 0], 1e3 * (z[:, 0] + 0.1 * z[:, 1]), 1e-3 * z[:, 2]], 1)


def built(x: Tensor, centres: int = 5000) -> NeighbourEnergy:
    return NeighbourRule(centres).build(x, seed=0)


def test_tails_are_shares_of_the_data_and_go_on_beyond_them() -> None:
    n = 5000
    drawn = torch.rand(n, 1, generator=generator(0), dtype=torch.float64).log().neg()
    tails = tail_curves(drawn)
    at = torch.tensor([[0.1], [1.0], [2.0], [6.0], [30.0]], dtype=torch.float64)
    # Of an exponential law −log P(X ≥ x) = x. Shares of n have relative errors of sqrt(1 / n p),
    # those of the mean excess of n / 10 points 4.5 %.
    error = 4 * (1 / (n * at.neg().exp().clamp_min(0.1))).sqrt() + 0.18 * (at - 2.3).clamp_min(0)
    assert ((tails(at) - at).abs() < error).all()


def test_of_readings_that_are_mostly_equal_the_others_differ() -> None:
    readings = torch.cat([torch.zeros(95), torch.linspace(1, 2, 5)])[:, None]
    found = tail_curves(readings)(torch.tensor([[0.0], [1.0]]))
    assert found[0].item() == pytest.approx(0.0)
    assert found[1].item() > math.log(101 / 6)  # five of a hundred are larger than the rest


def test_ranks_are_those_of_a_normal_law() -> None:
    x = torch.randn(2001, 1, generator=generator(0), dtype=torch.float64)
    units = ranks_of(x.exp())  # whatever their law is
    middle = x.abs() < 1.5
    assert (units(x.exp())[middle] - x[middle]).abs().max() < 0.15
    few = torch.tensor([[0.0]] * 6 + [[1.0]] * 3 + [[5.0]], dtype=torch.float64)
    wanted = norm.ppf([(3 + 0.5) / 11, (7.5 + 0.5) / 11, (9.5 + 0.5) / 11])
    found = ranks_of(few)(torch.tensor([[0.0], [1.0], [5.0]]))
    assert found.flatten().tolist() == pytest.approx(wanted.tolist())
    spread = few.std(correction=0)
    beyond = ranks_of(few)(torch.tensor([[7.0], [-1.0]])).flatten()
    assert beyond[0] == pytest.approx(wanted[2] + 2 / spread)
    assert beyond[1] == pytest.approx(wanted[0] - 1 / spread)


def test_strange_rows_have_more_energy_in_whatever_way_they_are_strange() -> None:
    x = rows()
    energy = built(x)
    usual = energy(rows(200, seed=1)).quantile(0.95)
    strange = torch.tensor(
        [
            [9.0, 9e3, 0.0],  # far away
            [1.5, -1.5e3, 0.0],  # where columns do not belong together
            [0.0, 0.0, 0.02],  # in the smallest units
        ],
        dtype=torch.float64,
    )
    assert (energy(strange) > usual).all()


def test_a_training_row_is_judged_by_the_others() -> None:
    """As if it had been left out: the mutant, distance zero to itself, is the least of all."""
    x = rows(60)
    energy = built(x)
    view = next(v for v in energy.views if v.units.factor.dim() == 1)  # type: ignore[union-attr,operator]
    assert isinstance(view, View)
    k = view.neighbours
    distances, which = view._nearest().among_themselves(k)
    close = distances.amin(1).log()
    far = distances.mean(1).log()
    local = far - 0.5 * view.log_scale[which].mean(1)
    wanted = view.tails(torch.stack([close, far, local], 1))
    held = view.units.inverse(view.centres)  # type: ignore[operator]
    torch.testing.assert_close(view(held), wanted, atol=1e-3, rtol=1e-3)
    near = energy(x + 1e-4 * x.std(0))
    assert near.mean() < energy(x).mean() - 0.3


def test_of_rows_that_repeat_one_copy_is_left() -> None:
    x = torch.cat([rows(50), rows(50)[:10]])
    energy = built(x)
    assert energy(x[:10]).mean() < energy(x[10:50]).mean()


def test_units_of_a_column_change_no_order_but_that_of_shared_units() -> None:
    x, new = rows(), rows(100, seed=1)
    shift, scale = torch.tensor([5.0, -3e4, 1.0]), torch.tensor([10.0, 1e-4, 1e3])

    def tails(x: Tensor, new: Tensor) -> Tensor:
        views = built(x).views
        return torch.cat([view(new) for view in views[-3:]], 1)

    torch.testing.assert_close(
        tails(x, new), tails(shift + scale * x, shift + scale * new), atol=2e-2, rtol=1e-2
    )


def test_a_shared_unit_is_used_where_columns_have_one() -> None:
    z = torch.randn(100, 4, generator=generator(0), dtype=torch.float64)
    assert len(built(z).views) == 4
    assert len(built(z * torch.tensor([1e3, 1.0, 1.0, 1.0])).views) == 3
    assert len(built(z[:, :1]).views) == 4


def test_columns_on_one_scale_have_no_other_units() -> None:
    pixels = torch.randint(17, (100, 6), generator=generator(0)).double()
    assert len(built(pixels).views) == 1
    assert torch.equal(built(pixels).held_rows().round().unique(dim=0), pixels.unique(dim=0))
    income = torch.cat([pixels, 1e4 * pixels[:, :1]], 1)
    times = pixels * torch.arange(1, 7)
    for other in (pixels + 0.5, pixels.clamp_max(1), times, pixels[:9], income):
        assert len(built(other).views) > 1
    pixels[3, 2] = NAN
    assert built(pixels)(pixels).isfinite().all()


def test_no_more_rows_are_held_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(rows(), centres=50).rows == 50
    monkeypatch.setattr("uspebm.energies.neighbour.MOST_IN_VIEW", 90)
    assert built(rows()).rows == 30
    torch.testing.assert_close(built(rows(20)).held_rows().sort(0).values, rows(20).sort(0).values)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="must be rows of a table"):
        built(torch.zeros(5))
    with pytest.raises(ValueError, match="needs a view"):
        NeighbourEnergy([])
    with pytest.raises(ValueError, match="two or more, with one scale"):
        View(as_is((3,)), torch.zeros(1, 3), torch.zeros(1), tail_curves(torch.zeros(3, 2)), 5)
    with pytest.raises(ValueError, match="finite numbers in float32"):
        View(
            as_is((3,)),
            torch.full((2, 3), NAN),
            torch.zeros(2),
            tail_curves(torch.zeros(3, 2)),
            5,
        )
    assert built(rows(1)).rows == 2  # a row is its own neighbour, where there is no other


# Gaps


def test_gaps_are_filled_from_the_rows_that_are_most_alike() -> None:
    x = rows(500)
    hidden = torch.rand(len(x), generator=generator(2)) < 0.3
    gaps = x.clone()
    gaps[hidden, 1] = NAN
    full = filled_table(gaps, 500)
    assert torch.equal(full[~gaps.isnan()], x[~gaps.isnan()])
    left = (full[hidden, 1] - x[hidden, 1]).square().mean() / x[:, 1].var()
    assert left < 0.2  # by the column's mean, the mutant, it would be one
    assert torch.equal(filled_table(x, 500), x)


def test_a_row_does_not_fill_its_own_gap() -> None:
    x = torch.tensor([[0.0, NAN], [0.0, 1.0], [9.0, 5.0]])
    own = torch.arange(3)
    assert filled(x, x[:2], own.clamp_max(1))[0].tolist() == [0.0, 1.0]


def test_rows_with_gaps_have_energies_whether_the_data_had_gaps() -> None:
    x = rows()
    x[::7, 0] = NAN
    energy = built(x)
    new = rows(50, seed=1)
    whole = energy(new)
    new[:, 0] = NAN  # the second column tells it
    assert (energy(new) - whole).abs().mean() < 1.0
    assert (built(rows())(new) - whole).abs().mean() < 1.0


def test_a_row_with_gaps_is_judged_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(300, 6, generator=generator(0), dtype=torch.float64)
    x[torch.rand(x.shape, generator=generator(1)) < 0.2] = NAN
    x[x.isnan().all(1)] = 0.0
    energy = built(x)
    known = energy(energy.held_rows())  # as they are when they are known again, in another order
    # But for the last digits of rows that went to other units and back.
    assert (energy(x).mean() - known.mean()).abs() < 0.01
    monkeypatch.setattr(gaps, "SAME", -1.0)  # the mutant knows none of them again
    assert energy(x).mean() < known.mean() - 0.05


def test_a_row_that_agrees_with_one_is_that_one() -> None:
    known = torch.tensor([[0.0, 1.0], [0.5, 2.0], [0.5, 4.0], [9.0, 9.0]])
    x = torch.tensor([[0.0, NAN], [0.5, NAN]])
    assert filled(x, known)[:, 1].tolist() == [1.0, 4.0]  # the second of two: the mean of all


def categories(n: int, seed: int = 0) -> Tensor:
    """A number, and a category of three values that goes with it."""
    draws = generator(seed)
    level = torch.randint(3, (n,), generator=draws)
    number = 2.0 * level + torch.randn(n, generator=draws)
    return torch.cat([number[:, None], one_hot(level, 3)], 1).double()


@pytest.mark.parametrize("most", [400, 50])
def test_a_gap_in_a_category_is_filled_with_one_of_its_values(most: int) -> None:
    x = categories(400)
    holes = x.clone()
    hidden = torch.rand(400, generator=generator(1)) < 0.9  # of many no row alike has a value
    holes[hidden, 1:] = NAN
    full = filled_table(holes, most)
    assert torch.equal(full[:, 1:].sort(1).values, x[:, 1:].sort(1).values)
    assert torch.equal(full[~hidden], x[~hidden])
    right = (full[hidden, 1:] == x[hidden, 1:]).all(1).double().mean()
    assert right > 1 / 3 + 4 * (2 / 9 / hidden.sum()).sqrt()  # better than by lot


def test_numbers_beside_a_category_are_filled_as_ever() -> None:
    """As where nothing is taken for a category: a factor of two changes no digit of the units."""
    x = torch.cat([rows(300), categories(300)], 1)
    holes = x.clone()
    holes[torch.rand(x.shape, generator=generator(1)) < 0.2] = NAN
    holes[:, 4:] = x[:, 4:]  # in numbers alone
    energy, doubled = built(x), torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert energy.two_valued.tolist() == 4 * [False] + 3 * [True]
    assert not built(x * doubled).two_valued.any()
    assert torch.equal(filled_table(holes * doubled, 200), filled_table(holes, 200) * doubled)
    by_energy = energy.without_gaps(holes)
    energy.two_valued = torch.zeros(7, dtype=torch.bool)
    assert torch.equal(energy.without_gaps(holes), by_energy)


def test_normal_rows_with_a_gap_in_a_category_raise_few_alarms() -> None:
    """Rows of the data's law, with and without the gap; by means, the mutant, all are strange."""
    energy, new = built(categories(1000)), categories(500, seed=1)
    limit = energy(categories(1000, seed=2)).quantile(0.95)
    holes = new.clone()
    holes[:, 1:] = NAN
    most = 0.05 + 4 * (0.05 * 0.95 * (1 / 500 + 1 / 1000)) ** 0.5
    assert (energy(holes) > limit).double().mean() < most
    energy.two_valued = torch.zeros(4, dtype=torch.bool)
    assert (energy(holes) > limit).double().mean() > 0.5
