"""Text that says numbers or dates, or nearly does.

A column in which one cell of a thousand is junk is text as a whole, and would be left out as names
and remarks are; a detector without its most telling column works, and finds nothing. So such
columns are refused, and what looks like dates in another form is called that.
"""

import re
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

NEARLY_ALL = 0.9
"""Of the values, from which on the others are mistakes: of ticket numbers and the like, fewer are
plain numbers."""
OTHER_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:[., '\u00a0\u202f]\d{3})+|\d+)(?:[.,]\d+)?\s?%?")
"""With separators of thousands, a comma for the point, or per cent."""
OTHER_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}(?:[ T,].*)?")


def as_number(text: str) -> float:
    """As files mean it: 2020_01 is none, though Python reads 202001; an error where it is none."""
    if "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def is_number(text: str) -> bool:
    """Whether a text says a number.

    >>> is_number("1e3"), is_number("1,5")
    (True, False)
    """
    try:
        as_number(text)
    except ValueError:
        return False
    return True


def is_measured(text: str) -> bool:
    """Whether a text is a number with a point or a date: what columns are hardly called.

    >>> is_measured("6.27"), is_measured("2026-01-31"), is_measured("2026")
    (True, True, False)
    """
    return ("." in text and is_number(text)) or OTHER_DATE.fullmatch(text) is not None


def refuse_near_numbers(name: str, cells: Sequence[Any] | NDArray[Any]) -> None:
    """An error where nearly all cells of a column of text are numbers, or look like them."""
    texts = [(row, str(cell)) for row, cell in enumerate(cells, start=1) if cell is not None]
    junk = [(row, text) for row, text in texts if not is_number(text)]
    if not junk:
        return  # digits that were made text on purpose, as codes are
    few, (row, example) = (1 - NEARLY_ALL) * len(texts), junk[0]
    if len(junk) <= few:
        raise ValueError(
            f"column {name!r} holds numbers, but {example!r} in row {row}: correct it, leave it "
            f"empty if it is missing, or leave the column out (--drop {name!r})"
        )
    if sum(OTHER_NUMBER.fullmatch(text) is None for _, text in junk) <= few:
        raise ValueError(
            f"column {name!r} looks like numbers, but {example!r} in row {row} is not one: write "
            "them with a decimal point and no other signs, as in 1234.5, or leave the column out "
            f"(--drop {name!r})"
        )


def date_like(cells: Sequence[Any] | NDArray[Any]) -> str | None:
    """What to say of a column of text that looks like dates, or None where it does not."""
    texts = [str(cell) for cell in cells if cell is not None]
    looks = [text for text in texts if OTHER_DATE.fullmatch(text)]
    if not looks or len(looks) < NEARLY_ALL * len(texts):
        return None
    return f"text such as {looks[0]!r} that looks like dates; in a file, 2026-01-31 12:30 is one"
