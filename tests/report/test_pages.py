"""What the pages say of what folders hold."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from uspebm.evaluation.comparison import Judgement
from uspebm.report.build import page_of, write_report
from uspebm.report.demo_page import demo_verdict
from uspebm.report.evidence import Evidence, evidence_in, keep_evidence, quantiles
from uspebm.report.html import document
from uspebm.report.page import Chart, Dial, Gallery, Page, Player, Sheet
from uspebm.report.thresholds import threshold_dial
from uspebm.support.reading import UnreadableError

from .common import HOSTILE, image_model, row, rows, short_demo, table_model, write_run


def blocks(page: Page, kind: type) -> list[object]:
    return [b for section in page.sections for b in section.blocks if isinstance(b, kind)]


def coloured(value: object) -> object:
    """With a colour of its own for each name that the page's style has a value for."""
    if isinstance(value, str):
        return "#123456" if value.startswith("@") else value
    if isinstance(value, dict):
        return {key: coloured(one) for key, one in value.items()}
    return [coloured(one) for one in value] if isinstance(value, list | tuple) else value


def check_charts(page: Page) -> None:
    """All that charts say is known to the library, which refuses what is not."""
    for block in (*blocks(page, Chart), *blocks(page, Dial)):
        assert isinstance(block, Chart | Dial)
        go.Figure(coloured(block.figure))
        assert block.alt.endswith(".")


def write_comparison(folder: Path, best: str) -> Path:
    folder.mkdir()
    results = [
        Judgement(f"p{k}", f"family {k}", name, 0, 0.9 if name == best else 0.6, 0.5, 0.1, 0.1)
        for k in range(12)
        for name in ("EnergyDetector", "KNN", HOSTILE)
    ]
    (folder / "compare.json").write_text(json.dumps([asdict(result) for result in results]))
    return folder


def write_claims(folder: Path, holds: bool) -> Path:
    folder.mkdir()
    claim = {"name": "KL", "paper": "small", "measured": 0.5, "spread": 0.1, "seeds": 2}
    (folder / "results.json").write_text(json.dumps({"claims": [{**claim, "holds": holds}]}))
    write_run(folder / "ps_usp-0", rows(20))
    return folder


def write_evaluation(folder: Path, auroc: float = 0.95, false_alarms: float = 0.05) -> Path:
    folder.mkdir()
    figures = ("fpr95", "auroc", "aupr_id", "aupr_ood")
    one = {name: {"value": auroc, "low": 0.1, "high": 1.0} for name in figures}
    found = {
        "model": "model",
        "inside": "x.csv",
        "threshold": 5.0,
        "rows": 1000,
        "calibration_rows": 1000,
        "false_alarms": false_alarms,
        "false_alarms_expected": 0.05,
        "against": {HOSTILE: {**one, "alarms": 0.8, "rows": 50}},
    }
    (folder / "evaluate.json").write_text(json.dumps(found))
    scores = np.arange(1.0, 100.0)
    point = {"row": 3, "score": 1.0, "p": 0.01, "why": HOSTILE, "picture": "", "heat": ""}
    seen = {
        "calibration": scores.tolist(),
        "scores": {"x.csv": quantiles(scores), HOSTILE: quantiles(scores - 80)},
        "inside": [point],
        "outside": {HOSTILE: [point]},
    }
    keep_evidence(folder, Evidence(("uspebm", "evaluate", HOSTILE), 1.0, seen))
    return folder


