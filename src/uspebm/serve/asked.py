"""What may stand behind the question mark of a request, and what is said where it may not."""

from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MOST_REASONS, MOST_NEAREST = 100, 20


class AskedQuery(BaseModel):
    """What may stand behind the question mark."""

    model_config = ConfigDict(extra="forbid")
    false_alarm_rate: float | None = Field(
        None, gt=0, lt=1, description="Of the verdicts; left out: the model's own threshold."
    )
    why: int = Field(
        0, ge=0, le=MOST_REASONS, description="Reasons of each row: its so many costliest columns."
    )
    nearest: int = Field(
        0, ge=0, le=MOST_NEAREST, description="Training points nearest to each row."
    )


ALLOWED = {
    "false_alarm_rate": "a number between 0 and 1, such as 0.05",
    "why": f"a whole number from 0 to {MOST_REASONS}",
    "nearest": f"a whole number from 0 to {MOST_NEAREST}",
}
"""In words, what a parameter may be."""


def said_of_query(fault: Mapping[str, Any]) -> str:
    """One of Pydantic's faults of an :class:`AskedQuery`, in our words.

    >>> said_of_query({"loc": ("query", "why"), "input": "101"})
    "why: '101' is not a whole number from 0 to 100"
    >>> said_of_query({"loc": ("query", "how"), "input": "1"})
    "there is no parameter 'how': give false_alarm_rate, why or nearest"
    """
    name = str(fault["loc"][-1])
    if name not in ALLOWED:
        *others, last = ALLOWED
        known = f"{', '.join(others)} or {last}"
        return f"there is no parameter {shortened(name)}: give {known}"
    return f"{name}: {shortened(fault['input'])} is not {ALLOWED[name]}"
