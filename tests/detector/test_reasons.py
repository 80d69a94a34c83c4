"""Why: planted causes come first, in rows and in images, in the user's own words."""

import time
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from tests.detector.common import Values
from uspebm import EnergyDetector, load, save_model
from uspebm.detector import reasons
from uspebm.detector.heat import heat_maps, painted_over
from uspebm.detector.reasons import Reasons
from uspebm.detector.scorer import Scorer
from uspebm.energies.nearest import Nearest
from uspebm.energies.scaling import as_is


def dependent(n: int, columns: int, factors: int, draws: np.random.Generator) -> Values:
    loadings = np.random.default_rng(7).normal(size=(factors, columns))
    noise = 0.3 * draws.normal(size=(n, columns))
    return np.asarray(draws.normal(size=(n, factors)) @ loadings + noise)


def explained(detector: EnergyDetector, X: object) -> Reasons:
    found = detector.explain(X)  # type: ignore[arg-type]
    assert isinstance(found, Reasons)
    return found


@pytest.mark.parametrize("recipe", ["auto", "tables-density"])
@pytest.mark.parametrize(("columns", "factors"), [(6, 2), (10, 3)])
def test_a_planted_cause_comes_first(recipe: str, columns: int, factors: int) -> None:
    draws = np.random.default_rng(0)
    x = dependent(800, columns, factors, draws)
    updates = None if recipe == "auto" else 0
    found = EnergyDetector(recipe, random_state=0, max_updates=updates).fit(x)  # type: ignore[arg-type]
    new, cause = dependent(400, columns, factors, draws), draws.integers(columns, size=400)
    right = new[np.arange(400), cause].copy()
    new[np.arange(400), cause] += 3 * x.std(0)[cause] * draws.choice([-1, 1], 400)
    why = explained(found, new)
    first = why.first(1)[:, 0]
    assert (first == cause).mean() > 0.9
    # What was expected is near what was there before: nearer than any value of the column.
    expected = why.expected[np.arange(400), cause].astype(float)
    assert np.abs(expected - right).mean() < 0.6 * np.abs(right - right.mean()).mean()
    assert np.array_equal(why.value.astype(float), new)
    # A mutant: how far a value is from its column's mean, whatever the others are.
    far = np.abs((new - x.mean(0)) / x.std(0)).argmax(1)
    assert (far == cause).mean() < (first == cause).mean() - 0.05


def test_the_gain_is_what_it_says() -> None:
    draws = np.random.default_rng(0)
    found = EnergyDetector(random_state=0).fit(dependent(300, 4, 2, draws))
    new = dependent(20, 4, 2, draws)
    why = explained(found, new)
    for j in range(4):
        other = new.copy()
        other[:, j] = why.expected[:, j].astype(float)
        gain = found.score_samples(other) - found.score_samples(new)
        assert np.allclose(why.gain[:, j], gain, atol=1e-5)
    assert why.columns == ("column 1", "column 2", "column 3", "column 4")


def test_a_row_that_was_learned_from_does_not_explain_itself() -> None:
    draws = np.random.default_rng(0)
    x = dependent(300, 6, 2, draws)
    x[:10, 0] += 8 + 4 * np.arange(10)
    found = EnergyDetector(random_state=0).fit(x)
    assert (explained(found, x[:10]).first(1) == 0).all()


def test_in_the_users_own_words(tmp_path: Path) -> None:
    draws, n = np.random.default_rng(0), 600
    kind = draws.choice(["day", "night"], n)
    day = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(n) % 5, "D")
    hour = np.where(kind == "day", 12, 0)
    frame = pd.DataFrame(
        {
            "kind": kind,
            "when": day + pd.to_timedelta(hour, "h"),
            "load": np.where(kind == "day", 100.0, 10.0) + draws.normal(size=n),
            "remark": [f"remark {k}" for k in range(n)],
        }
    )
    with pytest.warns(UserWarning, match="'remark'"):  # left out
        found = EnergyDetector(random_state=0).fit(frame)
    save_model(found, tmp_path / "m")
    wrong = frame.iloc[:4].copy()
    wrong["kind"] = np.where(wrong["kind"] == "day", "night", "day")
    wrong.loc[1, "load"] = None
    for model in (found, load(tmp_path / "m")):
        why = explained(model, wrong)
        assert why.columns == ("kind", "when", "load")
        assert (why.first(1) == 0).all()
        assert why.value[:, 0].tolist() == wrong["kind"].tolist()
        assert why.expected[:, 0].tolist() == frame["kind"][:4].tolist()
        assert why.value[0, 1].endswith("12:00" if kind[0] == "day" else "00:00")
        assert why.value[0, 1].startswith("Mon")
        assert why.value[1, 2] is None
        assert why.gain[1, 2] == 0.0
        strange = explained(model, frame.iloc[:2].assign(kind="dusk"))
        assert (strange.first(1) == 0).all()
        assert strange.value[:, 0].tolist() == ["a value never seen"] * 2
        assert strange.expected[:, 0].tolist() == frame["kind"][:2].tolist()


