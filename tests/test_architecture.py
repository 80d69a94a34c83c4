"""docs/architecture.md tells the truth: its names exist, and the program walks as it says."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest

import uspebm
from tests.experiments.common import SHAPE, fields, small_problem
from uspebm.cli.main import main
from uspebm.experiments import fig4, image_problem, table1
from uspebm.experiments.baselines import BASELINES, NEAREST
from uspebm.recipes import Run, Schedule
from uspebm.recipes.images import crowded_recipe

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "uspebm"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


class Stop(NamedTuple):
    """One file of a walk, and the names that stand beside it."""

    file: str
    names: tuple[str, ...]


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next of its kind or of a higher one."""
    level = heading.index(" ")
    below = page.split(f"\n{heading}\n")[1]
    return re.split(rf"\n#{{1,{level}}} ", below)[0]


def quoted(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", text))


def walks(page: str) -> dict[str, list[Stop]]:
    """By title; a stop is a numbered line that begins with a file."""
    found = {}
    for part in section(page, "## Five walks").split("\n### ")[1:]:
        title, _, text = part.partition("\n")
        lines = re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
        found[title] = [Stop(file, tuple(names)) for file, *names in map(quoted, lines)]
    return found


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its first two lines."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def symbols(page: str) -> list[Stop]:
    return [
        Stop(quoted(file)[0], quoted(names))
        for _, names, file in rows(page, "## The paper's symbols")
    ]


def defined(source: str) -> set[str]:
    """Functions, classes and constants of a file; with a dot, methods and fields of a class."""
    tree = ast.parse(source)
    own = {name for node in tree.body for name in names_of(node)}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return own | {f"{c.name}.{name}" for c in classes for node in c.body for name in names_of(node)}


def names_of(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


def wrong_stops(stops: list[Stop]) -> list[str]:
    """Files that are not there, and names that their file does not have."""
    found = []
    for file, names in stops:
        if not (HOUSE / file).is_file():
            found.append(file)
        else:
            missing = set(names) - defined((HOUSE / file).read_text())
            found += [f"{file}: {name}" for name in sorted(missing)]
    return found


def visited_twice(stops: list[Stop]) -> list[str]:
    files = [stop.file for stop in stops]
    return sorted({file for file in files if files.count(file) > 1})


def test_the_walks_name_what_is_there() -> None:
    found = walks(PAGE)
    assert list(found) == list(PROGRAMS)
    for stops in found.values():
        assert len(stops) > 8
        assert all(names for _, names in stops)
        assert wrong_stops(stops) == []
        assert visited_twice(stops) == []


def test_every_symbol_is_where_the_table_says() -> None:
    found = symbols(PAGE)
    assert len(found) > 30
    assert all(names for _, names in found)
    assert wrong_stops(found) == []


def test_the_rooms_are_those_of_the_contract_in_its_order() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        (contract,) = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = [room.strip() for layer in contract["layers"] for room in layer.split(":")]
    named = [quoted(room)[0] for room, _, _ in rows(PAGE, "## Rooms")]
    assert [f"uspebm.{room.removesuffix('.py')}" for room in named] == layers
    for room in named:
        assert (HOUSE / room).is_file() or (HOUSE / room / "__init__.py").is_file()


def test_every_package_has_a_row() -> None:
    packages = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    assert packages <= {quoted(room)[0] for room, _, _ in rows(PAGE, "## Rooms")}


def test_what_is_wrong_on_a_page_is_found() -> None:
    """The mutants: a file that is gone, a name of another file, a file visited twice."""
    page = (
        "\n## Five walks\n\n### A walk\n\n1. `types.py` `Nodes`: x.\n2. `gone.py` `Nodes`: x.\n"
        "3. `domains.py` `Box.project`, `Nodes`, `Box.gone`: x.\n4. `types.py` `Nodes.x`: x.\n\n"
        "## The paper's symbols\n\n| a | b | c |\n|---|---|---|\n| \\|Λ\\| | `Box` | `types.py` |\n"
    )
    (stops,) = walks(page).values()
    assert wrong_stops(stops) == ["gone.py", "domains.py: Box.gone", "domains.py: Nodes"]
    assert visited_twice(stops) == ["types.py"]
    assert wrong_stops(symbols(page)) == ["types.py: Box"]


@contextmanager
def followed(stops: list[Stop]) -> Iterator[list[Stop]]:
    """The stops that a program has yet to come to, one after the other, while it runs.

    It has come to a stop when one of the functions named there is entered, or a method of a class.
    """
    left = list(stops)
    inside = f"{HOUSE}/"

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not left or code.co_filename != inside + left[0].file:
            return
        if any(f"{code.co_qualname}.".startswith(f"{name}.") for name in left[0].names):
            del left[0]

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield left
    finally:
        sys.setprofile(before)


def demo(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig4, "DEMO", fig4.SMOKE)
    monkeypatch.setattr(fig4, "_draw", lambda *_: None)  # watched, it takes seconds
    assert main(["demo", "--steps", "2", "--out", str(out)]) == 0


def particle(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = crowded_recipe(SHAPE, 4.0, particles=80)
    schedule = Schedule(updates=1, batch_size=20)
    run = Run(replace(recipe, schedule=schedule), fields(100, 0), None, 0, show=False)
    run.state.engine = "native"
    assert [record.engine for record in run] == ["native"]


def table(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(120, 2))
    data, model, scores = out / "x.csv", out / "model", out / "scores.csv"
    data.write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in X.tolist())]))
    assert main(["fit", str(data), "--out", str(model), "--max-updates", "1"]) == 0
    assert main(["score", str(model), str(data), "--out", str(scores)]) == 0


def image(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uspebm.load("fashion-mnist").p_values(np.zeros((1, 28, 28), np.uint8))


def row_of_table1(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "BASELINES", {NEAREST: BASELINES[NEAREST]})
    ours = {"crowded-PS-USP": table1.SMOKE.methods["crowded-PS-USP"]}
    monkeypatch.setattr(table1, "SMOKE", replace(table1.SMOKE, methods=ours, baselines=True))
    monkeypatch.setitem(image_problem.PROBLEMS, "fields", small_problem())
    command = ["--preset", "smoke", "--inside", "fields", "--out", str(out)]
    assert main(["reproduce", "table1", *command]) == 0


PROGRAMS: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "A training batch in the demo": demo,
    "A particle through one update": particle,
    "A CSV row through fit and score": table,
    "An image through a pretrained model": image,
    "A Table 1 run": row_of_table1,
}


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_program_walks_as_the_page_says(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with followed(walks(PAGE)[title]) as left:
        PROGRAMS[title](tmp_path, monkeypatch)
    assert left == []


def test_a_walk_in_another_order_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the stop for which the program never comes back."""
    title = "An image through a pretrained model"
    *others, last = walks(PAGE)[title]
    with followed([last, *others]) as left:
        PROGRAMS[title](tmp_path, monkeypatch)
    assert left
