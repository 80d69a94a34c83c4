"""The shape that an energy takes, checked before it broadcasts."""

from torch import Tensor


def expect_shape(x: Tensor, event_shape: tuple[int, ...], name: str) -> None:
    """Refuse points of another shape, by the ``name`` of the energy."""
    if x.shape[1:] != event_shape:
        raise ValueError(
            f"{name} takes points of shape (N, {', '.join(map(str, event_shape))}), "
            f"got {tuple(x.shape)}"
        )
