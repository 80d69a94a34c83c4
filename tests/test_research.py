"""What docs/research.md and the guide show of own energies runs, and does what they say."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from uspebm import Box, PersistentUSP, TrainState, fit, load
from uspebm.evaluation.metrics import detection
from uspebm.support.randomness import generator

ROOT = Path(__file__).parents[1]
PAGE = "".join((ROOT / "docs" / f).read_text() for f in ("research.md", "guides/own-energy.md"))
SHAPE = (3, 32, 32)


def code(heading: str) -> str:
    """All code below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


class Scalars:
    """Stands for TensorBoard's writer and for W&B's run: remembers what they are told."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.told: list[tuple[Any, Any, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        assert isinstance(value, float | int)
        self.told.append((name, value, step))

    def log(self, numbers: dict[str, Any], step: int) -> None:
        self.told.extend((name, value, step) for name, value in numbers.items())


@pytest.fixture
def loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, thing in (("torch.utils.tensorboard", "SummaryWriter"), ("wandb", "init")):
        module = ModuleType(name)
        setattr(module, thing, Scalars)
        monkeypatch.setitem(sys.modules, name, module)


def test_the_fifteen_lines_make_a_detector_of_an_own_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half the contrast is told from all of it; by the weights it began with, it is not."""
    text = code("With an energy of your own")
    assert len([line for line in text.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(text.replace("steps=100", "steps=15"), names)
    assert "violating" in capsys.readouterr().out
    detector = load("model", energy=names["energy"])
    inside = names["held_out"]
    outside = names["fields"].sample(200, generator(1))
    trained = detection(*(detector.score_samples(x.numpy()) for x in (inside, outside)))
    torch.manual_seed(0)
    for layer in names["energy"]:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    with torch.no_grad():
        untrained = detection(*(-names["energy"](x) for x in (inside, outside)))
    assert trained.auroc > 0.7
    assert untrained.auroc < 0.65


def test_the_rest_of_the_page_runs_and_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loggers: None
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    for heading in ("A loop of your own, with logs", "Samples", "A density", "A detector"):
        text = code(heading).replace("steps=3", "steps=1")  # 100 updates, for 300
        exec(compile(text, f"research.md, {heading}", "exec"), names)
    for told, first in ((names["writer"].told, 101), (names["run"].told, 111)):
        assert {"loss", "ess", "violating", "gradient_norm"} <= {name for name, *_ in told}
        assert {step for *_, step in told} == set(range(first, first + 10))
    assert {file.name for file in tmp_path.iterdir()} == {"runs", "run.png", "density.png"}
    # Two ways to draw from the same energy: means apart by no more than four standard errors.
    q, found = names["q"], names["found"]
    assert found.r_hat < 1.05
    means = (q.mass.unsqueeze(1) * q.x).sum(0)
    stds = (q.mass.unsqueeze(1) * (q.x - means).square()).sum(0).sqrt()
    for x, independent in ((found.x, found.ess), (names["drawn"], 1000)):
        assert ((x.mean(0) - means).abs() < 4 * stds / independent**0.5).all()
    densities = q.log_prob(found.x).numpy()
    # A cell is 0.02 wide, and the energy's slope a few units.
    assert np.abs(names["detector"].score_samples(found.x.numpy()) - densities).max() < 0.5
    assert names["detector"].predict([[0.6, 0.0], [0.0, 1.9]]).tolist() == [1, -1]


class Small(nn.Module):
    """A user's network for colour images."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.SiLU(), nn.Flatten(), nn.Linear(512, 1))

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.net(x).squeeze(1)
        return energy


def near(images: Tensor) -> float:
    """How far an image is from the nearest other, on average."""
    flat = images.flatten(1)
    return torch.cdist(flat, flat).kthvalue(2).values.mean().item()


def smooth(n: int) -> Tensor:
    """Images of which no two are alike."""
    coarse = 0.4 * torch.randn(n, 3, 8, 8, generator=generator(0))
    return interpolate(coarse, SHAPE[1:], mode="bicubic").clamp(-1.0, 1.0)


def twenty_updates(spacing: float, images: Tensor, at_images: bool = True) -> None:
    phase = PersistentUSP(
        domain=Box(-1.0, 1.0, SHAPE),
        particles=200,
        spacing=spacing,
        active=40,
        nodes=200,
        rounds=2,
    )
    torch.manual_seed(0)
    energy = Small()
    state = TrainState.start(energy, phase, torch.optim.Adam(energy.parameters(), 1e-3))
    if at_images:
        state.negative = phase.start_at(images[:200])
    for _ in fit(state, phase, images, batch_size=50, steps=20):
        pass


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_spacing_that_is_much_too_small_warns_within_twenty_updates(share: float) -> None:
    images = smooth(300)
    with pytest.warns(UserWarning, match="update 15: next to no point violates the spacing"):
        twenty_updates(share * near(images), images)


def test_so_does_one_where_two_images_are_alike() -> None:
    """Now and then one of them is active, and violates any spacing: that is no work."""
    images = smooth(300)
    images[1] = images[0]
    with pytest.warns(UserWarning, match="update 1.: next to no point violates the spacing"):
        twenty_updates(0.1 * near(images), images)


def test_so_does_noise_that_no_spacing_crowds() -> None:
    images = smooth(300)
    with pytest.warns(UserWarning, match="update 15: next to no point violates the spacing"):
        twenty_updates(1.27 * near(images), images, at_images=False)


def test_a_right_spacing_does_not() -> None:
    """Warnings are errors here."""
    images = smooth(300)
    twenty_updates(1.27 * near(images), images)
