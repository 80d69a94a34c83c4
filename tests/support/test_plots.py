"""Pictures show what they were given, where it lies."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uspebm.support import plots
from uspebm.support.plots import (
    density_panel,
    images_panel,
    new_figure,
    plot_run,
    points_panel,
    save_figure,
    shades,
)

EXTENT = (0.0, 4.0, -1.0, 1.0)


def test_a_density_lies_where_its_grid_does() -> None:
    """One cell of nine is dense: the third along the first axis, the first along the second."""
    _, (panel,) = new_figure(columns=1)
    density = torch.zeros(3, 3)
    density[2, 0] = 1.0
    density_panel(panel, density.flatten(), EXTENT, peak=1.0, title="q")
    (image,) = panel.get_images()
    assert tuple(image.get_extent()) == EXTENT
    assert image.origin == "lower"
    shown = np.asarray(image.get_array())
    assert shown[0, 2] == 1.0  # rows are heights
    assert shown.sum() == 1.0
    assert panel.get_title() == "q"


def test_nothing_is_told_of_fonts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as the commands do
    logging.getLogger("matplotlib.font_manager").setLevel(logging.NOTSET)
    new_figure(columns=1)
    assert not logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.INFO)
    assert logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.WARNING)


def test_points_lie_in_the_plane() -> None:
    _, (panel,) = new_figure(columns=1)
    points = torch.tensor([[1.0, 0.5], [3.0, -0.5]])
    points_panel(panel, points, EXTENT, colour="black", title="points")
    (cloud,) = panel.collections
    assert np.asarray(cloud.get_offsets()).tolist() == points.tolist()
    assert (*panel.get_xlim(), *panel.get_ylim()) == EXTENT


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        figure, (panel,) = new_figure(columns=1)
        points_panel(panel, torch.zeros(1, 2), EXTENT, colour="black", title="points")
        save_figure(figure, tmp_path / name)
    for ending in (".png", ".svg"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize("channels", [1, 3])
def test_images_lie_side_by_side_and_what_is_missing_is_white(channels: int) -> None:
    _, (panel,) = new_figure(columns=1)
    images = torch.arange(3.0).view(3, 1, 1, 1).expand(3, channels, 2, 4) - 1
    images_panel(panel, images, columns=2, title="three")
    (image,) = panel.get_images()
    shown = np.asarray(image.get_array()).reshape(4, 8, channels)
    assert shown[::2, ::4, 0].tolist() == [[0.0, 0.5], [1.0, 1.0]]
    assert (shown == shown[..., :1]).all()


def test_shades_become_darker() -> None:
    assert len(shades(1)) == 1
    brightness = [sum(colour[:3]) for colour in shades(4)]
    assert brightness == sorted(brightness, reverse=True)


ROWS: list[dict[str, Any]] = [
    {
        "step": k,
        "loss": 0.1 * k,
        "data_term": 0.2 * k,
        "node_energy": 0.1 * k,
        "ess": 9.0,
        "violating": 0.5,
        "spacing": 2.0,
        "gradient_norm": 10.0**-k,
        "engine": "torch",
    }
    for k in range(1, 5)
]


class OneRecord:
    """As ``fit`` yields them."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row

    def row(self) -> dict[str, Any]:
        return self._row


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Those of the figures that are made."""
    made: list[Any] = []

    def remembered(*args: Any, **settings: Any) -> Any:
        figure, of_it = new_figure(*args, **settings)
        made.extend(of_it)
        return figure, of_it

    monkeypatch.setattr(plots, "new_figure", remembered)
    return made


@pytest.mark.parametrize("as_records", [False, True])
def test_a_run_is_drawn_over_its_updates(
    as_records: bool, tmp_path: Path, panels: list[Any]
) -> None:
    plot_run([OneRecord(row) for row in ROWS] if as_records else ROWS, tmp_path / "run-0.5.png")
    assert [file.name for file in tmp_path.iterdir()] == ["run-0.5.png"]
    assert (tmp_path / "run-0.5.png").read_bytes().startswith(b"\x89PNG")
    assert [panel.get_title() for panel in panels] == [
        *("terms of the loss", "effective nodes", "violating share", "spacing ε"),
        "norm of the gradient",
    ]
    loss = next(line for line in panels[0].get_lines() if line.get_label() == "loss")
    assert loss.get_xdata().tolist() == [1, 2, 3, 4]
    assert loss.get_ydata().tolist() == [row["loss"] for row in ROWS]
    assert panels[-1].get_yscale() == "log"


def test_a_run_without_a_spacing_has_no_such_curve(tmp_path: Path, panels: list[Any]) -> None:
    rows = [{k: v for k, v in row.items() if k not in ("spacing", "violating")} for row in ROWS]
    plot_run(rows, str(tmp_path / "run.svg"))
    assert len(panels) == 3


@pytest.mark.parametrize(
    ("rows", "name", "message"), [([], "run.png", "records are empty"), (ROWS, "run", "path=run")]
)
def test_a_run_that_cannot_be_drawn_is_refused(rows: list[Any], name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_run(rows, name)


def test_what_is_drawn_may_have_a_graph() -> None:
    _, (panel, other) = new_figure(columns=2)
    points_panel(panel, torch.zeros(1, 2, requires_grad=True), EXTENT, "black", "points")
    images_panel(other, torch.zeros(1, 1, 2, 2, requires_grad=True), 1, "image")
