"""What the README shows runs, and says what it claims."""

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch

import uspebm
from uspebm.cli.main import _parser
from uspebm.detector.folder import pretrained
from uspebm.recipes.named import RECIPE_NAMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ORDER = (
    *("In fifteen lines", "Which piece answers which question", "On your own data"),
    *(
        "With an energy of your own",
        "Two commands",
        "The paper's experiments",
        "Results",
        "Adding a method",
        "Citation",
    ),
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def shown_commands(text: str) -> list[list[str]]:
    """The commands of the package in a shell's lines, without what is said of them."""
    lines = (shlex.split(line, comments=True) for line in text.splitlines())
    return [words[1:] for words in lines if words[:1] == ["uspebm"]]


def table(heading: str, first: str) -> list[str]:
    """The first cells below a heading, of the table whose first column is called so."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (rows,) = re.findall(rf"^\| {first} \|.*\n\|---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [line.split("|")[1].strip() for line in rows.splitlines()]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_fifteen_lines_run_and_tell_a_mode_from_nowhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, *_ = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(code, names)
    at_mode, nowhere = names["state"].average.module(names["x"]).neg().tolist()  # type: ignore[attr-defined]
    assert at_mode > nowhere + 3
    assert "violating" in capsys.readouterr().out


def test_the_detector_s_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, code, _ = blocks("python")
    monkeypatch.chdir(tmp_path)
    exec(code.replace("random_state=0)", "random_state=0, max_updates=50)", 1), {})
    assert (tmp_path / "model" / "README.md").exists()


def test_every_piece_it_names_exists() -> None:
    pieces = [
        name
        for cell in table("Which piece answers which question", "piece")
        for name in quoted(cell)
    ]
    assert len(pieces) > 30
    for piece in pieces:
        if piece.startswith("uspebm."):
            import_module(piece)
        else:
            name, _, attribute = piece.partition(".")
            assert name in uspebm.__all__
            assert hasattr(getattr(uspebm, name), attribute or "__doc__")


def test_every_public_name_answers_a_question_or_is_a_word_of_one() -> None:
    """What the table leaves out are types of results, errors and protocols."""
    table_text = README.split("\n## Which piece")[1].split("\n## ")[0]
    left_out = set(uspebm.__all__) - {q for text in quoted(table_text) for q in text.split(".")}
    assert left_out == {
        *("CheckpointError", "DivergedError", "NonFiniteError"),
        *("Energy", "NegativePhase", "Nodes", "Objective", "Particles", "Record"),
    }


def test_the_parser_takes_every_command_it_shows() -> None:
    commands = [words for text in blocks("sh") for words in shown_commands(text)]
    assert {words[0] for words in commands} >= {"fit", "score", "evaluate", "export", "info"}
    for words in commands:
        assert _parser().parse_args(words).command == words[0]


def test_the_parser_takes_every_command_in_its_text() -> None:
    """Those with something to them; a seed is called S there."""
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    commands = [q.replace(" S", " 0") for q in quoted(text) if q.startswith("uspebm ")]
    whole = [c for c in commands if "-" in c]
    assert whole
    for command in whole:
        _parser().parse_args(shlex.split(command)[1:])
    for command in commands:
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


def test_the_flags_of_fit_are_those_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    (sentence,) = re.findall(
        r"^`fit` takes (.*?said in one line)\.", README, re.DOTALL | re.MULTILINE
    )
    with pytest.raises(SystemExit):
        _parser().parse_args(["fit", "--help"])
    taken = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert set(re.findall(r"--[a-z-]+", sentence)) | {"--out", "--help"} == taken


def test_recipes_extras_and_models_are_all_there_are() -> None:
    recipes = {name for cell in table("On your own data", "recipe") for name in quoted(cell)}
    assert recipes == {f'"{name}"' for name in RECIPE_NAMES if name != "auto"} | {"Recipe"}
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    named = {name for cell in table("Two commands", "extra") for name in quoted(cell)}
    assert named == extras.keys() - {"bench", "dev"}
    assert all(name in README for name in pretrained())
    assert not re.search(r"fashion-mnist-(srlmc-)?\d", README)


def test_sections_stand_in_their_order() -> None:
    assert tuple(re.findall(r"^## (.*)$", README, re.MULTILINE)) == ORDER


def test_what_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_sentence_promises_no_density() -> None:
    """What images get is a score; and ours are not bold where they say little."""
    first = README.split("![")[0]
    assert "trusted" not in README
    assert "no density" in first
    assert "kernel density with a tilt" in first
    (ours,) = re.findall(r"^\| \*\*features of a crowded, leveled.*$", README, re.MULTILINE)
    assert ["**" in cell for cell in ours.split("|")[2:-1]] == [True] * 3 + [False] * 2
