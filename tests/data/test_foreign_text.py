"""Tables that are not in UTF-8: where it shows is said, and how to convert them."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from uspebm.data.encoding import Hints
from uspebm.data.readers import foreign_text, open_source, texts

from .common import refused

NAMES = "höhe,farbe\n1,rot\n2,blau\n"
CELLS = "a,b\n" + "1,rot\n2,blau\n" * 30 + "3,größer\n"
COMMAND = "`iconv -f {} -t UTF-8 in.csv > out.csv`"


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["plain", "Windows", "old"])
@pytest.mark.parametrize(
    ("text", "line", "meant"), [(NAMES, 1, "'höhe'"), (CELLS, 62, "'größer'")], ids=["name", "cell"]
)
def test_what_excel_saves_in_western_europe(
    tmp_path: Path, encoding: str, end: str, text: str, line: int, meant: str
) -> None:
    path = tmp_path / "x.csv"
    content = text.replace("\n", end).encode(encoding)
    path.write_bytes(content)
    where = f"byte {content.index(0xF6) + 1}, in line {line} (counted from 1), is 0xf6"
    for message in (f"is not in UTF-8: {where}", meant, COMMAND.format("WINDOWS-1252")):
        refused(path, message, wish=Hints())


def test_wherever_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of several bytes that a block cuts through are not wrong; what follows them is."""
    path = tmp_path / "x.csv"
    good = "größe,€\n1,2\n".encode()
    for size in range(1, 12):
        monkeypatch.setattr(foreign_text, "TEXT_AT_ONCE", size)
        path.write_bytes(good)
        with path.open("rb") as stream:
            foreign_text.refuse_foreign_text(path, stream)
        path.write_bytes(good + b"\xff,3\n")
        with path.open("rb") as stream, pytest.raises(ValueError, match=r"byte 17, in line 3 "):
            foreign_text.refuse_foreign_text(path, stream)
        path.write_bytes(good + "ü".encode()[:1])  # cut off
        with path.open("rb") as stream, pytest.raises(ValueError, match=r"byte 17, in line 3 "):
            foreign_text.refuse_foreign_text(path, stream)


@pytest.mark.parametrize("wish", [None, Hints(), "text"], ids=["numbers", "any", "text"])
@pytest.mark.parametrize("text", [NAMES, "a,b\n1,2\n", "1,2\n3,4\n"])
@pytest.mark.parametrize(
    ("encoding", "name", "shown"),
    [
        ("utf-16", "UTF-16", "its byte-order mark (ff fe)"),
        ("utf-32", "UTF-32", "its byte-order mark (ff fe 00 00)"),
        ("utf-16-le", "UTF-16LE", "every other byte at its beginning is zero"),
        ("utf-16-be", "UTF-16BE", "every other byte at its beginning is zero"),
    ],
)
def test_letters_of_several_bytes(
    tmp_path: Path, wish: Any, text: str, encoding: str, name: str, shown: str
) -> None:
    path = tmp_path / "x.csv"
    if text == NAMES and encoding in ("utf-16-le", "utf-16-be"):
        text = f"ab,{text}".replace("\n", "\n0,", 2)  # plain letters first
    path.write_bytes(text.encode(encoding))
    for message in (name, shown, COMMAND.format(name)):
        refused(path, message, wish=wish)


def test_bytes_that_windows_does_not_know_either(tmp_path: Path) -> None:
    """The command is for whoever knows the encoding; no wrong one is proposed."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1,\x81\x8d\n")
    refused(path, "is 0x81; save it in UTF-8", wish=Hints())
    refused(path, f"{COMMAND.format('ENCODING')}, with the encoding", wish=Hints())


def test_what_a_terminal_might_obey_is_shown_and_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1,\x1b[2J\xf6\n")
    refused(path, r"'\x1b[2Jö'", wish=Hints())


def test_a_name_that_is_missed_may_be_one_in_other_letters(tmp_path: Path) -> None:
    """A model that knows höhe is not told that there is none."""
    path = tmp_path / "x.csv"
    path.write_bytes(NAMES.encode("latin-1"))
    refused(path, "is not in UTF-8: byte 2, ", columns=("höhe",))
    refused(path, "is not in UTF-8: byte 2, ", drop=("höhe",))


def test_wrong_bytes_in_what_is_not_taken_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("höhe,b,c\n1,größer,5\n".encode("latin-1"))
    assert open_source(path, columns=("c",)).read().tolist() == [[5]]
    refused(path, "column 'b' holds 'gr", columns=("b",))
    with pytest.raises(ValueError, match="is not in UTF-8: byte 2, "):
        list(texts(path, ["b"]))


def test_the_sign_of_a_letter_that_was_lost_is_a_letter(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("h\ufffdhe,b\n1,2\n", encoding="utf-8")
    assert open_source(path).read().tolist() == [[1, 2]]


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", '"a",b\n1,2\n3,4\n', "1,2\n3,4\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_mark_of_utf_8_is_no_part_of_a_name(tmp_path: Path, text: str, packed: bool) -> None:
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    content = text.encode("utf-8-sig")
    path.write_bytes(gzip.compress(content) if packed else content)
    source = open_source(path, wish=Hints())
    assert source.columns == (("0", "1") if text[0] == "1" else ("a", "b"))
    assert source.read().tolist() == [[1, 2], [3, 4]]


@pytest.mark.skipif(not shutil.which("iconv"), reason="has no iconv")
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
def test_the_command_does_what_is_promised(tmp_path: Path, encoding: str, ending: str) -> None:
    text = "ab,höhe\n1,2\n".replace(",", "\t" if ending == "tsv" else ",").encode(encoding)
    given = tmp_path / f"in.{ending}"
    given.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    with pytest.raises(ValueError, match="UTF-8") as error:
        open_source(given)
    (command,) = re.findall("`(.*)`", str(error.value))
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    made = open_source(tmp_path / f"out.{ending.removesuffix('.gz')}")
    assert made.columns == ("ab", "höhe")
