"""Whose a run's folder is: ``run.json`` has the recipe, the seed and a fingerprint of the data."""

import json
from pathlib import Path
from typing import Any

from ..support.files import whole_file
from ..training.checkpoint import checkpoints
from .plain import from_plain
from .recipe import Recipe


def sign(folder: Path, settings: dict[str, Any]) -> None:
    """Say in ``folder`` what trains there; an error where something else did."""
    about, said = folder / "run.json", json.dumps(settings, indent=1).encode()
    if not checkpoints(folder):
        with whole_file(about) as file:
            file.write(said)
    # Not by values: 1e-5 and 1E-5 are the same, but the second is not what was written.
    elif not about.exists() or about.read_bytes() != said:
        raise ValueError(
            f"{folder} holds a run with other settings, or its run.json is damaged: choose another "
            "--out, or remove it"
        )


def recipe_in(folder: Path) -> Recipe | None:
    """The recipe of the run that was begun in ``folder``, if any was, and if files can hold it."""
    try:
        recipe = from_plain(json.loads((folder / "run.json").read_text())["recipe"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return recipe if isinstance(recipe, Recipe) and checkpoints(folder) else None
