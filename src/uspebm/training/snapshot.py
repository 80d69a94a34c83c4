"""Weights alone, as safetensors that any reader opens, with a checksum that ours asks for."""

import hashlib
import json
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from ..support.files import whole_file
from ..support.reading import one_line
from .checkpoint import CheckpointError, same_shapes

ABOUT_SNAPSHOT = "uspebm"
"""The one entry of a snapshot's metadata: with more, their order, and so the file, would vary."""


def save_snapshot(module: nn.Module, path: Path | str, **about: str) -> None:
    """Write a module's weights to ``path`` as safetensors, with ``about`` in the file's metadata.

    >>> from tempfile import TemporaryDirectory
    >>> one, other = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> with TemporaryDirectory() as folder:
    ...     save_snapshot(one, f"{folder}/weights.safetensors")
    ...     load_snapshot(other, f"{folder}/weights.safetensors")
    >>> bool((one.weight == other.weight).all())
    True
    """
    weights = {name: value.cpu().contiguous() for name, value in module.state_dict().items()}
    said = json.dumps({**about, "checksum": _checksum(weights, about)}, sort_keys=True)
    with whole_file(Path(path)) as file:
        file.write(safetensors.torch.save(weights, metadata={ABOUT_SNAPSHOT: said}))


def load_snapshot(module: nn.Module, path: Path | str) -> None:
    """Put the weights of the snapshot ``path`` into ``module``, which must be of the same shape.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save_snapshot(nn.Linear(2, 1), f"{folder}/weights.safetensors")
    ...     load_snapshot(nn.Linear(3, 1), f"{folder}/weights.safetensors")
    Traceback (most recent call last):
    uspebm.training.checkpoint.CheckpointError: ...: weight is (1, 2) of torch.float32, but ...
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            said = json.loads((file.metadata() or {}).get(ABOUT_SNAPSHOT, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        checksum = said.pop("checksum", None)
        found = _checksum(weights, said)
    except Exception as error:  # what a damaged file leads to depends on the damage
        raise CheckpointError(f"snapshot {path} cannot be read: {one_line(error)}") from error
    if checksum != found:
        raise CheckpointError(
            f"snapshot {path} is damaged, or not one of uspebm's: its checksum is not that of its "
            "content"
        )
    same_shapes(module.state_dict(), weights, str(path))
    module.load_state_dict(weights)


def _checksum(weights: dict[str, Tensor], about: dict[str, str]) -> str:
    digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()
