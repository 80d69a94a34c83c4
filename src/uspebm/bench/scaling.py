r"""What an update of several processes takes, by what it is made of.

.. math:: T(k) = \frac{S}{k} + A + [k > 1] \Bigl( m \ell
          + 2 \frac{k - 1}{k} \cdot \frac{b}{w} \Bigr)

S is what processes share out, A what each does for itself; m messages that all wait for have a
latency of :math:`\ell` each, and their b bytes go around a ring of bandwidth w: all but one share
of them, once to be added up and once to be told.

Not in it: that shares of a batch differ in size, and that machines differ in speed. The slowest
process is the one that counts.
"""

from typing import NamedTuple


class Parts(NamedTuple):
    """What an update is made of."""

    shared: float
    """S, in seconds."""
    alone: float
    """A, in seconds."""
    messages: float
    """m."""
    sent: float
    """b."""


class Link(NamedTuple):
    """Between processes."""

    latency: float
    """ℓ of a message, in seconds."""
    bandwidth: float
    """w, in bytes a second."""


def expected_seconds(parts: Parts, link: Link, size: int) -> float:
    """T(k) for ``size`` processes.

    >>> parts, link = Parts(shared=1.0, alone=0.1, messages=10, sent=1e6), Link(1e-3, 1e7)
    >>> [round(expected_seconds(parts, link, size), 3) for size in (1, 2, 4)]
    [1.1, 0.71, 0.51]
    """
    seconds = parts.shared / size + parts.alone
    if size > 1:
        passed = 2 * (size - 1) / size * parts.sent
        seconds += parts.messages * link.latency + passed / link.bandwidth
    return seconds


def solved(one: float, two: float, messages: float, latency: float) -> Parts:
    """S and A from what one and two processes took; bytes are taken to be free.

    >>> solved(1.1, 0.61, 10, 1e-3)
    Parts(shared=1.0, alone=0.1, messages=10, sent=0.0)
    """
    shared = 2 * (one - two + messages * latency)
    return Parts(round(shared, 12), round(one - shared, 12), messages, 0.0)
