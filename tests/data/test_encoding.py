"""Columns of any kind as numbers: what is guessed, what can be said, what comes back."""

import json
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from uspebm.data.encoding import (
    Cells,
    EncodedColumn,
    Encoding,
    Hints,
    cells_of_frame,
    is_mixed_frame,
    learn_encoding,
)

ROWS = 40
FRAME = pd.DataFrame(
    {
        "row": np.arange(ROWS),
        "when": pd.date_range("2026-03-02", periods=ROWS, freq="6h"),  # a Monday
        "kind": ["a", "b", None, "a"] * (ROWS // 4),
        "ok": [True, False] * (ROWS // 2),
        "maybe": [True, None] * (ROWS // 2),
        "x": np.linspace(0, 1, ROWS),
        "remark": [f"remark {k}" for k in range(ROWS)],
        "code": pd.Categorical([3, 7] * (ROWS // 2)),
    }
)


def test_every_kind_is_recognised() -> None:
    found = learn_encoding(cells_of_frame(FRAME))
    assert {c.name: c.kind for c in found.columns} == {
        "row": "left out",
        "when": "date",
        "kind": "category",
        "ok": "truth",
        "maybe": "number",
        "x": "number",
        "remark": "left out",
        "code": "category",
    }
    assert found.used == ("when", "kind", "ok", "maybe", "x", "code")
    assert found.columns[6].said() == "left out: 40 different texts in 40 rows"
    assert not found.plain_numbers
    assert is_mixed_frame(FRAME)
    assert is_mixed_frame(FRAME[["row", "x"]])
    assert not is_mixed_frame(FRAME[["x", "ok"]])
    assert not is_mixed_frame(FRAME[["x"]].to_numpy())


def test_numbers_are_what_the_table_of_kinds_says() -> None:
    found = learn_encoding(cells_of_frame(FRAME))
    rows = found.encode(cells_of_frame(FRAME))
    column = dict(zip(found.names, rows.T, strict=True))
    assert len(column) == rows.shape[1] == len(found.columns_of)
    np.testing.assert_allclose(column["when, sine of time of day"][:4], [0, 1, 0, -1], atol=1e-9)
    week = column["when, cosine of day of week"]
    assert week[0] == pytest.approx(week[28])  # a week later
    assert week[0] != pytest.approx(week[8], abs=0.1)
    assert column["kind = a"][:2].tolist() == [1, 0]
    assert np.isnan(column["kind = a"][2])
    assert np.isnan(column["kind = other"][2])
    assert column["ok"][:2].tolist() == [1, 0]
    assert np.isnan(column["maybe"][1])
    assert column["code = 3"][:2].tolist() == [1, 0]


def test_numbers_become_what_they_stand_for() -> None:
    found = learn_encoding(cells_of_frame(FRAME))
    rows = found.encode(cells_of_frame(FRAME))
    assert [column.name for column, _ in found.parts] == list(found.used)
    said = {column.name: column.decode(rows[:, own]) for column, own in found.parts}
    assert said["when"] == FRAME["when"].dt.strftime("%a %H:%M").tolist()
    assert said["kind"] == ["a", "b", None, "a"] * (ROWS // 4)
    assert said["code"] == FRAME["code"].astype(str).tolist()
    assert said["ok"] == FRAME["ok"].tolist()
    assert said["maybe"] == [1.0, None] * (ROWS // 2)
    assert said["x"] == FRAME["x"].tolist()


@pytest.mark.parametrize("noise", [0.0, 1e-6])  # of models, which hold rows in single precision
def test_every_minute_is_of_its_own_day(noise: float) -> None:
    times = pd.date_range("2026-03-02", periods=21 * 24 * 4, freq="15min")
    dates, signs = EncodedColumn("when", "date"), [-1, 1] * 42 * 24
    for seconds in (-20, 0, 20):
        moved = (times + pd.Timedelta(seconds=seconds)).to_numpy()
        numbers = dates.encode(moved)
        numbers += noise * np.resize(signs, numbers.shape)
        assert dates.decode(numbers) == times.strftime("%a %H:%M").tolist()
    halves = dates.encode((times - pd.Timedelta(seconds=30)).to_numpy())
    halves += noise * np.resize(signs, halves.shape)
    before, after = ((times - pd.Timedelta(m, "min")).strftime("%a %H:%M") for m in (1, 0))
    said = dates.decode(halves)
    assert all(one in two for one, *two in zip(said, before, after, strict=True))


def test_a_value_never_seen_is_one_of_its_own() -> None:
    found = learn_encoding(cells_of_frame(FRAME[["kind"]]))
    new = found.encode({"kind": np.array(["z", "b"], object)})
    assert found.names == ("kind = a", "kind = b", "kind = other")
    assert new.tolist() == [[0, 0, 1], [0, 1, 0]]


def test_hints_are_stronger_than_guesses() -> None:
    cells = cells_of_frame(FRAME[["row", "x", "kind"]])
    hints = Hints(categorical=("x",), numeric=("row",), ids=("kind",))
    found = learn_encoding(cells, hints)
    assert [c.kind for c in found.columns] == ["number", "category", "left out"]
    assert len(found.columns[1].levels) == ROWS
    with pytest.raises(ValueError, match="there is no column 'y', but 'row', 'x', 'kind'"):
        learn_encoding(cells, Hints(ids=("y",)))


def test_it_comes_back_from_json_and_refuses_what_is_none() -> None:
    found = learn_encoding(cells_of_frame(FRAME))
    again = Encoding.from_plain(json.loads(json.dumps(found.as_plain())))
    assert again == found
    for odd in ({"kind": "x"}, {"name": 3}, {"levels": [1]}):
        plain = found.as_plain()[:1]
        with pytest.raises(ValueError, match="no known kind"):
            Encoding.from_plain([plain[0] | odd])


def test_cells_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="column 'a' holds 'x', which is no number"):
        Encoding((EncodedColumn("a", "number"),)).encode({"a": np.array(["1", "x"], object)})
    with pytest.raises(ValueError, match="column 'a' holds no dates"):
        Encoding((EncodedColumn("a", "date"),)).encode({"a": np.array(["soon"], object)})
    with pytest.raises(ValueError, match="no column is left"):
        Encoding((EncodedColumn("a", "left out"),)).encode({"a": np.zeros(2)})
    dates = Encoding((EncodedColumn("a", "date"),)).encode({"a": np.array(["2026-03-02", None])})
    assert np.isnan(dates[1]).all()


def test_what_is_the_same_in_files_of_other_kinds_is_one_level() -> None:
    as_text = {"a": np.array(["007", "8", "True", None, "x"] * 8, object)}
    found = learn_encoding(as_text, Hints(categorical=("a",)))
    assert set(found.columns[0].levels) == {"7", "8", "1", "x"}
    assert found.encode({"a": np.array([7.0, np.nan])})[0].tolist() == [
        float(level == "7") for level in (*found.columns[0].levels, "other")
    ]
    assert found.encode({"a": np.array([True])})[0, found.columns[0].levels.index("1")] == 1


def test_an_underscore_is_no_part_of_a_number() -> None:
    codes = {"a": np.array(["1_2", "12"] * 8, object)}
    assert learn_encoding(codes).columns[0].levels == ("12", "1_2")
    with pytest.raises(ValueError, match="column 'a' holds '1_2', which is no number"):
        Encoding.of_numbers(["a"]).encode(codes)


def test_numbers_of_rows_are_recognised_in_any_order_and_with_gaps() -> None:
    numbers = np.random.default_rng(0).permutation(np.delete(np.arange(100), [3, 50]))
    frame = pd.DataFrame({"id": numbers, "x": np.linspace(0, 1, 98)})
    assert is_mixed_frame(frame)
    assert learn_encoding(cells_of_frame(frame)).used == ("x",)
    sparse = frame.assign(id=numbers**2)
    assert not is_mixed_frame(sparse)


def test_dates_with_time_zones_are_in_utc() -> None:
    local = pd.date_range("2026-03-02", periods=30, freq="h", tz="Asia/Tokyo")
    plain = local.tz_convert("UTC").tz_localize(None)
    cells = [cells_of_frame(pd.DataFrame({"t": times})) for times in (local, plain)]
    assert learn_encoding(cells[0]).columns[0].kind == "date"
    ours, theirs = (learn_encoding(c).encode(c) for c in cells)
    np.testing.assert_array_equal(ours, theirs)


def test_decimals_are_numbers_and_dates_of_python_are_dates() -> None:
    """As the same columns of a Parquet file are."""
    times = pd.date_range("2026-03-02 01:00", periods=30, freq="h", tz="Asia/Tokyo")
    frame = pd.DataFrame(
        {
            "price": [None, *(Decimal(k) / 8 for k in range(29))],
            "day": [None, *(time.date() for time in times[1:])],
            "local": pd.Series([None, *times[1:].to_pydatetime()], dtype=object),
        }
    )
    cells = cells_of_frame(frame)
    found = learn_encoding(cells)
    assert [column.kind for column in found.columns] == ["number", "date", "date"]
    assert cells["price"][1:].tolist() == [k / 8 for k in range(29)]
    days = np.array([None, *times[1:].date], "datetime64[s]")
    moments = times.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[s]")
    np.testing.assert_array_equal(cells["day"], days)
    np.testing.assert_array_equal(cells["local"][1:], moments[1:])
    assert np.isnan(found.encode(cells)[0]).all()
    texts = np.array(["2026-03-02 10:00:00.5"], dtype=object)
    seconds = np.array(["2026-03-02 10:00:00"], "datetime64[s]")
    column = EncodedColumn("t", "date")
    np.testing.assert_array_equal(column.encode(texts), column.encode(seconds))


def test_columns_of_one_name_are_refused() -> None:
    twice = pd.DataFrame([["a", "b"]] * 30, columns=["x", "x"])
    with pytest.raises(ValueError, match="more than one column called 'x'"):
        cells_of_frame(twice)


def texts(*cells: object) -> dict[str, Cells]:
    return {"a": np.array(cells, object)}


@pytest.mark.parametrize("junk", ["error!", "-", "n.a."])
def test_a_column_of_numbers_is_not_lost_for_a_cell_that_is_none(junk: str) -> None:
    numbers: list[str | None] = [f"{k / 7:.3f}" for k in range(99)]
    with pytest.raises(ValueError, match=rf"'a' holds numbers, but '{re.escape(junk)}' in row 41"):
        learn_encoding(texts(*numbers[:39], None, junk, *numbers[39:]))
    mixed = [junk if k % 8 == 0 else cell for k, cell in enumerate(numbers)]
    assert learn_encoding(texts(*mixed)).columns[0].kind == "left out"  # as ticket numbers are
    assert (
        learn_encoding(texts(*numbers)).columns[0].kind == "left out"
    )  # codes, or they'd be floats
    assert learn_encoding(texts(*["1", "2", "3", junk] * 20)).columns[0].kind == "category"


@pytest.mark.parametrize("form", ["{:,.0f}", "{:.1f}%", "{},5", "{:,.2f}"])
def test_numbers_in_another_form_are_refused_and_not_left_out(form: str) -> None:
    cells = [form.format(1237 * k) for k in range(80)]
    with pytest.raises(
        ValueError, match=r"column 'a' looks like numbers, but '.*' in row .*1234.5"
    ):
        learn_encoding(texts(*cells))


def test_remarks_and_addresses_are_no_numbers() -> None:
    for form in ("10.0.{}.1", "{} km", "v{}", "{}-17", "+49 {} 55", "{}/8"):
        found = learn_encoding(texts(*(form.format(k) for k in range(80)))).columns[0]
        assert found.said() == "left out: 80 different texts in 80 rows"


@pytest.mark.parametrize("form", ["{:02d}.01.2026 17:12", "01/{:02d}/2026", "2026-01-{:02d}"])
@pytest.mark.parametrize("times", [1, 10])
def test_dates_in_another_form_are_called_that(form: str, times: int) -> None:
    """Few of them would be a category, by which all that is new would be strange."""
    cells = [form.format(k % 28 + 1) for k in range(28 * times)]
    (found,) = learn_encoding(texts(*cells)).columns
    assert found.kind == "left out"
    assert f"text such as '{cells[0]}' that looks like dates" in found.note
