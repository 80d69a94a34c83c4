"""What cannot be answered is refused in one line of JSON, and the next request is answered."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from uspebm import EnergyDetector, save_model
from uspebm.serve.asked import ALLOWED
from uspebm.serve.limits import Limits

from .common import FRAME, PIXELS, TABLE, npy, post, serving

JSON, CSV, NPY, PARQUET = (
    "application/json",
    "text/csv",
    "application/x-npy",
    "application/vnd.apache.parquet",
)


def rows(*values: Any) -> bytes:
    return json.dumps({"rows": values}).encode()


def png(width: int, height: int) -> bytes:
    content = io.BytesIO()
    Image.new("L", (width, height)).save(content, "png")
    return content.getvalue()


PICKLED = npy(np.zeros(1)).replace(b"'<f8'", b"'|O' ")
HUGE = npy(np.zeros((1, 3))).replace(b"(1, 3)", b"(1, 9)")
TABLES: dict[str, tuple[bytes, str, int, str]] = {
    "nothing": (b"", JSON, 400, "is no JSON"),
    "no JSON": (b"{", JSON, 400, "is no JSON"),
    "no UTF-8": (b'{"rows": "\xff"}', JSON, 400, "is no JSON"),
    "deep": (b'{"rows":' + b"[" * 100_000, JSON, 400, "is no JSON"),
    "NaN": (b'{"rows": [[NaN, 1, 2]]}', JSON, 400, "null stands for a gap"),
    "another form": (b"[[1, 2, 3]]", JSON, 400, "another form"),
    "more than rows": (b'{"rows": [[1, 2, 3]], "x": 1}', JSON, 400, "another form"),
    "no rows": (rows(), JSON, 400, "no rows"),
    "text": (rows([1, "x", 2]), JSON, 422, "row 1, column 'b, c': \"x\" is not a number"),
    "a truth": (rows([1, True, 2]), JSON, 422, "true is not a number"),
    "a list in a cell": (rows([1, [2], 2]), JSON, 422, "is not a number"),
    "beyond floats": (b'{"rows": [[1e999, 1, 2]]}', JSON, 422, "is not a number"),
    "a long number": (b'{"rows": [[%s, 1, 2]]}' % (b"9" * 400), JSON, 422, "is not a number"),
    "too few": (rows([1, 2, 3], [1, 2]), JSON, 422, "row 2 has 2 values; there are 3 columns"),
    "a column less": (rows({"a": 1, "b, c": 2}), JSON, 422, "row 1 has no column '<b>d</b>'"),
    "a number for a row": (rows(7), JSON, 422, "neither a list nor an object"),
    "pickle": (PICKLED, NPY, 400, "not real numbers"),
    "not as long as it says": (HUGE, NPY, 400, "truncated or damaged"),
    "cut": (npy(TABLE)[:-1], NPY, 400, "truncated or damaged"),
    "one axis": (npy(np.zeros(3)), NPY, 422, "rows and columns are needed"),
    "no values": (npy(np.zeros((0, 3))), NPY, 422, "rows and columns are needed"),
    "columns too many": (npy(np.zeros((2, 4))), NPY, 422, "4 features"),
    "infinite": (npy(np.full((1, 3), np.inf)), NPY, 422, "infinity"),
    "five axes": (npy(np.zeros((1, 1, 1, 1, 1))), NPY, 422, "shape"),
    "images": (npy(np.zeros((1, 3, 3))), NPY, 422, "3 × 3 pixels"),
    "CSV with text": (b'a,"b, c",<b>d</b>\n1,x,2\n', CSV, 400, "the body: column 'b, c' holds 'x'"),
    "CSV without a column": (b"a\n1\n", CSV, 400, "the body has no column"),
    "empty CSV": (b"", CSV, 400, "the body is empty"),
    "no Parquet": (b"PAR1 nothing PAR1", PARQUET, 400, "the body"),
    "an image": (png(2, 2), "image/png", 422, "of tables"),
    "no kind": (rows([1, 2, 3]), "", 415, "application/json"),
    "another kind": (b"<x/>", "application/xml", 415, "application/json"),
    "a gzipped kind": (b"\x1f\x8b", "application/gzip", 415, "is not read"),
}


@pytest.mark.parametrize("what", TABLES)
def test_what_is_wrong_with_rows_is_said(table: TestClient, what: str) -> None:
    body, kind, status, message = TABLES[what]
    answer = post(table, body, kind)
    error = answer.json()["error"]
    assert (answer.status_code, message in error) == (status, True), (answer.status_code, error)
    assert "\n" not in error and "/tmp" not in error
    assert post(table, npy(TABLE[:1])).status_code == 200


IMAGES: dict[str, tuple[bytes, str, int, str]] = {
    "another size": (png(5, 5), "image/png", 422, "5 × 5 pixels"),
    "too large": (png(5000, 5000), "image/png", 413, "more than 12,000,000"),
    "cut": (png(6, 8)[:45], "image/png", 400, "the body is no whole image"),
    "no image": (b"GIF89a", "image/png", 400, "the body is no whole image"),
    "a table": (b"a,b\n1,2\n", CSV, 422, "not of tables"),
    "ragged": (rows([[1, 2], [3]]), JSON, 422, "all of one size"),
    "text": (rows([["a"]]), JSON, 422, "lists of numbers"),
    "truths": (rows([[True] * 6] * 8), JSON, 422, "lists of numbers"),
    "a truth among numbers": (rows([[True, *[0] * 5]] * 8), JSON, 422, "lists of numbers"),
    "objects": (rows({"a": 1}), JSON, 422, "lists of numbers"),
    "rows": (npy(np.zeros((1, 48))), NPY, 422, "images of 8 × 6 pixels"),
    "floats unscaled": (npy(PIXELS[:1] * 1.5), NPY, 422, "whole numbers from 0 to 255"),
}


@pytest.mark.parametrize("what", IMAGES)
def test_what_is_wrong_with_images_is_said(images: TestClient, what: str) -> None:
    body, kind, status, message = IMAGES[what]
    answer = post(images, body, kind)
    error = answer.json()["error"]
    assert (answer.status_code, message in error) == (status, True), (answer.status_code, error)
    assert "\n" not in error and "/tmp" not in error


def test_gaps_are_refused_where_they_cannot_be_filled(tmp_path: Path) -> None:
    detector = EnergyDetector("tables-density", max_updates=0, random_state=0).fit(TABLE)
    save_model(detector, tmp_path / "density")
    with serving(tmp_path / "density") as client:
        assert client.get("/info").json()["gaps"] is False
        answer = post(client, rows([1, None, 2]), JSON)
    assert answer.status_code == 422
    assert "takes no gaps" in answer.json()["error"]


RATE = "is not a number between 0 and 1, such as 0.05"
REASONS, NEAREST = "is not a whole number from 0 to 100", "is not a whole number from 0 to 20"
UNKNOWN = "give false_alarm_rate, why or nearest"
QUESTIONS = {
    "false_alarm_rate=0": f"false_alarm_rate: '0' {RATE}",
    "false_alarm_rate=1": f"false_alarm_rate: '1' {RATE}",
    "false_alarm_rate=x": f"false_alarm_rate: 'x' {RATE}",
    "false_alarm_rate=nan": f"false_alarm_rate: 'nan' {RATE}",
    "false_alarm_rate=": f"false_alarm_rate: '' {RATE}",
    "why=-1": f"why: '-1' {REASONS}",
    "why=101": f"why: '101' {REASONS}",
    "why=1.5": f"why: '1.5' {REASONS}",
    f"why={'9' * 5000}": f"why: '999999999999...9999999999999' {REASONS}",
    "nearest=21": f"nearest: '21' {NEAREST}",
    "nearest=%1b%5b2J%0a": rf"nearest: '\x1b[2J\n' {NEAREST}",
    "x=1": f"there is no parameter 'x': {UNKNOWN}",
    "%0a=1": rf"there is no parameter '\n': {UNKNOWN}",
    "false_alarm_rate=0&why=-1": f"false_alarm_rate: '0' {RATE}",
}


@pytest.mark.parametrize("ask", QUESTIONS, ids=lambda ask: str(ask)[:30])
def test_questions_are_checked(table: TestClient, ask: str) -> None:
    answer = post(table, npy(TABLE[:1]), ask=f"?{ask}")
    assert answer.status_code == 422
    assert answer.json() == {"error": QUESTIONS[ask]}


def test_what_is_said_to_be_allowed_is(table: TestClient) -> None:
    for ask in ("false_alarm_rate=0.05", "why=0", "why=100", "nearest=0", "nearest=20"):
        assert post(table, npy(TABLE[:1]), ask=f"?{ask}").status_code == 200, ask
    document = table.get("/openapi.json").json()
    asked = {one["name"] for one in document["paths"]["/score"]["post"]["parameters"]}
    assert asked == ALLOWED.keys()


def test_too_much_is_refused(served: Path) -> None:
    few = Limits(rows=5, body=2000, explained=2)
    with serving(served / "named", few) as client:
        assert post(client, npy(TABLE[:5])).status_code == 200
        csv = FRAME[:6].to_csv(index=False).encode()
        for body, kind in ((npy(TABLE[:6]), NPY), (rows(*TABLE[:6].tolist()), JSON), (csv, CSV)):
            answer = post(client, body, kind)
            assert answer.status_code == 413
            assert "more than 5 rows" in answer.json()["error"]
        long = post(client, b"x" * 2001)
        assert long.status_code == 413
        assert "larger than 2,000 bytes" in long.json()["error"]
        endless = client.post(
            "/score", content=iter([b"x" * 999] * 3), headers={"content-type": NPY}
        )
        assert endless.status_code == 413
        found = post(client, npy(TABLE[:3]), ask="?nearest=1&why=1").json()
        assert [len(one or ()) for one in found["nearest"]] == [1, 1, 0]
        assert [one is None for one in found["why"]] == [False, False, True]
        assert found["warnings"] == ["reasons and neighbours are given of the first 2 rows"]


def test_too_many_images_are_called_images(served: Path) -> None:
    with serving(served / "pixels", Limits(rows=5, explained=2)) as client:
        for body, kind in ((npy(PIXELS[:6]), NPY), (rows(*PIXELS[:6].tolist()), JSON)):
            answer = post(client, body, kind)
            assert answer.status_code == 413
            assert "more than 5 images: send them" in answer.json()["error"]
        found = post(client, npy(PIXELS[:3]), ask="?why=1").json()
        assert found["warnings"] == ["reasons and neighbours are given of the first 2 images"]
        for body in (b"{", b"[]", rows()):
            error = post(client, body, JSON).json()["error"]
            assert error.endswith('give {"rows": [...]}, each an image: a list of lists of numbers')


def test_bytes_in_flight_are_counted_and_given_back(served: Path) -> None:
    with serving(served / "named", Limits(bodies=500)) as client:
        for _ in range(3):
            assert post(client, npy(TABLE[:1])).status_code == 200
            answer = post(client, npy(TABLE[:20]))
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
