"""Checksums of what files and folders hold."""

import hashlib
from pathlib import Path

from uspebm.support.checksums import READ_AT_ONCE, content_checksum


def test_a_file_has_the_checksum_that_all_programs_say(tmp_path: Path) -> None:
    content = bytes(range(256)) * (READ_AT_ONCE // 100)
    (tmp_path / "x").write_bytes(content)
    assert content_checksum(tmp_path / "x") == hashlib.sha256(content).hexdigest()


def test_a_folder_has_that_of_names_and_contents(tmp_path: Path) -> None:
    def made(name: str, files: dict[str, bytes]) -> str:
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return content_checksum(tmp_path / name)

    one = made("one", {"a": b"12", "b/c": b"3"})
    assert made("same", {"b/c": b"3", "a": b"12"}) == one
    others = [
        made("content", {"a": b"12", "b/c": b"4"}),
        made("name", {"a": b"12", "b/d": b"3"}),
        made("cut", {"a": b"1", "b/c": b"23"}),
        made("more", {"a": b"12", "b/c": b"3", "e": b""}),
    ]
    assert len({one, *others}) == 5
