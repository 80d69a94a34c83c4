"""Moments as places on two circles, the day and the week, and what such places are called.

Dates have to be numbers that come back: one minute before midnight is near one minute after.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

DAY, WEEK = 86_400, 7 * 86_400
CYCLES = {"time of day": DAY, "day of week": WEEK}
WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
"""From the first of January 1970, where cycles begin."""


def cycles_of(name: str, cells: NDArray[Any]) -> NDArray[np.float64]:
    """Sines and cosines ``(N, 4)`` of a column of dates, or of text that says them."""
    if cells.dtype.kind != "M":
        try:
            # Text may say parts of a second, which numpy does not leave out by itself.
            cells = np.array([cell or "NaT" for cell in cells], "datetime64[us]")
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name!r} holds no dates: {error}") from None
    missing = np.isnat(cells)
    seconds = np.where(missing, 0, cells.astype("datetime64[s]").astype(np.int64)).astype(float)
    angles = [2 * np.pi * seconds / length for length in CYCLES.values()]
    found = np.stack([part for a in angles for part in (np.sin(a), np.cos(a))], axis=1)
    found[missing] = np.nan
    return found


def seconds_of(moments: Iterable[date | None]) -> NDArray[np.datetime64]:
    """Dates of Python's, with a time or without, as numpy's; in UTC where they have a time zone.

    >>> seconds_of([date(2026, 3, 2), None, datetime(2026, 3, 2, 7, 30, tzinfo=UTC)]).tolist()[2]
    datetime.datetime(2026, 3, 2, 7, 30)
    """
    plain = (
        one.astimezone(UTC).replace(tzinfo=None)
        if isinstance(one, datetime) and one.tzinfo
        else one
        for one in moments
    )
    found = [np.datetime64("NaT" if one is None else one, "s") for one in plain]
    return np.array(found, "datetime64[s]")


def moment_of(numbers: Sequence[float]) -> str:
    """Day of week and time of day, to the minute, of a date's four numbers.

    >>> moment_of([0.0, 1.0, 0.0, 1.0])
    'Thu 00:00'
    """
    pairs = zip(numbers[::2], numbers[1::2], CYCLES.values(), strict=True)
    day, week = (
        math.atan2(sine, cosine) / math.tau % 1.0 * length for sine, cosine, length in pairs
    )
    minute = round(day / 60)
    # Rounded as the time of day is, and then half a minute past: else midnight would be of either
    # day, by the last digits.
    name = WEEKDAYS[int((week + 60 * minute - day + 30) // DAY) % 7]
    return f"{name} {minute // 60 % 24:02d}:{minute % 60:02d}"
