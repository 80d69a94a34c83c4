"""Model folders changed on purpose, their checksum made right: what a checksum cannot see."""

import json
from pathlib import Path
from typing import Any

from uspebm.detector import folder as model_folder

WEIGHTS, ABOUT = model_folder.WEIGHTS, model_folder.ABOUT


def about(folder: Path) -> dict[str, Any]:
    """What ``model.json`` says."""
    return dict(json.loads((folder / ABOUT).read_text(encoding="utf-8")))


def signed(folder: Path, **changes: Any) -> None:
    """Change what ``model.json`` says, and give it the checksum that belongs to that."""
    said = about(folder) | changes
    said["sha256"] = model_folder._checksum(said, (folder / WEIGHTS).read_bytes())
    (folder / ABOUT).write_text(json.dumps(said), encoding="utf-8")