FOLDERS: dict[str, Callable[[Path], Path]] = {
    "run": lambda folder: write_run(folder, rows(30)),
    "runs": lambda folder: write_run(folder / "one", rows(30)).parent,
    "demo": short_demo,
    "table": lambda folder: table_model(folder, HOSTILE),
    "images": image_model,
    "comparison": lambda folder: write_comparison(folder, HOSTILE),
    "claims": lambda folder: write_claims(folder, holds=False),
    "evaluation": write_evaluation,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Each made once."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = FOLDERS[kind](tmp_path_factory.mktemp("pages") / kind)
        return made[kind]

    yield folder


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_kind_of_folder_makes_a_page(folders: Callable[[str], Path], kind: str) -> None:
    page = page_of(folders(kind))
    assert page.verdict
    assert page.facts
    check_charts(page)
    written = document(page)
    assert len(written) < 5_000_000
    assert "<script>window" not in written
    assert "<img src=x" not in written
    assert write_report(folders(kind)).read_text() == written


def test_a_folder_of_nothing_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds nothing to report"):
        page_of(tmp_path)
    with pytest.raises(ValueError, match="is no folder"):
        page_of(tmp_path / "gone")


def test_a_run_without_faults_and_one_with_a_fault(tmp_path: Path) -> None:
    good = page_of(write_run(tmp_path / "good", rows(60)))
    assert good.verdict[0].tone == "good"
    assert "60 of 100 updates" in good.verdict[0].text
    bad = page_of(write_run(tmp_path / "bad", rows(60, lambda step: {"ess": 1.0})))
    assert [remark.tone for remark in bad.verdict] == ["bad", "bad"]
    assert "Collapsed weights" in bad.verdict[1].title
    (marked,) = [
        block for block in blocks(bad, Chart) if isinstance(block, Chart) and "Marked" in block.alt
    ]
    assert marked.title == "Effective nodes"
    assert marked.figure["layout"]["shapes"][0]["x0"] == 0.5


def test_a_log_that_has_no_line_yet_is_a_page(tmp_path: Path) -> None:
    assert "has not begun" in page_of(write_run(tmp_path / "new", [])).verdict[0].title


def test_a_long_log_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "long", [row(k) for k in range(1, 3001)]))
    chart = blocks(page, Chart)[0]
    assert isinstance(chart, Chart)
    x = chart.figure["data"][0]["x"]
    assert (len(x), x[0], x[-1]) == (500, 1, 3000)


def test_the_demo_shows_both_densities_beside_the_truth(folders: Callable[[str], Path]) -> None:
    page = page_of(folders("demo"))
    (player,) = blocks(page, Player)
    assert isinstance(player, Player)
    assert [panel.caption for panel in player.panels] == ["the truth", "PS-USP", "SRLMC"]
    frames = [len(panel["frames"]) for panel in player.data["panels"]]
    assert frames == [1, 6, 6]
    assert all(frame["points"] for frame in player.data["panels"][1]["frames"])
    assert page.sections[-1].title == "Once more"


def test_the_demo_says_who_learned_the_density() -> None:
    fit = {"mode_mass": [1 / 6] * 6, "ood_share": 0.0, "seconds": 1.0}
    good, bad = demo_verdict({"ps_usp": {"kl": 0.03, **fit}, "srlmc": {"kl": 4.5, **fit}})
    assert (good.title, good.tone) == ("PS-USP learned the density", "good")
    assert (bad.title, bad.tone) == ("SRLMC did not learn the density", "bad")
    other = demo_verdict({"ps_usp": {"kl": 2.0, **fit}, "srlmc": {"kl": 0.01, **fit}})
    assert [remark.tone for remark in other] == ["bad", "good"]


def test_the_strange_row_of_a_table_comes_first(folders: Callable[[str], Path]) -> None:
    page = page_of(folders("table"))
    sheets = {s.title: s for s in page.sections}
    (sheet,) = [b for b in sheets["Rows least like the rest"].blocks if isinstance(b, Sheet)]
    assert sheet.body[0][0] == "18"
    assert sheet.body[0][3].startswith("a is 9, expected about ")
    (columns,) = sheets["Columns"].blocks
    assert isinstance(columns, Sheet)
    assert [name for name, _ in columns.body] == ["a", HOSTILE, "c"]
    assert any("shows some of the data" in remark.title for remark in page.verdict)


def test_images_that_were_fitted_to_are_said_to_be(folders: Callable[[str], Path]) -> None:
    assert "The model was fitted to most of these images" in document(page_of(folders("images")))
    assert "The model was fitted to most of these images" not in document(page_of(folders("table")))


def test_images_are_pictures_of_the_page(folders: Callable[[str], Path]) -> None:
    galleries = [g for g in blocks(page_of(folders("images")), Gallery) if isinstance(g, Gallery)]
    assert {"Least like the rest", "Most like the rest"} <= {g.title for g in galleries}
    pictures = [picture for gallery in galleries for picture in gallery.pictures]
    assert all(picture.source.startswith("data:image/png;base64,") for picture in pictures)
    assert all(picture.alt for picture in pictures)


