"""The weights that a run keeps on the way: raw and averaged, by the update they are of."""

from pathlib import Path

from ..training import TrainState, save_snapshot

SNAPSHOTS = "snapshots"
"""Their folder, in the run's."""
WEIGHT_KINDS = ("averaged", "raw")


def keep_snapshots(state: TrainState, folder: Path) -> None:
    """Write those of ``state``, unless that was done."""
    for weights, module in (("raw", state.module), ("averaged", state.average.module)):
        path = folder / SNAPSHOTS / f"{weights}-{state.step:06}.safetensors"
        if not path.exists():
            save_snapshot(module, path, what=f"{weights} weights after update {state.step}")


def drop_snapshots(folder: Path, after: int) -> None:
    """Remove those of later updates: a run that went back leaves them aside."""
    for weights in WEIGHT_KINDS:
        for update, path in snapshots_in(folder, weights).items():
            if update > after:
                path.unlink()


def snapshots_in(folder: Path, weights: str) -> dict[int, Path]:
    """Where the ``averaged`` or the ``raw`` weights are."""
    found = sorted((folder / SNAPSHOTS).glob(f"{weights}-*.safetensors"))
    return {int(path.stem.rpartition("-")[2]): path for path in found}
