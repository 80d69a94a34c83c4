"""Checks of settings: a message names the setting and its value."""

import math


def positive(**settings: object) -> None:
    """Every setting is a finite number above zero."""
    for name, value in settings.items():
        if not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value!r} must be a positive number")


def at_least(bound: int, **settings: object) -> None:
    """Every setting is a whole number not below ``bound``."""
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < bound:
            raise ValueError(f"{name}={value!r} must be a whole number, at least {bound}")


def one_of(choices: tuple[str, ...], **settings: object) -> None:
    """Every setting is one of these words."""
    for name, value in settings.items():
        if value not in choices:
            raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def at_hand(device: str) -> str:
    """``device``, if torch has it here."""
    import torch  # the commands check settings before they load it

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"device={device!r} is not at hand: {reason}") from None
    return device