def test_a_model_alone_makes_a_page_too(tmp_path: Path) -> None:
    folder = table_model(tmp_path / "model")
    (folder / "evidence.json").unlink()
    page = page_of(folder)
    titles = [section.title for section in page.sections]
    assert titles == ["Thresholds", "Columns", "Settings"]


def test_alarms_and_misses_at_each_stop() -> None:
    calibration = np.arange(1.0, 100.0)
    outliers = {"faults": np.array([-5.0, 3.0, 20.5, 200.0])}
    dial = threshold_dial(calibration, {"new": calibration}, outliers, 0.05, "")
    rates = [stop["rate"] for stop in dial.stops]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(1 / 100)
    stop = dial.stops[dial.at]
    assert (stop["rate"], stop["threshold"]) == (0.05, 5.0)
    assert stop["lines"][1] == "new: 4.04% raise a false alarm."
    assert stop["lines"][2] == "faults: 50.0% are found, 50.0% are missed."
    assert dial.stops[-1]["lines"][2] == "faults: 75.0% are found, 25.0% are missed."


def test_scores_of_minus_infinity_are_found() -> None:
    kept = quantiles(np.array([0.0, -np.inf, 1.0]))
    assert json.loads(json.dumps(kept)) == [-1e300, 0.0, 1.0]
    many = quantiles(np.arange(5000.0))
    assert (len(many), many[0], many[-1]) == (1001, 0.0, 4999.0)


def test_who_is_first_and_whether_that_is_chance(tmp_path: Path) -> None:
    ours = page_of(write_comparison(tmp_path / "ours", "EnergyDetector"))
    assert ours.verdict[0].title == "EnergyDetector comes first"
    theirs = page_of(write_comparison(tmp_path / "theirs", "KNN"))
    assert theirs.verdict[0].title == "KNN comes first"
    assert "EnergyDetector is" in theirs.verdict[1].title
    both = page_of(write_comparison(tmp_path / "none", "nobody"))
    assert both.verdict[0].title.startswith("EnergyDetector and KNN and")
    assert both.verdict[0].tone == "plain"


def test_claims_that_do_not_hold_come_first(tmp_path: Path) -> None:
    assert page_of(write_claims(tmp_path / "held", holds=True)).verdict[0].tone == "good"
    folder = write_claims(tmp_path / "failed", holds=False)
    (failed,) = page_of(folder).verdict
    assert (failed.tone, "0 of 1" in failed.title) == ("bad", True)
    assert "KL (0.5 ± 0.1 (2 seeds)" in failed.text
    keep_evidence(folder, Evidence(("uspebm", "reproduce", "--preset", "smoke"), 1.0))
    (smoke,) = page_of(folder).verdict
    assert smoke.tone == "plain"
    assert "mean nothing" in smoke.text


@pytest.mark.parametrize(
    ("auroc", "false_alarms", "tones"),
    [
        (0.95, 0.05, ["good", "good"]),
        (0.75, 0.06, ["plain", "good"]),
        (0.5, 0.15, ["bad", "bad"]),
    ],
)
def test_an_evaluation_is_judged_in_words(
    tmp_path: Path, auroc: float, false_alarms: float, tones: list[str]
) -> None:
    page = page_of(write_evaluation(tmp_path / "e", auroc, false_alarms))
    assert [remark.tone for remark in page.verdict[:2]] == tones


def test_evidence_comes_back_and_damage_is_said(tmp_path: Path) -> None:
    assert evidence_in(tmp_path) is None
    keep_evidence(tmp_path, Evidence(("uspebm", "fit"), 2.0, {"rows": 3}))
    kept = evidence_in(tmp_path)
    assert kept is not None
    assert (kept.command, kept.seconds, kept.looked_at) == (("uspebm", "fit"), 2.0, {"rows": 3})
    for content in ("[]", "{", '{"command": 1}', '{"command": [1], "seconds": 1}'):
        (tmp_path / "evidence.json").write_text(content)
        with pytest.raises(UnreadableError, match=r"evidence\.json"):
            evidence_in(tmp_path)


def test_a_picture_from_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = image_model(tmp_path / "model")
    kept = evidence_in(folder)
    assert kept is not None
    kept.looked_at["least"][0]["picture"] = "https://example.org/x.png"
    keep_evidence(folder, kept)
    with pytest.raises(ValueError, match=r"remove evidence\.json"):
        page_of(folder)
