"""What surrounds the code: templates, hooks, the list of targets, citation, changelog, version."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import uspebm

from .pages import ROOT

TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
KEYS = {"name", "about", "title", "labels", "assignees"}
"""What GitHub knows in a template's front matter; it shows no template without the first two."""


def front_matter(text: str) -> dict[str, Any]:
    found = re.match(r"---\n(.*?)\n---\n\n\S", text, re.DOTALL)
    assert found, "no front matter, or nothing below it"
    said: dict[str, Any] = yaml.safe_load(found[1])
    assert {"name", "about"} <= said.keys() <= KEYS, said
    assert all(isinstance(value, str) and value for value in said.values()), said
    return said


def test_templates_are_ones_that_github_shows() -> None:
    names = {front_matter(path.read_text())["name"] for path in TEMPLATES}
    assert len(names) == len(TEMPLATES) == 3
    chooser = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text())
    assert chooser.keys() <= {"blank_issues_enabled", "contact_links"}
    for link in chooser["contact_links"]:
        assert link.keys() == {"name", "url", "about"}
    boxes = (ROOT / ".github" / "pull_request_template.md").read_text()
    assert len(re.findall(r"^- \[ \] \S", boxes, re.MULTILINE)) > 3


@pytest.mark.parametrize(
    "wrong", ["name: x\n", "name: x\nabout: y\ncolour: z\n", "name: x\nabout:\n"]
)
def test_one_that_it_does_not_show_is_noticed(wrong: str) -> None:
    assert front_matter("---\nname: x\nabout: y\n---\n\ntext\n") == {"name": "x", "about": "y"}
    with pytest.raises(AssertionError):
        front_matter(f"---\n{wrong}---\n\ntext\n")


def test_hooks_need_nothing_but_what_make_installs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    with (ROOT / "pyproject.toml").open("rb") as file:
        dev = tomllib.load(file)["project"]["optional-dependencies"]["dev"]
    tools = {"lint-imports": "import-linter"}
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        tool = Path(hook["entry"].split()[0])
        assert tool.parent == Path(".venv/bin")
        assert tools.get(tool.name, tool.name) in dev


def test_make_help_knows_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    told = re.findall(r'@echo "make (\w+)  +\S', text)
    assert sorted(told) == sorted(set(phony.split()) - {"help"})
    rules = re.findall(r"^([a-z]+):", text, re.MULTILINE)
    assert sorted(rules) == sorted(phony.split())


def test_there_is_one_version_and_the_changelog_has_it() -> None:
    """It is read from the package; the citation repeats it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/uspebm/__init__.py"
    entries = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert entries[0] == uspebm.__version__
    assert citation()["version"] == uspebm.__version__


def citation() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    return found


def test_the_citation_is_complete() -> None:
    """All that the format asks for, and what finds the software and the paper."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    said = citation()
    assert said["cff-version"] == "1.2.0"
    assert said["type"] == "software"
    assert said["license"] == project["license"]
    assert said["repository-code"] == project["urls"]["Repository"]
    assert said["keywords"] == project["keywords"]
    assert said.keys() >= {"message", "title", "abstract", "authors", "url"}
    paper = said["preferred-citation"]
    assert paper.keys() >= {"type", "title", "authors", "year", "journal", "url"}
    page = (ROOT / "docs" / "index.md").read_text()
    for text in (paper["title"], paper["journal"], *(a["family-names"] for a in paper["authors"])):
        assert text in page
