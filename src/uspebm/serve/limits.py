"""How much one request may ask for, and how many may ask at once."""

from dataclasses import dataclass

from ..support.checks import at_least, positive
from ..support.words import said_count


@dataclass(frozen=True)
class Limits:
    """Beyond each of these (but ``explained``) a request is refused, and told which it was.

    Arguments:
        body: Bytes of one request.
        bodies: Bytes of all requests that are being read or wait.
        rows: Of one request.
        explained: Rows of one request, the first, that reasons and neighbours are given of.
        pixels: Of an image, before it is brought to the model's size.
        requests: Worked on at a time; more are asked to come again.
        connections: Open at a time.
        header: Bytes before a body.
        arriving: Seconds until the whole of a request is there.
        answering: Seconds until the answer is.
    """

    body: int = 16 << 20
    bodies: int = 256 << 20
    rows: int = 10_000
    explained: int = 16
    pixels: int = 12_000_000
    requests: int = 128
    connections: int = 800
    header: int = 1 << 16
    arriving: float = 10.0
    answering: float = 30.0

    def __post_init__(self) -> None:
        whole = ("body", "bodies", "rows", "explained", "pixels", "requests", "connections")
        at_least(1, **{name: getattr(self, name) for name in (*whole, "header")})
        positive(arriving=self.arriving, answering=self.answering)


class RefusedRequestError(Exception):
    """A request that is answered by what is wrong with it.

    Arguments:
        status: Of HTTP.
        error: What is wrong, and what to do.
        headers: Beside the usual ones.
    """

    def __init__(self, status: int, error: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}


def too_many_rows(limits: Limits, images: bool) -> RefusedRequestError:
    """What is said of more rows than may come at once."""
    return RefusedRequestError(
        413,
        f"there are more than {said_count(limits.rows, images)}: send them in several requests",
    )
