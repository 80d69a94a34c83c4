"""Text that is not in UTF-8: where that shows, what it may be instead, and how to convert it."""

import codecs
import re
from pathlib import Path
from typing import IO

from ...support.reading import UnreadableError

TEXT_AT_ONCE = 1 << 20  # bytes
AROUND = 20
"""Bytes on each side of a wrong one, as far as its cell goes, that show what was meant."""
MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16's, which it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
WITHOUT_MARK = {"UTF-16LE": [False, True] * 2, "UTF-16BE": [True, False] * 2}
"""Which of the first bytes are zero, where the first letters are plain ones."""


def refuse_wide_letters(path: Path, begin: bytes) -> None:
    """An error where a file begins as text of two or four bytes a letter does."""
    for mark, name in MARKS.items():
        if begin.startswith(mark):
            raise UnreadableError(
                f"{path} is in {name}, as its byte-order mark ({mark.hex(' ')}) tells, not in "
                f"UTF-8: {_conversion(path, name)}"
            )
    for name, zeros in WITHOUT_MARK.items():
        if [byte == 0 for byte in begin[:4]] == zeros:
            raise UnreadableError(
                f"{path} looks like {name}, as every other byte at its beginning is zero, and is "
                f"not in UTF-8: {_conversion(path, name)}"
            )


def refuse_foreign_text(path: Path, stream: IO[bytes]) -> None:
    """An error that names the first byte of a file, read from ``stream``, that is not UTF-8's."""
    before, lines, returns, held, wrong = 0, 1, 1, b"", False
    while True:
        more = stream.read(TEXT_AT_ONCE)
        part = held + more
        try:
            _, used = codecs.utf_8_decode(part, "strict", not more)
        except UnicodeDecodeError as error:
            used, wrong = error.start, True
        lines, returns = lines + part[:used].count(b"\n"), returns + part[:used].count(b"\r")
        before, held = before + used, part[used:]
        if wrong:
            # Where lines end in a carriage return alone, nothing else tells them.
            where = f"byte {before + 1:,}, in line {lines if lines > 1 else returns:,}"
            raise UnreadableError(_advice(path, part, used, where))
        if not more:
            return


def _advice(path: Path, part: bytes, at: int, where: str) -> str:
    said = f"{path} is not in UTF-8: {where} (counted from 1), is {part[at]:#04x}"
    left = re.split(rb"[,\t\r\n]", part[max(0, at - AROUND) : at])[-1]
    right = re.split(rb"[,\t\r\n]", part[at : at + AROUND])[0]
    try:
        meant = (left + right).decode("windows-1252")
    except UnicodeDecodeError:
        return f"{said}; {_conversion(path, 'ENCODING')}, with the encoding that it was saved in"
    # Any text of one byte a letter can be read so: whether it makes sense, the user can tell.
    return f"{said}, in Windows-1252 {meant!r}; {_conversion(path, 'WINDOWS-1252')}"


def _conversion(path: Path, encoding: str) -> str:
    """A command to copy. It names no file: a path in it might need to be quoted."""
    *_, kind = path.name.lower().removesuffix(".gz").rpartition(".")
    convert = f"iconv -f {encoding} -t UTF-8"
    if path.name.lower().endswith(".gz"):
        command = f"gunzip -c in.{kind}.gz | {convert} > out.{kind}"
    else:
        command = f"{convert} in.{kind} > out.{kind}"
    return f"save it in UTF-8 (Excel's 'CSV UTF-8'), or convert it by `{command}`"
