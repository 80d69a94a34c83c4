"""What a report is, before it is HTML: a title, a verdict, facts, and sections made of blocks.

Text is plain text, whoever wrote it: it is escaped where the page is written. Colours of charts are
names, ``"@ps_usp"``, which the page's style gives a value for light and for dark.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Figure = dict[str, Any]
"""As plotly takes it: ``data`` and ``layout``."""
Tone = Literal["good", "bad", "plain"]


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    kind: ClassVar = "words"
    text: str


@dataclass(frozen=True)
class Remark:
    """Something to take note of: what it is, and what to do about it."""

    kind: ClassVar = "remark"
    title: str
    text: str
    advice: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Code:
    """Lines as they are typed, or settings."""

    kind: ClassVar = "code"
    text: str
    label: str


@dataclass(frozen=True)
class Sheet:
    """Rows and columns; those after the first are numbers unless ``texts``."""

    kind: ClassVar = "sheet"
    caption: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    texts: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart; ``alt`` says what is to be seen for those who do not see it."""

    kind: ClassVar = "chart"
    title: str
    figure: Figure
    alt: str
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Picture:
    """An image, and what stands below it."""

    source: str
    """A ``data:`` address."""
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Gallery:
    """Images side by side; ``large`` ones are figures, others are shown by their pixels."""

    kind: ClassVar = "gallery"
    title: str
    pictures: tuple[Picture, ...]
    note: str = ""
    large: bool = False


@dataclass(frozen=True)
class Player:
    """Densities of the line or plane beside each other, and a slider through their training."""

    kind: ClassVar = "player"
    title: str
    data: dict[str, Any]
    panels: tuple[Picture, ...]
    """Names and descriptions of the panels; they have no source of their own."""
    note: str = ""


@dataclass(frozen=True)
class Dial:
    """Scores of sets as a chart, and a slider over the false-alarm rate."""

    kind: ClassVar = "dial"
    title: str
    figure: Figure
    alt: str
    stops: tuple[dict[str, Any], ...]
    """For every stop of the slider: ``rate``, ``threshold``, and ``lines`` to be read."""
    at: int
    note: str = ""


Block = Words | Remark | Code | Sheet | Chart | Gallery | Player | Dial


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A report."""

    title: str
    verdict: tuple[Remark, ...]
    """Comes first: what it is good for, what not, what went wrong."""
    facts: tuple[tuple[str, str], ...]
    """What was run, on what, how long."""
    sections: tuple[Section, ...]
