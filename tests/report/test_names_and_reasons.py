"""What pages call the user's points, and why they say these are strange."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from uspebm import EnergyDetector, save_model
from uspebm.cli import main
from uspebm.detector.drift import DriftMonitor
from uspebm.evaluation.comparison import Judgement, comparison_table
from uspebm.report.build import page_of
from uspebm.report.drift_record import drift_in, keep_drift
from uspebm.report.html import document
from uspebm.report.listing import listed

from .common import image_model

STRANGE = "late/b 07.png"


def write_folder(folder: Path) -> Path:
    """Sixty dark images in two folders, one of them with a bright spot, and one that is damaged."""
    draws = np.random.default_rng(0)
    for k in range(30):
        for name in ("early/a", "late/b"):
            image = draws.integers(40, 60, (8, 8), dtype=np.uint8)
            file = folder / f"{name} {k:02}.png"
            if str(file).endswith(STRANGE):
                image[2:5, 2:5] = 255
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(file)
    (folder / "early" / "a 03.png").write_bytes(b"none")
    return folder


@pytest.mark.parametrize("limit", [200, 50], ids=["all", "some"])
def test_a_strange_image_is_called_by_its_file(tmp_path: Path, limit: int) -> None:
    data, model = write_folder(tmp_path / "photos"), tmp_path / "model"
    flags = ("--recipe", "pixels", "--skip-bad", "--rows", str(limit), "--seed", "1")
    assert main.main(["fit", str(data), "--out", str(model), *flags]) == 0
    seen = json.loads((model / "evidence.json").read_text())["looked_at"]
    assert seen["least"][0]["name"] == STRANGE
    page = document(page_of(model))
    assert f"{STRANGE}: p 0.0" in page
    assert f"Image {STRANGE}, score " in page


def test_an_evaluation_names_files_too(tmp_path: Path) -> None:
    data, model, out = write_folder(tmp_path / "photos"), tmp_path / "model", tmp_path / "out"
    (data / "early" / "a 03.png").unlink()
    assert main.main(["fit", str(data), "--out", str(model), "--recipe", "pixels"]) == 0
    command = ("evaluate", str(model), "--id", str(data), "--ood", f"x={data}", "--out", str(out))
    assert main.main(list(command)) == 0
    seen = json.loads((out / "evidence.json").read_text())["looked_at"]
    assert seen["inside"][0]["name"] == STRANGE


def test_evidence_without_names_numbers_images(tmp_path: Path) -> None:
    model = image_model(tmp_path / "model")
    kept = json.loads((model / "evidence.json").read_text())
    for one in kept["looked_at"]["least"]:
        del one["name"]
    (model / "evidence.json").write_text(json.dumps(kept))
    assert f"{kept['looked_at']['least'][0]['row']}: p " in document(page_of(model))


def test_images_are_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = write_folder(tmp_path / "photos"), tmp_path / "model"
    (data / "early" / "a 03.png").unlink()
    for command in (
        ["fit", data, "--out", model, "--recipe", "pixels"],
        ["score", model, data, "--out", tmp_path / "s.csv"],
        ["calibrate", model, data, "--out", tmp_path / "again"],
        ["drift", model, data, "--false-alarm-rate", "0.0001"],
    ):
        assert main.main([str(word) for word in command]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "learned from 59 images" in said
    assert " of 59 images score below" in said
    assert "calibrated by 59 images" in said
    assert "No drift in 59 images" in said
    assert " rows" not in said
    assert "- Fitted to 59 images of photos.\n" in (model / "README.md").read_text()
    assert "59 images of photos" in document(page_of(model))


def test_drift_of_images_is_of_images(tmp_path: Path) -> None:
    X = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    monitor = DriftMonitor(EnergyDetector("pixels", random_state=0).fit(X))
    monitor.update(X[:20])
    keep_drift(tmp_path, monitor, "photos", images=True)
    kept = drift_in(tmp_path)
    assert kept is not None
    assert "20 images of photos" in kept.said


def mixed() -> pd.DataFrame:
    draws = np.random.default_rng(0)
    load = draws.normal(100, 8, 300)
    frame = pd.DataFrame({"load": load, "temp": 0.5 * load + draws.normal(0, 1, 300)})
    frame["vib"] = 0.1 * load + draws.normal(0, 0.3, 300)
    frame["count"] = draws.poisson(2, 300).astype(float)
    frame["state"] = np.where(draws.random(300) < 0.95, "ok", "service")
    frame.loc[7, "state"] = "service"
    return frame


def test_reasons_are_values_that_differ_from_what_was_expected() -> None:
    """All but the first of a row; a category is expected, a number about so."""
    frame = mixed()
    detector = EnergyDetector(random_state=0).fit(frame)
    rows = detector.columns().encode({name: frame[name].to_numpy() for name in frame})
    spread = frame.std(numeric_only=True)
    at = np.arange(60)
    more = 0
    found = listed(detector, rows[at], at, rows)
    for one in found:
        for reason in one.why.split("; ")[1:]:
            name, _, rest = reason.partition(" is ")
            value, _, expected = rest.partition(", expected ")
            if name == "state":
                assert expected in ("ok", "service")
            else:
                told = float(expected.removeprefix("about "))
                assert abs(float(value) - told) > 0.09 * spread[name]  # of four digits
            more += 1
    assert more > 20
    assert any("state is service, expected ok" in one.why for one in found)
    assert not any("expected about ok" in one.why for one in found)


def test_zeros_are_zeros_on_a_card(tmp_path: Path) -> None:
    frame = mixed()
    save_model(EnergyDetector(random_state=0).fit(frame), tmp_path / "model", title="Mixed")
    lines = (tmp_path / "model" / "README.md").read_text().splitlines()
    for column in ("count", "state = ok", "state = service"):
        (line,) = [line for line in lines if line.startswith(f"| {column} |")]
        assert line.split("|")[3].strip() == "0"


def test_names_of_detectors_are_whole_on_a_narrow_terminal() -> None:
    names = (
        "EnergyDetector",
        "IsolationForest",
        "LocalOutlierFactor",
        "OneClassSVM",
        "k-NN",
        "PCA",
    )
    results = [Judgement("p", "problems of mine", n, 0, 0.9, 0.5, 0.1, 0.1) for n in names]
    narrow = Console(width=60)
    with narrow.capture() as said:
        narrow.print(comparison_table(results))
    assert "…" not in said.get()


def test_one_family_is_no_families(tmp_path: Path) -> None:
    one = {"problem": "p", "family": "f", "seed": 0, "auroc": 0.9, "ap": 0.5}
    both = [
        one | {"detector": name, "fit_seconds": 0.1, "score_seconds": 0.1} for name in ("a", "b")
    ]
    (tmp_path / "compare.json").write_text(json.dumps(both))
    assert dict(page_of(tmp_path).facts)["problems"] == "1, in 1 family"
