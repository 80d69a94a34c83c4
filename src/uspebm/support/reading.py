"""Reading what others wrote: a value comes of it, or one line that says what is wrong."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .extras import MissingExtraError

PACKED = 100
"""Times its size that a compressed file may unpack to: tables of few values do not reach it."""
FREELY = 1 << 30
"""Bytes that any file may unpack to."""
MESSAGE = 300
"""Characters of a library's message that are passed on."""
OF_CONTENT = {None, errno.EINVAL, errno.EOVERFLOW}
"""Numbers of OSErrors that come of what a file says, such as a place before its beginning."""


class UnreadableError(ValueError):
    """What a file holds is refused; the message is one line, and begins with the file's path."""


@contextmanager
def reading(
    path: Path, what: str = "cannot be read", error: type[UnreadableError] = UnreadableError
) -> Iterator[None]:
    """Whatever a library raises over the content of ``path``, as an ``error`` of one line.

    What stays as it is: errors of the file system, refusals that were worded before, and packages
    that are missing. Being out of memory is told in the same way.
    """
    try:
        yield
    except (UnreadableError, MissingExtraError):
        raise
    except Exception as found:  # libraries raise all kinds over damaged files, SystemError too
        if isinstance(found, OSError) and found.errno not in OF_CONTENT:
            if found.filename is None:  # a broken disk does not say which file it was
                raise OSError(found.errno, found.strerror, str(path)) from found
            raise
        raise error(f"{path} {what}: {one_line(found)}") from found


def read_at_most(path: Path, limit: int, error: type[UnreadableError] = UnreadableError) -> bytes:
    """The content of a file that has no reason to be larger than ``limit`` bytes."""
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise error(f"{path} is larger than {limit:,} bytes: it is not what it should be")
    return content


def refuse_bomb(
    path: Path, packed: int, unpacked: int, freely: int | None = None, times: int | None = None
) -> None:
    """An error where ``packed`` bytes would become ``unpacked`` ones, out of all proportion."""
    times = PACKED if times is None else times
    if unpacked > max(FREELY if freely is None else freely, times * packed):
        raise UnreadableError(
            f"{path} unpacks to {unpacked / 2**20:,.0f} MiB or more, over {times} times its size: "
            "if that is right, unpack it first, or give it as .npy"
        )


def one_line(error: BaseException | str) -> str:
    """A message, shortened, without line breaks and what a terminal might obey.

    >>> one_line(ValueError("two\\nlines \\x1b[2J"))
    'two lines ?[2J'
    """
    text = " ".join(str(error)[: 4 * MESSAGE].split()) or type(error).__name__
    text = "".join(c if c.isprintable() else "?" for c in text)
    if isinstance(error, KeyError):  # says what is missing, and not that it is
        text = f"there is no {text}"
    return text if len(text) <= MESSAGE else f"{text[:MESSAGE]}…"
