"""The models that come with the package score as they did, and as RESULTS.md reports."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from uspebm import load
from uspebm.data.image_sets import fashion_mnist, ood, scaled
from uspebm.detector.folder import pretrained
from uspebm.evaluation.metrics import fpr_at_tpr

TABLE = Path(__file__).parents[2] / "docs" / "table1-fast.json"
BYTES = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)


def known_images() -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Noise, a ramp, a disk, and nothing."""
    noise = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    ramp = np.tile(np.linspace(0, 255, 28).astype(np.uint8), (28, 1))
    squared = (np.arange(28) - 13.5) ** 2
    disk = (np.add.outer(squared, squared) < 81).astype(np.uint8) * np.uint8(200)
    return np.stack([*noise, ramp, disk, np.zeros_like(ramp)])


SCORES = {
    "fashion-mnist": [-5.2917204, -5.5744333, -5.4543142, -1.4631186, 0.9518108, -1.9236112],
    "fashion-mnist-srlmc": [-32.552189, -33.072765, -33.595913, 3.8609214, 9.8144274, 12.811617],
}
"""Of the known images, by the version before their folders had a second format."""


def test_scores_are_what_they_were() -> None:
    assert pretrained() == sorted(SCORES)
    for name, scores in SCORES.items():
        np.testing.assert_allclose(load(name).score_samples(known_images()), scores, atol=1e-5)


@pytest.mark.parametrize("name", pretrained(), ids=pretrained())
def test_bytes_and_scaled_images_score_alike(name: str) -> None:
    model = load(name)
    scores = model.score_samples(BYTES)
    assert scores.shape == (5,)
    np.testing.assert_allclose(model.score_samples(BYTES / 127.5 - 1), scores, atol=1e-5)
    np.testing.assert_allclose(model.score_samples(BYTES[:, None] / 127.5 - 1), scores, atol=1e-5)


def test_images_scaled_to_0_and_1_are_pointed_out() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    with pytest.warns(UserWarning, match=r"from 0 to .*: if they are scaled to \[0, 1\], give 2"):
        load("fashion-mnist").score_samples(images / 255.0)


@pytest.mark.parametrize("shape", [(28, 28), (1, 784)])
def test_an_image_alone_or_flat_is_refused_with_what_to_do(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"28 × 28 pixels: give them as .*, one as X\[None\]"):
        load("fashion-mnist").score_samples(np.zeros(shape, np.uint8))


def test_noise_is_an_outlier() -> None:
    assert (load("fashion-mnist").predict(BYTES, false_alarm_rate=0.01) == -1).all()


@pytest.mark.skipif("USPEBM_DATA" not in os.environ, reason="the image sets are not at hand")
@pytest.mark.parametrize(
    ("name", "row"), [("fashion-mnist", "crowded-PS-USP"), ("fashion-mnist-srlmc", "SRLMC")]
)
def test_a_cell_of_table_1(name: str, row: str) -> None:
    inside, outside = fashion_mnist("test").numpy(), ood("MNIST")
    model = load(name)
    found = fpr_at_tpr(model.score_samples(inside), model.score_samples(outside))
    reported = json.loads(TABLE.read_text())["rows"][row]["MNIST"][0]["fpr95"]
    assert found == pytest.approx(reported, abs=2e-4)  # a rounding may move an image or two
    calls = model.predict(scaled(fashion_mnist("test")), false_alarm_rate=0.05)
    # 2,500 calibration and 10,000 test images: a standard error of 0.5 points.
    assert (calls == -1).mean() == pytest.approx(0.05, abs=0.015)
