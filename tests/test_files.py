"""Folders that are whole or not there, and places that can be written."""

import errno
import os
from pathlib import Path

import pytest

from uspebm import files
from uspebm.files import check_writable, whole_folder

GONE = 2**22 + 1
"""No process has such a number."""


def fill(path: Path, text: str) -> None:
    with whole_folder(path) as filling:
        (filling / "a.txt").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_and_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    with whole_folder(path) as filling:
        (filling / "a.txt").write_text("one")
        assert not path.exists()
    with whole_folder(path) as filling:
        (filling / "b.txt").write_text("two")
        assert names(path) == ["a.txt"]
    assert names(path) == ["b.txt"]
    assert names(path.parent) == ["folder"]


@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, OSError], ids=lambda e: e.__name__
)
@pytest.mark.parametrize("before", [True, False], ids=["old folder", "no folder"])
def test_an_error_leaves_what_was_there(
    tmp_path: Path, before: bool, error: type[BaseException]
) -> None:
    path = tmp_path / "folder"
    if before:
        fill(path, "one")
    with pytest.raises(error), whole_folder(path) as filling:
        (filling / "b.txt").write_text("two")
        raise error
    assert names(tmp_path) == (["folder"] if before else [])
    assert not before or names(path) == ["a.txt"]


def test_a_rename_that_fails_puts_back_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    fill(path, "one")
    rename = Path.rename

    def second_fails(self: Path, target: Path) -> Path:
        if self.name.endswith("filling"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        fill(path, "two")
    assert names(tmp_path) == ["folder"]
    assert (path / "a.txt").read_text() == "one"


@pytest.mark.parametrize("writer", [GONE, os.getpid()], ids=["gone", "same number"])
def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path, writer: int) -> None:
    path = tmp_path / "fol[d]er"
    fill(path, "one")
    for what in ("filling", "former"):
        fill(tmp_path / f".fol[d]er.{writer}.{what}", "left")
    others = [f".fol[d]er.{os.getppid()}.filling", ".folder2.1.filling", ".fol[d]er.x.filling"]
    for other in others:
        fill(tmp_path / other, "of another")
    fill(path, "two")
    assert names(tmp_path) == sorted([*others, "fol[d]er"])


def test_killed_between_the_renames_the_former_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    fill(tmp_path / f".folder.{GONE}.former", "one")
    with pytest.raises(ValueError), whole_folder(path):
        raise ValueError
    assert names(tmp_path) == ["folder"]
    assert (path / "a.txt").read_text() == "one"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "real", "one")
    (tmp_path / "link").symlink_to("real")
    fill(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.txt").read_text() == "two"


def test_unfinished_folders_do_not_bother_who_clears_files(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "folder") as filling:
        files.remove_unfinished(tmp_path)
        assert filling.is_dir()


def test_places_are_tried_and_left_as_they_were(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "file")
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="cannot be written: Not a directory in"):
        check_writable(tmp_path / "file" / "a" / "b")


def test_a_full_disk_is_seen_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        check_writable(tmp_path / "x")
