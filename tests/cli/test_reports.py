"""Reports that commands leave, and the commands about them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from uspebm import CheckpointError
from uspebm.cli.main import main
from uspebm.experiments import fig4
from uspebm.report import build, live

from .common import FILES, QUICK, TABLE, run, write_csv
from .test_extras import take_away


def test_fit_leaves_a_report_and_replaces_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = write_csv(tmp_path / "x.csv"), tmp_path / "model"
    assert run("fit", data, "--out", model) == 0
    out, err = capsys.readouterr()
    assert f"the report {model}/report.html" in out
    assert err == ""
    first = (model / "report.html").read_text()
    assert "Model of x.csv" in first
    assert f"uspebm fit {data} --out {model}" in first
    assert run("fit", data, "--out", model, "--seed", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["report"] == f"{model}/report.html"
    assert "--seed 1" in (model / "report.html").read_text()


def test_a_model_can_be_used_and_reported_on_later(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("named", "nameless", "pixels"):
        before = (models / name / "report.html").read_bytes()
        assert run("report", models / name) == 0
        assert capsys.readouterr().out == f"Report: {models / name}/report.html\n"
        assert (models / name / "report.html").read_bytes() == before
    data = write_csv(tmp_path / "x.csv")
    assert run("score", models / "named", data, "--out", tmp_path / "s.csv") == 0


def test_a_trained_model_shows_its_training(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "x.csv")
    recipe = ("--recipe", "tables-density", "--max-updates", "3")
    assert run("fit", data, "--out", tmp_path / "model", *recipe, "--tensorboard") == 0
    text = (tmp_path / "model" / "report.html").read_text()
    assert "Norm of the gradient" in text
    assert list((tmp_path / "model.tensorboard").glob("*/events.*"))
    assert not (tmp_path / "model.training").exists()


def test_a_model_can_be_fitted_from_inside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    data, model = write_csv(tmp_path / "x.csv"), tmp_path / "model"
    model.mkdir()
    for _ in range(2):  # the second one takes the place of the first
        monkeypatch.chdir(model)
        assert run("fit", data, "--out", ".", *QUICK, "--tensorboard") == 0
        assert (model / "report.html").exists()
    assert not (tmp_path / "model.training").exists()
    monkeypatch.chdir(tmp_path)
    refused(". exists and is no model", "fit", data, "--out", ".")


def test_without_the_extra_the_work_is_done_and_one_line_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = write_csv(tmp_path / "x.csv"), tmp_path / "model"
    take_away(monkeypatch, "plotly")
    assert run("fit", data, "--out", model, *QUICK) == 0
    out, err = capsys.readouterr()
    assert "report" not in out
    assert err == (
        "uspebm: no report was written: a report needs plotly, which is not installed: "
        "pip install 'uspebm[report]'\n"
    )
    assert (model / "model.json").exists()
    assert not (model / "report.html").exists()
    for command in ("report", "watch"):
        assert run(command, model) == 2
        assert "pip install 'uspebm[report]'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [OSError, CheckpointError])
def test_a_page_that_cannot_be_made_costs_no_model(
    kind: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(folder: Path) -> None:
        raise kind(f"{folder} is full")

    monkeypatch.setattr(build, "write_report", fail)
    data = write_csv(tmp_path / "x.csv")
    assert run("fit", data, "--out", tmp_path / "model", *QUICK) == 0
    out, err = capsys.readouterr()
    assert "no report was written" in err
    assert "learned from" in out
    assert (tmp_path / "model" / "model.json").exists()


def test_evaluate_leaves_figures_and_a_report(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = write_csv(tmp_path / "far.csv", TABLE + 1e6)
    sets = ("--id", models / "x.csv", "--ood", f"far={far}", "--ood", f"x.csv={far}")
    out = tmp_path / "found"
    assert run("evaluate", models / "named", *sets, "--out", out) == 0
    assert f"the report is {out}/report.html" in capsys.readouterr().out
    text = (out / "report.html").read_text()
    assert "far are told from normal data" in text
    assert "Most surprising outside: far" in text
    figures = json.loads((out / "evaluate.json").read_text())
    assert figures["against"]["far"]["alarms"] == 1.0


def test_evaluate_of_images_shows_them(models: Path, tmp_path: Path) -> None:
    data = models / "x-idx3-ubyte"
    np.save(tmp_path / "dark.npy", np.zeros((9, 4, 5), np.uint8))
    sets = ("--id", data, "--ood", f"dark={tmp_path / 'dark.npy'}")
    assert run("evaluate", models / "pixels", *sets, "--out", tmp_path / "found") == 0
    text = (tmp_path / "found" / "report.html").read_text()
    assert text.count("data:image/png;base64,") == 2 * (12 + 9)  # each beside why


def test_compare_and_reproduce_leave_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FILES["x.npy"](tmp_path / "x.npy")
    assert run("compare", tmp_path / "x.npy", "--out", tmp_path / "compared") == 0
    assert "Detectors compared" in (tmp_path / "compared" / "report.html").read_text()
    smoke = ("--preset", "smoke", "--out", tmp_path / "runs", "--tensorboard")
    assert run("reproduce", "fig4", *smoke) == 0
    folder = tmp_path / "runs" / "smoke" / "fig4"
    assert f"the report is {folder}/report.html" in capsys.readouterr().out
    text = (folder / "report.html").read_text()
    assert "mean nothing" in text
    assert "data:image/png;base64," in text
    names = {path.parent.name for path in (folder / "tensorboard").glob("*/events.*")}
    assert names == {"ps_usp-0", "srlmc-0"}


def test_the_demo_ends_by_naming_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fig4, "DEMO", fig4.SMOKE)
    assert run("demo", "--steps", "2", "--out", tmp_path) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"Report, to be opened in a browser: {tmp_path}/report.html"
    assert "SRLMC did not learn the density" in (tmp_path / "report.html").read_text()


def test_what_is_no_folder_of_ours_is_refused(tmp_path: Path, refused: Callable[..., None]) -> None:
    refused("holds nothing to report", "report", tmp_path)
    refused("is no folder", "report", tmp_path / "gone")
    for found in ({}, {"config": 1, "ps_usp": {}}, {"claims": [{"holds": True}]}):
        for name in ("results", "config"):
            (tmp_path / f"{name}.json").write_text(json.dumps(found))
        refused("cannot be read: there is no", "report", tmp_path)


def test_watch_says_where_and_ends_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(server: live.LiveServer, poll_interval: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live.LiveServer, "serve_forever", interrupted)
    assert main(["watch", str(tmp_path), "--port", "0"]) == 130
    out, err = capsys.readouterr()
    assert f"Watching {tmp_path}: open http://127.0.0.1:" in out
    assert err == ""


def test_help_needs_no_chart_library() -> None:
    program = "import sys; from uspebm.cli.main import main; main(['--version']); " + (
        "sys.exit(bool({'plotly', 'jinja2', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
