"""Flags, and files of settings."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .common import model_content, run

CONFIG = """
out = "{out}"
drop = ["b"]
rows = 110
recipe = "tables-srlmc"
max-updates = 0
calibration = 0.3
false-alarm-rate = 0.1
seed = 3
json = true
"""
FLAGS = (
    *("--drop", "b", "--rows", "110", "--recipe", "tables-srlmc", "--max-updates", "0"),
    *("--calibration", "0.3", "--false-alarm-rate", "0.1", "--seed", "3"),
)


def test_a_file_of_settings_equals_the_flags(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "fit.toml"
    config.write_text(CONFIG.format(out=tmp_path / "one"))
    assert run("fit", models / "x.csv", "--config", config) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 110
    assert run("fit", models / "x.csv", "--out", tmp_path / "two", *FLAGS) == 0
    assert model_content(tmp_path / "one") == model_content(tmp_path / "two")
    own = (f"--config={config}", "--seed=4", "--out", tmp_path / "three", "--drop", "c")
    assert run("fit", models / "x.csv", *own) == 0
    about = json.loads((tmp_path / "three" / "model.json").read_text())
    assert about["seed"] == 4
    assert about["settings"]["calibration"] == 0.3
    assert about["dropped_columns"] == ["c"]
    assert about["columns"] == ["a", "b"]


SETTINGS = {
    "unknown": (
        "epochs = 3",
        "'epochs' is no setting; there are out, drop, categorical, numeric, id, resize, ",
    ),
    "prefix": ("max = 3", "'max' is no setting"),
    "itself": ("config = 'x'", "'config' is no setting"),
    "section": ("[fit]\nseed = 3", "'fit' is no setting"),
    "text for a number": ("seed = '3'", "seed = '3' should be a whole number"),
    "fraction": ("rows = 10.5", "rows = 10.5 should be a whole number"),
    "text for a fraction": ("calibration = 'a'", "calibration: a must lie between 0 and 1"),
    "bool for a number": ("seed = true", "seed = True should be a whole number"),
    "number for text": ("out = 3", "out = 3 should be text"),
    "number for a flag": ("json = 1", "json = 1 should be true or false"),
    "list": ("seed = [1, 2]", "seed = [1, 2] should be a whole number"),
    "list of numbers": ("drop = ['a', 1]", "drop = 1 should be text, or a list of such"),
    "choice": ("recipe = 'mcmc'", "recipe = 'mcmc' should be one of auto, tables, tables-density,"),
    "too small": ("max-updates = -1", "max-updates: -1 must be a whole number, at least 0"),
    "no share": ("calibration = 1.5", "calibration: 1.5 must lie between 0 and 1"),
    "not TOML": ("seed 3", "is no TOML file"),
    "dots": ("a" + ".a" * 30_000 + " = 1", "has more than 2,000 dots, which no setting needs"),
    "some dots": ("seed" + ".a" * 1900 + " = 1", "seed = {'a': {'a': {'a': "),
    "brackets": ("seed = " + "[" * 30_000, "is no TOML file of settings: maximum recursion"),
    "tables": ("seed = " + "{a = " * 10_000, "is no TOML file of settings: maximum recursion"),
    "digits": ("seed = " + "1" * 5000, "is no TOML file of settings: Exceeds the limit"),
    "digits in hexadecimal": ("seed = 0x" + "f" * 5000, "is no TOML file of settings: Exceeds"),
    "a long name": ("'" + "a" * 9000 + "' = 1", "'aaaaaaaaaaaa...aaaaaaaaaaaaa' is no setting"),
    "a long text": ("seed = '" + "a" * 9000 + "'", "seed = 'aaaaaaaaaaaa...aaaaaaaaaaaaa' should"),
    "a name of two lines": (r'"a\nb" = 1', r"'a\nb' is no setting"),
    "a megabyte": ("seed = 3\n" + "#" * 2**20, "is larger than 65,536 bytes"),
}


@pytest.mark.parametrize("case", SETTINGS, ids=list(SETTINGS))
def test_settings_that_are_refused(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    text, message = SETTINGS[case]
    config = tmp_path / "fit.toml"
    config.write_text(text)
    command = ("fit", models / "x.csv", "--out", tmp_path / "new", "--config", config)
    refused([message, str(config)], *command)
    refused("no-such.toml does not exist", *command[:-1], tmp_path / "no-such.toml")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("fit", ["--rows INT", "(default: 200000)", "--calibration SHARE", "otherwise 0.2)"]),
        ("fit", ["--recipe {auto,tables,", "--max-updates INT", "(default: the recipe's own)"]),
        ("score", ["--false-alarm-rate FLOAT", "(default: the model's own threshold)"]),
        ("evaluate", ["--ood NAME=DATA"]),
        ("export", ["--onnx FILE"]),
        ("info", ["MODEL"]),
        ("compare", ["--seeds INT", "(default: 1)", "(default: runs/compare)"]),
        ("demo", ["--steps INT", "(default: 500)", "(default: runs/demo)"]),
        ("reproduce", ["--inside NAME", "(default: fashion-mnist)", "(default: fast)"]),
        (
            "proxies",
            ["--leave-out KINDS", "(default: the recipe's own)", "(default: runs/proxies)"],
        ),
        ("bench", ["--json FILE", "(default: runs/bench)"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_help_states_types_and_defaults(
    capsys: pytest.CaptureFixture[str], command: str, wanted: list[str]
) -> None:
    assert run(command, "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(words in text for words in wanted), text
    assert "None" not in text
