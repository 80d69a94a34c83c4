"""What becomes of errors of libraries: one line, or what they were."""

import errno
import tokenize
from pathlib import Path

import pytest

from uspebm.support import reading as module
from uspebm.support.extras import MissingExtraError
from uspebm.support.reading import (
    UnreadableError,
    one_line,
    read_at_most,
    reading,
    refuse_bomb,
)

PATH = Path("data.npy")


@pytest.mark.parametrize(
    "error",
    [
        tokenize.TokenError("EOF in multi-line\nstatement", (2, 0)),
        *(TypeError("no"), NotImplementedError("no"), MemoryError(), SystemError("no")),
        *(RecursionError("no"), KeyError("x"), OverflowError("no"), ValueError("a\nb")),
        *(OSError("cannot identify"), EOFError(), OSError(errno.EINVAL, "Invalid argument")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_library_raises_is_one_line(error: Exception) -> None:
    with pytest.raises(UnreadableError) as caught, reading(PATH, "is no array"):
        raise error
    text = str(caught.value)
    assert text.startswith("data.npy is no array: ")
    assert text.isprintable()
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        UnreadableError("said before"),
        MissingExtraError("pip install"),
        PermissionError(errno.EACCES, "Permission denied", "data.npy"),
        FileNotFoundError(errno.ENOENT, "No such file", "data.npy"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_was_said_rightly_stays(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, reading(PATH):
        raise error
    assert caught.value is error


def test_a_broken_disk_is_named() -> None:
    with pytest.raises(OSError, match=r"Input/output error: 'data\.npy'"), reading(PATH):
        raise OSError(errno.EIO, "Input/output error")


def test_interrupts_pass() -> None:
    with pytest.raises(KeyboardInterrupt), reading(PATH):
        raise KeyboardInterrupt


def test_errors_of_another_kind() -> None:
    class ModelError(UnreadableError):
        pass

    with pytest.raises(ModelError), reading(PATH, error=ModelError):
        raise TypeError


def test_messages_are_short_and_harmless() -> None:
    assert one_line(ValueError("x" * 10_000)) == "x" * 300 + "…"
    assert one_line(ValueError("\x1b[31mred\x07 \udcff")) == "?[31mred? ?"
    assert one_line(ValueError()) == "ValueError"
    assert one_line(KeyError("offset")) == "there is no 'offset'"


def test_reading_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100)
    assert read_at_most(path, 100) == b"x" * 100
    with pytest.raises(UnreadableError, match="x is larger than 99 bytes"):
        read_at_most(path, 99)


def test_bombs_are_out_of_all_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREELY", 1000)
    for packed, unpacked in ((0, 1000), (10, 1000), (11, 1100), (10**9, 10**11)):
        refuse_bomb(PATH, packed, unpacked)
    for packed, unpacked in ((0, 1001), (10, 1001), (11, 1101)):
        with pytest.raises(UnreadableError, match=r"data\.npy unpacks to .* over 100 times"):
            refuse_bomb(PATH, packed, unpacked)
