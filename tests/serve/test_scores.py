"""Whatever the format, the answer is what the detector says."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

from tests.detector.models import BYTES, fresh
from uspebm import EnergyDetector, load, save_model
from uspebm.data.encoding import EncodedColumn, Encoding
from uspebm.serve.shown import shown_row

from .common import COLOURS, FRAME, MIXED, PIXELS, TABLE, WITH_GAPS, npy, post, serving
from .explaining import explain

SOME = slice(0, 5)
JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"


def in_json(frame: pd.DataFrame, orient: Any) -> bytes:
    rows = frame.to_json(orient=orient, date_format="iso", double_precision=15)
    return f'{{"rows": {rows}}}'.encode()


def objects(frame: pd.DataFrame) -> bytes:
    return in_json(frame, "records")


def lists(frame: pd.DataFrame) -> bytes:
    return in_json(frame, "values")


def parquet(frame: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.to_parquet(content)
    return content.getvalue()


def picture(array: Any, kind: str = "png") -> bytes:
    content = io.BytesIO()
    Image.fromarray(array).save(content, kind)
    return content.getvalue()


FRAMES = {"named": FRAME, "gaps": WITH_GAPS, "mixed": MIXED}
BODIES: dict[str, tuple[Any, str]] = {
    "objects": (objects, JSON),
    "lists": (lists, JSON),
    "csv": (lambda frame: frame.to_csv(index=False).encode(), CSV),
    "tsv": (lambda f: f.to_csv(index=False, sep="\t").encode(), "text/tab-separated-values"),
    "parquet": (parquet, PARQUET),
    "csv in another order": (lambda f: f[f.columns[::-1]].to_csv(index=False).encode(), CSV),
}


@pytest.mark.parametrize("model", FRAMES)
@pytest.mark.parametrize("form", BODIES)
def test_tables_of_every_form(served: Path, model: str, form: str) -> None:
    rows, (write, kind) = FRAMES[model][SOME], BODIES[form]
    detector = load(served / model)
    with serving(served / model) as client:
        answer = post(client, write(rows), kind)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    np.testing.assert_allclose(found["score"], detector.score_samples(rows), rtol=1e-6)
    np.testing.assert_allclose(found["p_value"], detector.p_values(rows), atol=0.011)
    assert found["outlier"] == (detector.predict(rows) == -1).tolist()
    assert found["threshold"] == detector.offset_


def test_arrays_have_the_same_bits(served: Path) -> None:
    detector = load(served / "nameless")
    with serving(served / "nameless") as client:
        for array in (TABLE[SOME], TABLE[SOME].T.copy().T, TABLE[SOME].astype(">f8")):
            found = post(client, npy(array)).json()
            assert found["score"] == detector.score_samples(TABLE[SOME]).tolist()


def test_images_as_files_as_arrays_and_as_lists(images: TestClient, served: Path) -> None:
    expected = load(served / "pixels").score_samples(PIXELS[:1]).tolist()
    plain = f'{{"rows": {PIXELS[:1].tolist()}}}'.encode()
    for body, kind in (
        (picture(PIXELS[0]), "image/png"),
        (picture(PIXELS[0], "bmp"), "image/bmp"),
        (picture(PIXELS[0], "tiff"), "image/tiff"),
        (npy(PIXELS[:1]), "application/x-npy"),
        (plain, JSON),
    ):
        answer = post(images, body, kind)
        assert answer.status_code == 200, answer.text
        assert answer.json()["score"] == expected


def test_colour(served: Path) -> None:
    with serving(served / "colour") as client:
        found = post(client, picture(COLOURS[7]), "image/png", "?nearest=2").json()
    assert found["score"] == load(served / "colour").score_samples(COLOURS[7:8]).tolist()
    assert found["nearest"][0][0]["image"] == COLOURS[7].tolist()
    assert found["nearest"][0][0]["distance"] < 1e-5 < found["nearest"][0][1]["distance"]


def test_rates(table: TestClient, served: Path) -> None:
    """At a rate of its own, verdicts are the detector's; one that cannot be kept is refused."""
    detector, rows = load(served / "named"), FRAME[:100]
    for rate in (0.01, 0.2, 0.7):
        found = post(table, objects(rows), JSON, f"?false_alarm_rate={rate}").json()
        assert found["outlier"] == (detector.predict(rows, false_alarm_rate=rate) == -1).tolist()
        assert found["false_alarm_rate"] == rate
        assert found["outlier"] == [p <= rate for p in found["p_value"]]
    refused = post(table, objects(rows), JSON, "?false_alarm_rate=0.001")
    assert refused.status_code == 422
    assert "needs at least 999 calibration points" in refused.json()["error"]


def test_far_away_is_an_outlier_however_far(table: TestClient) -> None:
    found = post(table, npy(np.full((1, 3), 1e300))).json()
    assert found["outlier"] == [True]
    assert found["score"] == [None]


def test_nearest_rows_are_the_users(table: TestClient) -> None:
    (near,) = post(table, objects(FRAME[3:4]), JSON, "?nearest=3").json()["nearest"]
    assert len(near) == 3
    np.testing.assert_allclose(near[0]["row"], FRAME.iloc[3], rtol=1e-4)
    assert near[0]["distance"] < 1e-3 < near[1]["distance"] <= near[2]["distance"]


