"""What the README shows runs, and says what it claims."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from uspebm.cli.main import _parser

from .pages import README, ROOT, blocks, links, page, prose, quoted, shown_commands

ORDER = (
    *("Two commands", "A detector in six lines", "An energy-based model in fifteen"),
    *("Results", "Limits", "Further"),
)
LONGEST = 120


def lines_of(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def test_it_is_short_and_in_order() -> None:
    assert len(README.splitlines()) <= LONGEST
    assert tuple(re.findall(r"^## (.*)$", README, re.MULTILINE)) == ORDER
    assert README.count("![") == 1


def test_the_six_lines_make_a_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = blocks(README, "python")
    assert lines_of(code) <= 6
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert (tmp_path / "model" / "README.md").exists()


def test_the_fifteen_lines_run_and_tell_a_mode_from_nowhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, code = blocks(README, "python")
    assert lines_of(code) <= 15
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(code, names)
    at_mode, nowhere = names["state"].average.module(names["x"]).neg().tolist()  # type: ignore[attr-defined]
    assert at_mode > nowhere + 3
    assert "violating" in capsys.readouterr().out


def test_the_first_page_of_the_site_shows_the_same_fifteen_lines() -> None:
    assert blocks(README, "python")[1] in blocks(page("start"), "python")


def test_the_parser_takes_every_command_it_shows() -> None:
    commands = [words for text in blocks(README, "sh") for words in shown_commands(text)]
    assert {words[0] for words in commands} >= {"fit", "score", "report", "serve"}
    rows = [q for q in quoted(prose(README)) if q.startswith("uspebm ")]
    assert len(rows) > 3
    for words in [*commands, *(shlex.split(row)[1:] for row in rows)]:
        assert _parser().parse_args(words).command == words[0]


def test_what_it_links_to_is_there() -> None:
    found = links(README)
    assert len(found) > 10
    assert [link for link in found if not (ROOT / link).exists()] == []


def test_it_promises_no_density() -> None:
    """What images and tables get is a score; and the limits say what a control showed."""
    first = README.split("![")[0]
    assert "trusted" not in README
    assert "no density" in first
    limits = README.split("\n## Limits\n")[1].split("\n## ")[0]
    for word in ("7.99 bits", "as the\ncontrol shows", "hold training rows", "on average"):
        assert word.replace("\n", " ") in limits.replace("\n", " ")


def test_its_figures_are_those_of_the_results() -> None:
    """Every figure in the README's table stands in RESULTS.md, perhaps with more digits."""
    results = (ROOT / "RESULTS.md").read_text().replace("**", "")
    table = README.split("\n## Results\n\n")[1].split("\n\n")[0]
    cells = [cell for row in table.splitlines()[2:] for cell in row.split("|")[3:5]]
    figures = [f for cell in cells for f in re.findall(r"\d+\.\d+", cell)]
    assert len(figures) > 20
    assert [figure for figure in figures if not is_in(figure, results)] == []


def is_in(figure: str, text: str) -> bool:
    digits = len(figure.partition(".")[2])
    found = re.findall(r"\d+\.\d+", text)
    return any(len(f) >= len(figure) and f"{float(f):.{digits}f}" == figure for f in found)


def test_a_figure_that_is_not_in_the_results_is_noticed() -> None:
    assert is_in("84.8", "a mean of 84.84")
    assert not is_in("84.9", "a mean of 84.84")
    assert not is_in("0.015", "a mean of 0.01")
