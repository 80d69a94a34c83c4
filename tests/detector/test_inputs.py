"""Whatever holds the numbers, scores are the same; what cannot be scored is refused in one line."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from tests.detector.common import IMAGES, NEW, Values, X, fitted, reference_only, small
from uspebm.data.points import from_bytes


def test_whatever_holds_the_numbers_scores_are_the_same() -> None:
    expected = fitted().score_samples(NEW)
    tensor = torch.tensor(NEW, requires_grad=True)
    for same in (NEW.tolist(), tensor, np.asfortranarray(NEW), NEW[::-1][::-1]):
        assert np.array_equal(fitted().score_samples(same), expected)
    assert np.array_equal(small().fit(torch.tensor(X)).score_samples(tensor), expected)
    float32 = fitted().score_samples(NEW.astype(np.float32))
    assert np.allclose(float32, expected, rtol=1e-4)
    whole = np.arange(-2, 4).reshape(2, 3)
    assert np.array_equal(fitted().score_samples(whole), fitted().score_samples(whole * 1.0))


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    found = small().fit(table)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(found.score_samples(table), fitted().score_samples(X))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table.rename(columns={"a": "z"}))
    assert not hasattr(found.fit(X), "feature_names_in_")


HOURS = pd.DataFrame({"hour": np.tile(np.arange(24), 10), "v": np.resize(X[:, 0], 240)})


def test_a_model_of_numbers_stays_one() -> None:
    """The hours of one day are all different, as numbers of rows are; so few tell nothing."""
    found = reference_only("tables").fit(HOURS)
    assert found.encoding_ is None
    day = HOURS.head(24)
    np.testing.assert_array_equal(found.score_samples(day), found.score_samples(HOURS)[:24])
    np.testing.assert_array_equal(
        found.score_samples(pa.Table.from_pandas(day)), found.score_samples(day)
    )
    gap = pd.DataFrame({"hour": [3], "v": [None]})
    assert np.isfinite(found.score_samples(gap)).all()
    np.testing.assert_array_equal(found.score_samples(day.astype(object)), found.score_samples(day))
    for odd in ("high", pd.Timestamp("2026-03-02")):
        with pytest.raises(ValueError, match=r"column 'v' of X holds '.*fitted on numbers"):
            found.score_samples(day.assign(v=odd))


@pytest.mark.parametrize("other", [X, X[:, :2], IMAGES], ids=["wider", "narrower", "images"])
def test_a_fit_that_fails_changes_nothing(other: Values) -> None:
    found = reference_only().fit(HOURS)
    before = dict(vars(found))
    with pytest.raises(ValueError, match=r"contamination=0\.9 must lie between"):
        found.fit(other, contamination=0.9)
    assert vars(found).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(found).items())


def test_fitted_to_images_it_forgets_the_columns_of_a_table() -> None:
    found = reference_only()
    found.fit(pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"]))
    found.fit(np.random.default_rng(0).normal(size=(30, 4, 4)))
    assert not hasattr(found, "feature_names_in_")
    assert found.event_shape_ == (1, 4, 4)


# Images


def test_images_are_the_same_whatever_their_axes_and_type() -> None:
    found = reference_only().fit(IMAGES)
    expected = found.score_samples(IMAGES)
    assert found.of_bytes_
    assert found.event_shape_ == (3, 8, 9)
    single = from_bytes(IMAGES.astype(np.float32))
    channels_first = IMAGES.transpose(0, 3, 1, 2)
    whole = (IMAGES.astype(int), IMAGES.astype(float))
    for same in (single, channels_first, torch.from_numpy(IMAGES), *whole):
        assert np.array_equal(found.score_samples(same), expected)
    on_floats = reference_only().fit(single)
    assert not on_floats.of_bytes_
    assert np.array_equal(on_floats.score_samples(single), expected)
    with pytest.raises(ValueError, match="fitted to images of floats, but X has bytes: scale them"):
        on_floats.score_samples(IMAGES)
    # Bytes are seen in single precision, as image networks see them; floats as they are.
    assert np.allclose(found.score_samples(IMAGES / 127.5 - 1), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 4), (9, 3), (2, 9), (8, 4, 3), (3, 3, 3)])
def test_narrow_images_keep_their_shape(shape: tuple[int, ...]) -> None:
    """Calibration points are images too, and their sides are not taken for channels."""
    images = np.random.default_rng(0).integers(0, 256, (30, *shape), dtype=np.uint8)
    found = reference_only().fit(images)
    height, width, channels = (*shape, 1)[:3]
    assert found.event_shape_ == (channels, height, width)
    assert np.isfinite(found.calibration_scores_).all()
    assert np.isfinite(found.score_samples(images)).all()


def test_grey_images_are_learned() -> None:
    grey = IMAGES[..., 0]
    found = small("images", max_updates=2).fit(grey)
    assert found.recipe_ is not None
    assert found.recipe_.schedule.updates == 2
    scores = found.score_samples(grey)
    assert np.array_equal(scores, found.score_samples(IMAGES[..., :1]))
    # Float32 networks: bytes, and floats that stand for them.
    assert np.allclose(scores, found.score_samples(grey / 127.5 - 1), rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("kind", [int, float], ids=["whole numbers", "floats"])
def test_a_model_of_bytes_refuses_what_can_be_no_bytes(kind: type) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 4), dtype=np.uint8)
    found = reference_only().fit(images)
    known = found.score_samples(images)
    np.testing.assert_array_equal(found.score_samples(images.astype(int)), known)
    wrong: NDArray[Any] = images.astype(kind) * 2
    with pytest.raises(ValueError, match="fitted to bytes, but X has") as error:
        found.score_samples(wrong)
    assert "\n" not in str(error.value)


# What is refused, and what is not


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 4)), "X has 4 features, but EnergyDetector is expecting 3"),
        (np.zeros((2, 8, 9)), "X has points of 8 × 9 pixels, but .* fitted to points of 3 columns"),
        (np.zeros((2, 9, 9, 9)), "it must be a table"),
        ([[0, 1, math.nan]], "X contains NaN"),
        ([[0, 1, math.inf]], "Input X contains infinity"),
        (np.full((1, 3, 3), math.nan), "X contains NaN"),
        (np.zeros((0, 3)), "0 sample"),
    ],
)
def test_other_points_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fitted().score_samples(x)
    if "NaN" not in message:  # scikit-learn's own advice about NaN takes several lines
        assert "\n" not in str(caught.value)


def awkward() -> dict[str, Values]:
    draws = np.random.default_rng(0)
    constant = np.c_[X, np.full(300, 0.1)]
    nearly = np.c_[X, X[:, 0] + 1e-9 * draws.normal(size=300)]
    return {
        "a constant column": constant,
        "repeated rows": np.repeat(X[:30], 10, axis=0),
        "counts": draws.poisson(1, size=(300, 4)).astype(float),
        "two values": (X > 0).astype(float),
        "equal rows": np.full((100, 3), 0.1),
        "units far apart": X * [1e9, 1e-9, 1],
        "a large shift": X + 1e9,
        "nearly collinear": nearly,
        "collinear": np.c_[X, X[:, 0]],
        "one column": X[:, :1],
        "two rows": X[:2],
        "three rows": X[:3],
        "more columns than rows": draws.normal(size=(70, 200)),
        "heavy tails": draws.standard_cauchy(size=(300, 3)),
    }


@pytest.mark.parametrize("recipe", ["auto", None], ids=["usual", "few centres"])
@pytest.mark.parametrize("x", awkward().values(), ids=awkward().keys())
def test_awkward_tables_are_fitted(x: Values, recipe: str | None) -> None:
    found = small(recipe).fit(x)
    far = x.mean(0) + 10.0 ** np.arange(3, 300, 9)[:, None] * (1 + np.abs(x).max(0))
    assert np.isfinite(found.score_samples(x)).all()
    scores = found.score_samples(far)
    assert (scores[1:] <= scores[:-1]).all()
    assert (scores[:6] > -math.inf).all()  # up to 1e48; what has no square scores lowest
    assert (found.predict(far) == -1).all()


def test_points_are_scored_each_by_itself() -> None:
    expected = fitted().score_samples(NEW)
    order = np.random.default_rng(0).permutation(len(NEW))
    # Sums of another batch are made in another order: float32 in the network, and no more.
    assert np.allclose(fitted().score_samples(NEW[order]), expected[order], rtol=1e-5, atol=5e-5)
    parts = [fitted().score_samples(part) for part in np.array_split(NEW, 7)]
    assert np.allclose(np.concatenate(parts), expected, rtol=1e-5, atol=5e-5)
