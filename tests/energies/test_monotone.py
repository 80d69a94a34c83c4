"""Curves of straight pieces: as numpy interpolates, and beyond their ends."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from uspebm.energies import monotone
from uspebm.energies.monotone import KNOTS, PiecewiseLinear


def curves(count: int, knots: int, seed: int) -> PiecewiseLinear:
    draws = np.random.default_rng(seed)
    at = np.sort(draws.normal(size=(count, knots)), 1)
    values = np.sort(draws.normal(size=(count, knots)), 1)
    return PiecewiseLinear(
        torch.from_numpy(at), torch.from_numpy(values), torch.tensor([[0.5, 2.0]] * count)
    )


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, KNOTS),
    st.integers(0, 10),
    st.sampled_from(["compiled", "torch", "exported"]),
)
def test_they_are_what_numpy_interpolates(count: int, knots: int, seed: int, how: str) -> None:
    curve = curves(count, knots, seed)
    x = 2 * torch.randn(40, count, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        if how != "compiled":
            patch.setattr(monotone, "library_if_any", lambda _: None)
        patch.setattr(torch.compiler, "is_exporting", lambda: how == "exported")
        found = curve(x)
    for c in range(count):
        at, values = curve.knots[c].numpy(), curve.values[c].numpy()
        own = x[:, c].numpy()
        wanted = np.interp(own, at, values)
        wanted += 0.5 * np.minimum(own - at[0], 0) + 2.0 * np.maximum(own - at[-1], 0)
        np.testing.assert_allclose(found[:, c].numpy(), wanted, atol=1e-9)


def test_knots_may_lie_in_memory_as_they_like_and_columns_must_be_as_many() -> None:
    curve = curves(3, 5, 0)
    knots, values = (part.T.contiguous().T for part in (curve.knots, curve.values))
    x = torch.randn(40, 3, dtype=torch.float64)
    assert torch.equal(PiecewiseLinear(knots, values, curve.slopes)(x), curve(x))
    with pytest.raises(ValueError, match="PiecewiseLinear"):
        curve(x[:, :2])


@pytest.mark.parametrize("exporting", [True, False])
def test_a_last_knot_may_be_repeated(exporting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: exporting)
    short = PiecewiseLinear(
        torch.tensor([[0.0, 1.0, 1.0, 1.0]]),
        torch.tensor([[0.0, 3.0, 3.0, 3.0]]),
        torch.tensor([[0.0, 1.0]]),
    )
    x = torch.tensor([[0.5], [1.0], [2.0]])
    assert short(x).flatten().tolist() == [1.5, 3.0, 4.0]


def test_what_is_no_curve_is_refused() -> None:
    one, two = torch.zeros(1, 3), torch.zeros(1, 2)
    for parts in (
        (one, two, two),
        (one, one, one),
        (one[:, :0], one[:, :0], two),
        (torch.zeros(1, KNOTS + 1), torch.zeros(1, KNOTS + 1), two),
        (one + torch.nan, one, two),
    ):
        with pytest.raises(ValueError, match=r"must be|finite"):
            PiecewiseLinear(*parts)
