"""The files of the repository that stand outside ``docs`` as pages of the site.

They stay where people look for them, and links that lead to them from any page lead to their page.
Each section of RESULTS.md is a page of its own. All are written to ``docs/record``, which git does
not know, before the site is built.
"""

import re
from os.path import relpath
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
FILES = {
    "RESULTS.md": "results",
    "LOG.md": "log",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
LINK = re.compile(r"(\]\()([^)\s#]+)")


def rewritten(text: str, folder: Path, shown_in: Path) -> str:
    """Links of a text that stands in ``folder``, as they are for a page in ``shown_in``."""

    def aim(found: re.Match[str]) -> str:
        opening, target = found.groups()
        if re.match("[a-z]+:", target):
            return found[0]
        path = (folder / target).resolve()
        if path.parent == ROOT and path.name in FILES:
            path = DOCS / "record" / f"{FILES[path.name]}.md"
        if path == ROOT / "README.md":
            path = DOCS / "index.md"
        return opening + Path(relpath(path, shown_in)).as_posix()

    return LINK.sub(aim, text)


def slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def results_pages(text: str) -> dict[str, str]:
    """The introduction with a list of its sections, and a page for each of them."""
    first, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    pages = {}
    for section in sections:
        heading, _, body = section.partition("\n")
        deeper = re.sub(r"^#(#+ )", r"\1", body, flags=re.MULTILINE)
        pages[f"results-{slug(heading)}"] = f"# {heading}\n{deeper}"
    listed = "\n".join(pages)
    return {"results": f"{first}\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"} | pages


def write(_: Any) -> None:
    place = DOCS / "record"
    place.mkdir(exist_ok=True)
    pages = {}
    for file, name in FILES.items():
        text = rewritten((ROOT / file).read_text(encoding="utf-8"), ROOT, place)
        pages |= results_pages(text) if name == "results" else {name: text}
    for old in place.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = place / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def mend_links(app: Any, name: str, content: list[str]) -> None:
    """Links of the other pages to these files."""
    if not name.startswith("record/"):
        folder = (DOCS / name).parent
        content[0] = rewritten(content[0], folder, folder)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write)
    app.connect("source-read", mend_links)
    return {"parallel_read_safe": True}