def test_a_model_without_rows_says_so() -> None:
    class Bowl(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.square().sum(1)

    found = EnergyDetector.from_energy(Bowl(), np.random.default_rng(0).normal(size=(50, 2)))
    with pytest.raises(ValueError, match="a model of Bowl holds no rows of the data"):
        found.explain([[0.0, 0.0]])


def test_ten_thousand_rows_take_no_minute() -> None:
    """Of 30 columns, at half of the stated pace: machines are busy while they are tested."""
    draws = np.random.default_rng(0)
    found = EnergyDetector(random_state=0).fit(dependent(2000, 30, 5, draws))
    new = dependent(500, 30, 5, draws)
    found.explain(new[:5])
    start = time.perf_counter()
    found.explain(new)
    assert time.perf_counter() - start < 6.0


def test_rows_are_held_a_few_times_and_not_once_for_each_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alive: weakref.WeakSet[Nearest] = weakref.WeakSet()
    most = []

    class Counted(Nearest):
        def __init__(self, centres: Tensor) -> None:
            super().__init__(centres)
            alive.add(self)
            most.append(len(alive))

    monkeypatch.setattr(reasons, "Nearest", Counted)
    x = dependent(60, 20, 2, np.random.default_rng(0))
    EnergyDetector(random_state=0).fit(x).explain(x[:3])
    assert len(most) == 1 + 20
    assert max(most) <= 3  # among all, and one column's while the next one's is made


# Images


class Smooth(nn.Module):
    """Pixels are like their neighbours: energy where they are not."""

    def forward(self, x: Tensor) -> Tensor:
        down = (x[..., 1:, :] - x[..., :-1, :]).square().flatten(1).sum(1)
        across = (x[..., 1:] - x[..., :-1]).square().flatten(1).sum(1)
        return down + across


def patched(n: int, side: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Smooth images with a patch of noise, and where it is."""
    x = torch.linspace(-1, 1, 28).expand(n, 1, 28, 28).clone()
    where = torch.zeros(n, 28, 28, dtype=torch.bool)
    corners = torch.randint(28 - side, (n, 2), generator=draws)
    for k, (top, left) in enumerate(corners.tolist()):
        patch = 2 * torch.rand(side, side, generator=draws) - 1
        x[k, 0, top : top + side, left : left + side] = patch
        where[k, top : top + side, left : left + side] = True
    return x, where


def test_heat_lies_where_the_patch_is() -> None:
    x, where = patched(20, 7, torch.Generator().manual_seed(0))
    heat = heat_maps(Scorer(as_is((1, 28, 28)), Smooth()).eval(), x)
    assert heat.shape == (20, 28, 28)
    hottest = heat.flatten(1).argmax(1)
    assert where.flatten(1).gather(1, hottest[:, None]).double().mean() > 0.9
    hot = heat.flatten(1) >= heat.flatten(1).kthvalue(784 - 49, dim=1, keepdim=True).values
    overlap = (hot & where.flatten(1)).sum(1) / (hot | where.flatten(1)).sum(1)
    assert overlap.mean() > 0.5  # two squares at random: 0.03


def test_what_makes_an_image_infinitely_unlikely_is_hot() -> None:
    x = torch.linspace(-1, 1, 28, dtype=torch.float64).expand(2, 1, 28, 28).clone()
    x[0, 0, 10, 20] = 1e200  # beyond what numbers reach
    scorer = Scorer(as_is((1, 28, 28)), Smooth()).eval()
    assert scorer(x)[0] == -torch.inf
    heat = heat_maps(scorer, x)
    assert heat.isfinite().all()
    assert heat[0, 10, 20] == heat[0].max() > heat[1].max()
    assert heat[0, 20:].max() == 0  # no window there helps
    x[0, 0, 24, 3] = 1e200  # a window heals one of the two: nobody knows what that gains
    assert heat_maps(scorer, x)[0].max() == 0


def test_windows_at_edges_and_whole_images() -> None:
    x = torch.rand(2, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    corner = painted_over(x, slice(0, 2), slice(0, 2))
    assert corner[:, :, :2, :2].isfinite().all()
    assert torch.equal(corner[:, :, 2:], x[:, :, 2:])
    assert torch.equal(painted_over(x, slice(0, 5), slice(0, 6)), x)
    tiny = Scorer(as_is((1, 1, 1)), Smooth()).eval()
    assert heat_maps(tiny, torch.zeros(1, 1, 1, 1)).tolist() == [[[0.0]]]


def test_images_are_explained_by_heat() -> None:
    draws = torch.Generator().manual_seed(0)
    plain = torch.linspace(-1, 1, 28).expand(40, 28, 28) + 0.01 * torch.rand(
        40, 28, 28, generator=draws
    )
    found = EnergyDetector.from_energy(Smooth(), plain.numpy())
    x, where = patched(2, 8, draws)
    heat = found.explain(x[:, 0].numpy())
    assert isinstance(heat, np.ndarray)
    assert where.flatten(1).numpy()[np.arange(2), heat.reshape(2, -1).argmax(1)].all()