def test_nearest_rows_have_words_for_numbers(served: Path) -> None:
    with serving(served / "mixed") as client:
        info = client.get("/info").json()
        (near,) = post(client, objects(MIXED[3:4]), JSON, "?nearest=1").json()["nearest"]
    row, wanted = near[0]["row"], MIXED.iloc[3]
    assert row[0] == pytest.approx(wanted["size"], rel=1e-4)
    assert row[1:3] == [wanted["colour"], wanted["on"]]
    minute = wanted["when"].round("min")
    assert row[3] == minute.strftime("%a %H:%M")
    assert [column["kind"] for column in info["columns"]] == ["number", "category", "truth", "date"]
    assert set(info["columns"][1]["levels"]) == {"red", "green", "blue"}


def test_midnight_is_of_the_day_that_it_begins() -> None:
    days = pd.date_range("2026-03-02", periods=21)
    dates, detector = Encoding((EncodedColumn("when", "date"),)), EnergyDetector()
    detector.set_encoding(dates)
    for early in (0, 20):
        moments = (days - pd.Timedelta(seconds=early)).to_numpy()
        rows = torch.from_numpy(dates.encode({"when": moments}))
        shown = [shown_row(detector, row) for row in rows]
        assert shown == [[day.strftime("%a 00:00")] for day in days]


def test_reasons(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EnergyDetector, "explain", explain)
    with serving(served / "named") as client:
        found = post(client, npy(TABLE[:2]), ask="?why=2").json()["why"]
        assert client.get("/info").json()["explains"]
    first = pytest.approx(float(f"{TABLE[0, 0]:.6g}"))
    assert found[0] == [{"column": "a", "gain": 2.5, "value": first, "expected": 0.5}]
    with serving(served / "pixels") as client:
        (heat,) = post(client, npy(PIXELS[:1]), ask="?why=1").json()["why"]
    assert heat == [[1.0] * 6] + [[0.0] * 6] * 7


def test_who_cannot_explain_says_so(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: EnergyDetector, X: Any) -> None:
        raise ValueError("this model holds no rows to compare with")

    monkeypatch.setattr(EnergyDetector, "explain", cannot)
    with serving(served / "named") as client:
        answer = post(client, npy(TABLE[:2]), ask="?why=2")
        assert not client.get("/info").json()["explains"]
    assert answer.status_code == 422
    assert "leave out why" in answer.json()["error"]


def test_networks_over_features_know_numbers_only(tmp_path: Path) -> None:
    save_model(fresh("images"), tmp_path / "network")
    with serving(tmp_path / "network") as client:
        assert client.get("/info").json()["neighbours"] == "numbers"
        (near,) = post(client, npy(BYTES[:1]), ask="?nearest=2").json()["nearest"]
    assert [set(one) for one in near] == [{"number", "distance"}] * 2


def test_a_network_alone_knows_no_points() -> None:
    with serving(Path("fashion-mnist")) as client:
        assert client.get("/info").json()["neighbours"] is None
        found = post(client, npy(np.zeros((1, 28, 28), np.uint8)), ask="?nearest=2").json()
    assert found["nearest"] == [[]]


@pytest.mark.filterwarnings("ignore:the model takes floats")
def test_floats_between_zero_and_one_are_doubted(images: TestClient) -> None:
    assert "2 * X − 1" in post(images, npy(PIXELS[:1] / 255.0)).json()["warnings"][0]
    assert post(images, npy(PIXELS[:1] / 127.5 - 1)).json()["warnings"] == []


def test_info_tells_what_a_client_needs(table: TestClient, served: Path) -> None:
    detector, found = load(served / "named"), table.get("/info").json()
    assert found["title"] == "Of named"
    assert [column["name"] for column in found["columns"]] == list(FRAME.columns)
    known = found["calibration"]
    assert sum(known["counts"]) == known["points"] == len(detector.calibration_scores_)
    assert known["thresholds"] == sorted(known["thresholds"])
    usual = [[column["usual"] for column in found["columns"]]]
    with serving(served / "nameless") as client:
        assert post(client, npy(np.array(usual))).json()["outlier"] == [False]


def test_metrics_count(table: TestClient) -> None:
    post(table, npy(np.concatenate([TABLE[:9], np.full((3, 3), 1e9)])))
    post(table, b"nonsense")
    text = table.get("/metrics").text
    for line in (
        'uspebm_requests_total{path="/score",status="200"} 1.0',
        'uspebm_requests_total{path="/score",status="400"} 1.0',
        'uspebm_request_seconds_count{path="/score"} 2.0',
        "uspebm_rows_total 12.0",
        'uspebm_score_bucket{le="+Inf"} 12.0',
        "uspebm_batch_rows_sum 12.0",
        "uspebm_drift_log10_capital",
    ):
        assert line in text
    alarms = float(text.split("\nuspebm_alarms_total ")[1].split()[0])
    assert 3 <= alarms <= 6
