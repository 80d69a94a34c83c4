"""What the pages of the site show runs, and names what there is."""

import re
import shlex
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import uspebm
from uspebm import (
    USP,
    CrowdedUSP,
    EnergyDetector,
    FixedNodes,
    Importance,
    Langevin,
    Leveled,
    PersistentUSP,
    Recipe,
    Replay,
    RiemannGrid,
    Tempered,
)
from uspebm.cli.main import _parser
from uspebm.detector.folder import pretrained
from uspebm.recipes import Schedule
from uspebm.recipes.named import RECIPE_NAMES
from uspebm.report.diagnoses import faults_of
from uspebm.training.health import SILENT_FAULTS

from .pages import (
    DOCS,
    README,
    ROOT,
    blocks,
    first_cells,
    links,
    page,
    page_names,
    prose,
    quoted,
    shown_commands,
)

ELSEWHERE = {"research", "guides/own-energy"}
"""Pages whose code has tests of its own (test_research.py)."""
SMALL_GRAPH = 'EnergyDetector("tables-density", max_updates=1, '
PAGES = page_names()
SHOWN = "\n".join(page(name) for name in PAGES)


WITH_CODE = {name for name in PAGES if blocks(page(name), "python")}


@pytest.mark.parametrize("name", sorted(WITH_CODE - ELSEWHERE))
def test_the_code_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block after the other, as a reader would; those of the README run in its own test.

    Graphs are of models with few operations; usual ones are exported in test_mixed_tables.py.
    """
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "page"}
    elsewhere = blocks(README, "python")
    for code in (code for code in blocks(page(name), "python") if code not in elsewhere):
        if "onnx" in code:
            code = code.replace("EnergyDetector(", SMALL_GRAPH)
        exec(compile(code, f"{name}.md", "exec"), names)


def test_every_piece_that_is_named_exists() -> None:
    pieces = [name for cell in first_cells(page("pieces"), "piece") for name in quoted(cell)]
    assert len(pieces) > 40
    for piece in pieces:
        if piece.startswith("uspebm."):
            import_module(piece)
        else:
            name, _, attribute = piece.partition(".")
            assert name in uspebm.__all__
            assert hasattr(getattr(uspebm, name), attribute or "__doc__")


def test_every_public_name_answers_a_question_or_is_a_word_of_one() -> None:
    """What the table leaves out are types of results, errors and protocols."""
    left_out = set(uspebm.__all__) - {q for t in quoted(page("pieces")) for q in t.split(".")}
    assert left_out == {
        *("CheckpointError", "DivergedError", "NonFiniteError"),
        *("Energy", "NegativePhase", "Nodes", "Objective", "Particles", "Record"),
    }


@pytest.mark.parametrize("name", [n for n in PAGES if "uspebm " in page(n)])
def test_the_parser_takes_every_command_of_a_page(name: str) -> None:
    """Those in blocks, and in its text those with something to them; a seed is called S there."""
    text = page(name)
    commands = [words for code in blocks(text, "sh") for words in shown_commands(code)]
    for words in commands:
        assert _parser().parse_args(words).command == words[0]
    named = [
        q.replace(" S", " 0")
        for q in quoted(prose(text))
        if re.match(r"uspebm [a-z]", q) and "|" not in q and "CLASS" not in q
    ]
    for command in named:
        if "-" in command:
            _parser().parse_args(shlex.split(command)[1:])
        with pytest.raises(SystemExit) as stopped:
            _parser().parse_args([command.split()[1], "--help"])
        assert stopped.value.code == 0


def test_what_no_parser_takes_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """The mutants: a flag and a command that are gone."""
    for text in ("uspebm fit x.csv --out m --method srlmc  # once", "uspebm train x.csv"):
        (words,) = shown_commands(text)
        with pytest.raises(SystemExit) as stopped:
            _parser().parse_args(words)
        assert stopped.value.code == 2
    assert "unrecognized arguments: --method srlmc" in capsys.readouterr().err


def test_every_command_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {words[0] for code in blocks(page("commands"), "sh") for words in shown_commands(code)}
    with pytest.raises(SystemExit):
        _parser().parse_args(["--help"])
    known = set(re.findall(r"^    ([a-z]+)(?: |$)", capsys.readouterr().out, re.MULTILINE))
    assert shown == known


@pytest.mark.parametrize("command", ["fit", "score"])
def test_the_flags_that_are_named_are_all(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (paragraph,) = re.findall(rf"^`{command}` takes .*?\n\n", page("commands"), re.S | re.M)
    with pytest.raises(SystemExit):
        _parser().parse_args([command, "--help"])
    taken = set(re.findall(r"--[a-z-]*[a-z]", re.sub(r"-\n +", "-", capsys.readouterr().out)))
    assert set(re.findall(r"--[a-z-]+", paragraph)) | {"--out", "--help"} == taken


def test_recipes_extras_and_models_are_all_there_are() -> None:
    guides = page("guides/tables") + page("guides/images")
    recipes = {name for cell in first_cells(guides, "recipe") for name in quoted(cell)}
    assert recipes == {f'"{name}"' for name in RECIPE_NAMES if name != "auto"} | {"Recipe"}
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    named = {name for cell in first_cells(page("start"), "extra") for name in quoted(cell)}
    assert named == extras.keys() - {"bench", "dev", "docs"}
    assert all(name in page("guides/images") for name in pretrained())
    assert not re.search(r"fashion-mnist-(srlmc-)?\d", SHOWN)


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_links_to_is_there(name: str) -> None:
    folder = (DOCS / name).parent
    assert [link for link in links(page(name)) if not (folder / link).exists()] == []


RUN = {"python", "sh"}
"""Kinds of blocks that tests run: here, and in test_commands.py."""
NO_CODE = {"bibtex", "{eval-rst}", "{toctree}", "{literalinclude}"}


def unknown_blocks(text: str) -> list[str]:
    """Kinds of blocks that nothing runs, and that may be code."""
    opened = re.findall(r"^ *```(\S*)[^\n]*\n.*?^ *```$", text, re.DOTALL | re.MULTILINE)
    return [kind for kind in opened if kind not in RUN | NO_CODE]


def test_every_block_is_of_a_kind_that_is_run() -> None:
    texts = [page(name) for name in PAGES] + [path.read_text() for path in ROOT.glob("*.md")]
    assert [kind for text in texts for kind in unknown_blocks(text)] == []
    assert unknown_blocks("```python\n```\n\n```bash\nls\n```\n\n```\nls\n```\n") == ["bash", ""]
    # Those of the repository's own files have tests of their own, which know Python alone.
    others = [path.read_text() for path in ROOT.glob("*.md") if path.name != "README.md"]
    assert [blocks(text, "sh") for text in others] == [[]] * len(others)


VALUES = (
    *(CrowdedUSP, FixedNodes, Importance, Langevin, Leveled, PersistentUSP, Replay, RiemannGrid),
    *(Tempered, USP, Schedule),
)
NO_SETTINGS = {"phase", "name", "energy", "sampler", "objective"}
"""Parts that others are made of, and a name."""


def test_every_setting_is_said_to_do_something() -> None:
    told = {part for text in quoted(page("settings")) for part in re.split(r"[.(]", text)}
    known = {field.name for kind in (*VALUES, Recipe) for field in fields(kind)}
    known |= EnergyDetector().get_params().keys() | {"clip_norm", "contamination", "minutes"}
    assert known - told - NO_SETTINGS - {"schedule"} == set()
    assert not {"spacings", "level"} & told  # what is none would be missed


def test_what_a_report_finds_is_a_symptom_that_is_explained() -> None:
    names = {fault.name for fault in faults_of([])}
    assert len(names) == 6
    named = {
        line.split("|")[2].strip() for line in page("troubleshooting").splitlines() if "|" in line
    }
    assert names - named == set()
    for name in names:
        assert f"*{name}*" in page("settings")
    for fault in SILENT_FAULTS:
        assert fault.now.partition("{")[0].rstrip("( ") in page("troubleshooting")


def without_command(text: str) -> list[str]:
    """Pictures that no command is said to draw, where they are or in the words below."""
    parts = re.split(r"^!\[.*\]\(([^)]+)\)$", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [
        file for file, below in pairs if not re.search(r"`(uspebm|make) ", below.split("\n\n")[1])
    ]


@pytest.mark.parametrize("name", [n for n in PAGES if "](" in page(n) and "![" in page(n)])
def test_every_picture_has_its_command(name: str) -> None:
    assert without_command(page(name)) == []


def test_a_picture_without_one_is_noticed() -> None:
    drawn = "![one](one.png)\n\n*`uspebm demo` draws it.*\n\n"
    assert without_command(drawn) == []
    assert without_command(drawn + "![two](two.png)\n\n*By hand.*\n\n`make demo`\n") == ["two.png"]


def test_ours_are_not_bold_where_they_say_little() -> None:
    (ours,) = re.findall(r"^\| \*\*features of a crowded.*$", page("experiments"), re.MULTILINE)
    assert ["**" in cell for cell in ours.split("|")[2:-1]] == [True] * 3 + [False] * 2
