"""The README and the pages of the site, as the tests read them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def page_names() -> list[str]:
    """Of all pages, such as ``guides/tables``, but those made of the repository's own files."""
    found = (path for path in DOCS.rglob("*.md") if DOCS / "record" not in path.parents)
    return sorted(str(path.relative_to(DOCS).with_suffix("")) for path in found)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """Without its code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def shown_commands(text: str) -> list[list[str]]:
    """The commands of the package in a shell's lines, without what is said of them."""
    lines = (shlex.split(line, comments=True) for line in shell_lines(text))
    return [words[1:] for words in lines if words[:1] == ["uspebm"]]


def shell_lines(text: str) -> list[str]:
    """Those that say something; a backslash at the end goes on with the next."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


def first_cells(text: str, first: str) -> list[str]:
    """Of the tables whose first column is called so."""
    tables = re.findall(rf"^\| {first} \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [line.split("|")[1].strip() for rows in tables for line in rows.splitlines()]


def links(text: str) -> list[str]:
    """Paths that a page points to, without their anchors and without other sites."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    return [link.partition("#")[0] for link in found if not re.match(r"#|[a-z]+:", link)]
