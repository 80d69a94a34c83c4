"""Tables as people have them: text, dates and gaps, in Python, in folders and in ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from uspebm import EnergyDetector, load, save_model
from uspebm.cli.main import main
from uspebm.detector.card import card
from uspebm.recipes.tables import table_recipe

ROWS = 300
DRAWS = np.random.default_rng(0)


def machines() -> pd.DataFrame:
    """The temperature follows from machine and load, but for a little; a tenth is missing."""
    kind = DRAWS.choice(["A", "B", "C"], ROWS)
    load_ = DRAWS.normal(10, 2, ROWS)
    found = pd.DataFrame(
        {
            "number": np.arange(ROWS),
            "when": pd.date_range("2026-01-01", periods=ROWS, freq="h"),
            "machine": kind,
            "load": load_,
            "temperature": 3 * load_ + 15 * (kind == "B") + 0.3 * DRAWS.normal(size=ROWS),
        }
    )
    for column in ("machine", "load"):
        found.loc[DRAWS.random(ROWS) < 0.1, column] = None
    return found


FRAME = machines()
DETECTOR = EnergyDetector(random_state=0).fit(FRAME)


def test_mixed_tables_are_fitted_and_scored() -> None:
    assert DETECTOR.n_features_in_ == 5
    assert list(DETECTOR.feature_names_in_) == list(FRAME.columns)
    assert DETECTOR.event_shape_ == (10,)
    complete = FRAME.dropna()
    wrong = complete.assign(temperature=complete["temperature"].to_numpy()[::-1])
    shares = [(DETECTOR.predict(frame) == -1).mean() for frame in (complete, wrong)]
    assert shares[0] < 0.12
    assert shares[1] > 0.3
    never_seen = complete.head(20).assign(machine="Z")
    assert (DETECTOR.p_values(never_seen) < 0.05).all()


def test_columns_are_found_by_name_and_others_do_not_matter() -> None:
    scores = DETECTOR.score_samples(FRAME)
    turned = FRAME[FRAME.columns[::-1]].assign(more="x")
    np.testing.assert_array_equal(DETECTOR.score_samples(turned), scores)
    without = FRAME.drop(columns="number")  # it was left out
    np.testing.assert_array_equal(DETECTOR.score_samples(without), scores)
    with pytest.raises(ValueError, match="X has no column 'load', which this detector needs"):
        DETECTOR.score_samples(FRAME.drop(columns="load"))
    with pytest.raises(ValueError, match="takes DataFrames with columns 'when', 'machine'"):
        DETECTOR.score_samples(np.zeros((2, 5)))


@pytest.mark.parametrize(
    "names", [[0, 1], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])], ids=["numbers", "levels"]
)
def test_names_of_columns_need_not_be_text(names: Any) -> None:
    plain = FRAME[["machine", "temperature"]]
    expected = EnergyDetector(random_state=0).fit(plain).score_samples(plain)
    frame = plain.set_axis(names, axis=1)
    found = EnergyDetector(random_state=0).fit(frame)
    np.testing.assert_array_equal(found.score_samples(frame), expected)
    turned = frame.iloc[:, ::-1]
    np.testing.assert_array_equal(found.score_samples(turned), expected)
    twice = pd.concat([frame, frame.iloc[:, :1]], axis=1)
    with pytest.raises(ValueError, match="more than one column called"):
        found.score_samples(twice)


def test_tables_of_pyarrow_are_tables() -> None:
    table = pa.Table.from_pandas(FRAME)
    scores = DETECTOR.score_samples(FRAME)
    np.testing.assert_array_equal(DETECTOR.score_samples(table), scores)
    np.testing.assert_array_equal(DETECTOR.score_samples(table.to_batches()[0]), scores)
    fitted = EnergyDetector(random_state=0).fit(table)
    np.testing.assert_array_equal(fitted.score_samples(FRAME), scores)


def test_text_that_hardly_repeats_is_left_out_with_a_word() -> None:
    remarks = {name: [f"{name} {k}" for k in range(ROWS)] for name in ("remark", "other")}
    said = r"left out: 'remark' \(300 different texts in 300 rows\), 'other' \(300"
    with pytest.warns(UserWarning, match=said) as told:
        found = EnergyDetector(random_state=0).fit(FRAME.assign(**remarks))
    assert len(told) == 1
    assert told[0].filename == __file__
    np.testing.assert_array_equal(found.score_samples(FRAME), DETECTOR.score_samples(FRAME))


def test_a_model_folder_keeps_the_rule(tmp_path: Path) -> None:
    save_model(DETECTOR, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.encoding_ == DETECTOR.encoding_
    assert again.folded_
    np.testing.assert_array_equal(again.score_samples(FRAME), DETECTOR.score_samples(FRAME))
    text = card(again, "Machines")
    assert "- Column 'number': left out: it counts the rows." in text
    assert "- Column 'machine': a category of 3 values." in text
    assert "- Gaps are filled from the rows that are most alike." in text
    assert "| machine = A |" in text
    refitted = clone(again).fit(FRAME)  # its recipe has no name, and takes the same gaps
    np.testing.assert_array_equal(refitted.score_samples(FRAME), DETECTOR.score_samples(FRAME))


def test_onnx_fills_gaps_as_python_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, from a folder: no other test exports a model that encodes."""
    assert DETECTOR.encoding_ is not None
    from uspebm.data.encoding import cells_of_frame

    numbers = DETECTOR.encoding_.encode(cells_of_frame(FRAME))
    assert np.isnan(numbers).any()
    numbers[3] = np.nan  # of a row of gaps nobody can tell
    save_model(DETECTOR, tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "--onnx", str(tmp_path / "m.onnx")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "input x (float64, 10 numbers a row, which the file's metadata list as" in said
    assert "uspebm.columns; text and dates become these before the graph, by uspebm.enc" in said
    score, p = ort.InferenceSession(tmp_path / "m.onnx").run(["score", "p_value"], {"x": numbers})
    wanted = DETECTOR.score_samples(numbers)
    assert wanted[3] == score[3] == -np.inf
    np.testing.assert_allclose(np.delete(score, 3), np.delete(wanted, 3), atol=5e-3)
    np.testing.assert_allclose(p, DETECTOR.p_values(numbers), atol=0.01)


def test_gaps_in_arrays() -> None:
    x = DRAWS.normal(size=(200, 3))
    x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
    with_gaps = x.copy()
    with_gaps[7, 1] = np.nan  # in one row only: all folds know of gaps
    found = EnergyDetector(random_state=0).fit(with_gaps)
    assert np.isfinite(found.score_samples(with_gaps)).all()
    by_rule = EnergyDetector(table_recipe(), random_state=0)
    assert by_rule.__sklearn_tags__().input_tags.allow_nan
    np.testing.assert_array_equal(by_rule.fit(with_gaps).score_samples(x), found.score_samples(x))
    assert found.predict([[np.nan, np.nan, np.nan]]) == -1
    assert found.predict([[0.0, 9.0, np.nan]]) == -1
    assert np.isfinite(EnergyDetector(random_state=0).fit(x).score_samples(with_gaps)).all()
    with pytest.raises(ValueError, match="this detector takes no gaps"):
        EnergyDetector("tables-density", random_state=0).fit(with_gaps)
    for odd, what in ((np.s_[3], "row 4"), (np.s_[:, 2], "column 3")):
        bad = x.copy()
        bad[odd] = np.nan
        with pytest.raises(ValueError, match=f"{what} of X has no value at all"):
            EnergyDetector(random_state=0).fit(bad)
