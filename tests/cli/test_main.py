"""The command as a whole: its help, its haste, its errors."""

import os
import pkgutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from uspebm import __version__
from uspebm.cli import bench
from uspebm.cli.main import COMMANDS, main

NAMES = [add.__name__.removeprefix("add_") for add in COMMANDS]
HEAVY = (
    *("torch", "numpy", "rich", "sklearn", "scipy", "pyarrow", "PIL", "matplotlib", "pandas"),
    *("fastapi", "uvicorn", "prometheus_client"),
)
LOADED = """
import sys
from uspebm.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stopped:
    assert stopped.code == 0
print("loaded:", *sys.modules)
"""
SECONDS = 0.3


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert all(f"\n    {name}" in out for name in NAMES)
    assert main([]) == 0
    assert capsys.readouterr().out == out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"uspebm {__version__}\n"


def test_the_script_is_this_command() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert pkgutil.resolve_name(project["scripts"]["uspebm"]) is main


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], *([n, "--help"] for n in NAMES)]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split("loaded:")[1].split()}
    assert "uspebm" in loaded
    assert not loaded & set(HEAVY)


def test_help_is_instant() -> None:
    """By processor time, the least of some runs: others may be busy on the machine."""
    took = []
    for arguments in (["--help"], ["fit", "--help"]) * 4:
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "uspebm", *arguments], capture_output=True, check=True
        )
        after = os.times()
        took.append(sum(after[2:4]) - sum(before[2:4]))  # of children: user's, system's
    assert min(took) > 0  # or nobody counts
    assert min(took[::2]) < SECONDS
    assert min(took[1::2]) < SECONDS


@pytest.mark.parametrize("command", ["fit", "score", "drift"])
def test_help_knows_of_images(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that take both speak of both."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.lower().split())
    assert "row or image" in said or "rows or images" in said
    for wrong in ("of the rows", "of normal rows", "all rows", "every row,", "every row is"):
        assert wrong not in said


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "fig4"], ["bench", "--quick"]])
def test_a_file_for_a_folder_is_refused_before_any_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "afile"
    path.touch()
    assert main([*command, "--out", str(path)]) == 2
    assert capsys.readouterr().err == f"uspebm: --out {path} is a file; choose a folder\n"


def test_warnings_are_one_line_as_errors_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: object) -> None:
        warnings.warn("the library\nhas doubts", stacklevel=2)
        raise ValueError("and\ngives up")

    monkeypatch.setattr(bench, "refuse_file", work)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["bench"]) == 2
    assert capsys.readouterr().err == "uspebm: the library has doubts\nuspebm: and gives up\n"


def test_proxies_look_at_the_model_before_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("USPEBM_DATA", str(tmp_path))
    assert main(["proxies", str(tmp_path / "missing.safetensors")]) == 2
    assert "missing.safetensors cannot be read" in capsys.readouterr().err


def test_waiting_threads_do_not_spin_for_long_unless_told_to() -> None:
    code = "import os, uspebm; print(os.environ['GOMP_SPINCOUNT'])"
    for own, expected in (({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"} | own
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected
