"""What is installed: extras, versions, and the files that are no code."""

import io
import re
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .support.test_extras import EXTRAS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "uspebm"
LARGEST_WHEEL = 2.5e6
"""Bytes."""


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file))


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}


def test_extras_and_core_are_apart() -> None:
    """Each extra has the packages that the tests of extras hide, and the core has none of them."""
    core = packages(project()["project"]["dependencies"])
    extras = project()["project"]["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        wanted = {"pillow" if module == "PIL" else module for module in modules}
        assert packages(extras[extra]) == wanted
        assert not wanted & core
    assert extras["all"] == [f"uspebm[{','.join(EXTRAS)}]"]
    assert "uspebm[all]" in extras["dev"]


def test_what_the_package_needs_besides_code_is_there_and_small() -> None:
    """All that lies in the package goes into the wheel, which is a zip file."""
    found = [file for file in PACKAGE.rglob("*") if file.is_file() and not _is_cached(file)]
    assert {".cpp", ".hpp", ".safetensors"} <= {file.suffix for file in found}
    assert PACKAGE / "py.typed" in found
    models = {file.parent.name for file in found if file.suffix == ".safetensors"}
    assert models == {"fashion-mnist", "fashion-mnist-srlmc"}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in found:
            wheel.write(file, file.relative_to(PACKAGE))
    assert content.tell() < LARGEST_WHEEL


def _is_cached(file: Path) -> bool:
    return any("cache" in part for part in file.relative_to(PACKAGE).parts)


def test_nothing_of_the_package_is_ignored() -> None:
    """Builds leave out what git ignores: a pattern such as ``data/`` would take a room away."""
    patterns = [line for line in (ROOT / ".gitignore").read_text().split() if line[0] not in "#/"]
    folders = (folder for folder in PACKAGE.rglob("*") if folder.is_dir())
    rooms = {folder.name for folder in folders if not _is_cached(folder)}
    assert "data" in rooms
    assert not [room for room in rooms for pattern in patterns if fnmatch(f"{room}/", pattern)]
