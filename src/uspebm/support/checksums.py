"""What files hold, as one number: to tell whether data are those that a model was made of."""

import hashlib
from pathlib import Path

READ_AT_ONCE = 1 << 20
"""Bytes."""


def content_checksum(path: Path) -> str:
    """SHA-256 of a file; of a folder, of the names and contents of all files below it."""
    digest = hashlib.sha256()
    if not path.is_dir():
        _add(digest, path)
        return digest.hexdigest()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\n{file.stat().st_size}\n".encode())
        _add(digest, file)
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            digest.update(block)
