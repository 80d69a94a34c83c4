"""What a run keeps to be looked at."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from uspebm import Box, train
from uspebm.energies import Gaussian
from uspebm.experiments.fig4 import SMOKE
from uspebm.experiments.mixture import MIXTURE
from uspebm.recipes.frames import (
    FRAMES,
    density_frame,
    frame_steps,
    read_frame,
    read_frames,
    view_of,
    write_frame,
)
from uspebm.support.reading import UnreadableError

from .common import mixture, small_images
from .test_kills import TABLE
from .test_run import CROWDED


def test_frames_are_few_closer_in_the_beginning_and_the_last_update_is_one() -> None:
    for updates in (1, 5, 24, 500, 24_000):
        steps = sorted(frame_steps(updates))
        assert steps[0] >= 1
        assert steps[-1] == updates
        assert len(steps) <= FRAMES
    gaps = np.diff(sorted(frame_steps(24_000)))
    assert (np.diff(gaps) > 0).all()
    assert frame_steps(0) == {1}


def test_a_run_on_the_plane_keeps_its_density_and_points(tmp_path: Path) -> None:
    for recipe in SMOKE.recipes:
        run = train(recipe, MIXTURE, tmp_path / recipe.name, 0, show=False)
        frames = read_frames(tmp_path / recipe.name / "frames")
        assert [frame.step for frame in frames] == [1, 2, 3, 4]
        last = frames[-1]
        points = run.state.negative[0]
        wanted = points[torch.linspace(0, len(points) - 1, len(last.points)).long()]
        assert np.array_equal(last.points, wanted.numpy())
        sides = last.box[1] - last.box[0]
        cell = sides.prod() / last.log_q.size
        assert np.exp(last.log_q.astype(np.float64)).sum() * cell == pytest.approx(1, abs=1e-4)


def test_frames_change_nothing_of_the_training(tmp_path: Path) -> None:
    kept = train(SMOKE.ps_usp, MIXTURE, tmp_path / "run", 0, show=False)
    alone = train(SMOKE.ps_usp, MIXTURE, None, 0, show=False)
    assert torch.equal(kept.state.negative[0], alone.state.negative[0])
    for one, other in zip(kept.energy.parameters(), alone.energy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_images_are_kept_as_bytes_and_tables_are_not(tmp_path: Path) -> None:
    train(CROWDED, small_images(30), tmp_path / "images", 0, show=False)
    frame = read_frames(tmp_path / "images" / "frames")[-1]
    assert frame.points.dtype == np.uint8
    assert frame.points.ndim == 4
    assert not frame.log_q.size
    train(TABLE, mixture(300), tmp_path / "table", 0, show=False)
    assert read_frames(tmp_path / "table" / "frames") == []


def test_what_is_looked_at_is_the_domain_or_reaches_beyond_the_data() -> None:
    data = torch.tensor([[0.0, 0.0], [2.0, 4.0]])
    assert view_of(Box(-1.0, 1.0, (2,)), data) == Box(-1.0, 1.0, (2,))
    assert view_of(None, data) == Box((-1.0, -2.0), (3.0, 6.0))
    assert view_of(None, torch.zeros(5, 3)) is None
    assert view_of(None, torch.zeros(5, 1, 4, 4)) is None
    assert view_of(None, torch.zeros(5, 1)) is not None  # all the same


def test_a_frame_comes_back_and_damage_is_said(tmp_path: Path) -> None:
    frame = density_frame(Gaussian((0.0,), 0.1), Box(-1.0, 1.0, (1,)), 7)
    write_frame(frame, tmp_path / "a.npz")
    write_frame(frame, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = read_frame(tmp_path / "a.npz")
    assert again.step == 7
    assert np.array_equal(again.log_q, frame.log_q)
    write_frame(frame._replace(box=np.zeros((2, 2))), tmp_path / "c.npz")
    with pytest.raises(UnreadableError, match=r"c\.npz"):
        read_frame(tmp_path / "c.npz")
    (tmp_path / "a.npz").write_bytes((tmp_path / "b.npz").read_bytes()[:-40])
    with pytest.raises(UnreadableError, match=r"a\.npz"):
        read_frame(tmp_path / "a.npz")


def test_a_shorter_recipe_has_its_own_frames(tmp_path: Path) -> None:
    recipe = replace(SMOKE.ps_usp, schedule=replace(SMOKE.ps_usp.schedule, updates=2))
    train(recipe, MIXTURE, tmp_path / "run", 0, show=False)
    assert [f.step for f in read_frames(tmp_path / "run" / "frames")] == [1, 2]
