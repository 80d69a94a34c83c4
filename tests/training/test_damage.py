"""A bit that changed on disk is noticed: nothing damaged is resumed or read."""

import copy
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.phases import BOX, PHASES
from uspebm import MLP, TrainState, checkpointed, fit, load_snapshot, resume, save, save_snapshot
from uspebm.support.randomness import generator
from uspebm.training.checkpoint import CheckpointError, checkpoints, load_checkpoint
from uspebm.training.run_log import log_rows, logged, rewind, whole_rows, write_rows
from uspebm.training.sealed import DamagedError, sealing, unseal

PHASE = PHASES["ps-usp"]
DATA = BOX.sample(40, generator(0, "data"))
FLIPS = 150


def start(module: nn.Module | None = None) -> TrainState:
    torch.manual_seed(0)
    net = module or MLP(2, width=8)
    return TrainState.start(net, PHASE, torch.optim.Adam(net.parameters(), 1e-2))


def trained(steps: int) -> TrainState:
    state = start()
    for _ in fit(state, PHASE, DATA, batch_size=10, steps=steps):
        pass
    return state


def flipped(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def assert_all_noticed(path: Path, read: Callable[[], Any]) -> None:
    content, chance = path.read_bytes(), random.Random(0)
    read()
    for _ in range(FLIPS):
        path.write_bytes(flipped(content, chance))
        with pytest.raises(CheckpointError):
            read()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read()
    path.write_bytes(content + b"\0")
    with pytest.raises(CheckpointError):
        read()


def test_every_flip_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = save(trained(2), tmp_path)
    assert_all_noticed(path, lambda: load_checkpoint(start(), path))


def test_every_flip_of_a_snapshot_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_snapshot(trained(2).module, path, what="raw")
    assert_all_noticed(path, lambda: load_snapshot(MLP(2, width=8), path))


def test_a_snapshot_without_a_checksum_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    module = MLP(2, width=8)
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(CheckpointError, match="damaged, or not one of uspebm's"):
        load_snapshot(module, tmp_path / "w.safetensors")


def test_a_damaged_checkpoint_is_never_resumed(tmp_path: Path) -> None:
    state = start()
    for _ in fit(state, PHASE, DATA, batch_size=10, steps=1):
        save(state, tmp_path)
    for _ in fit(state, PHASE, DATA, batch_size=10, steps=2):
        save(state, tmp_path)
    newest = checkpoints(tmp_path)[-1]
    newest.write_bytes(flipped(newest.read_bytes(), random.Random(1)))
    resumed = start()
    with pytest.warns(UserWarning, match="its checksum|as such files do"):
        assert resume(resumed, tmp_path)
    assert resumed.step == 1


def test_every_flip_of_a_log_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    state = start()
    for _ in logged(fit(state, PHASE, DATA, batch_size=10, steps=6), path):
        pass
    rows = log_rows(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    content, chance = path.read_bytes(), random.Random(0)
    for _ in range(FLIPS):
        path.write_bytes(flipped(content, chance))
        with pytest.raises(CheckpointError, match="is damaged; remove"):
            log_rows(path)
    for bit in range(8):  # the end of the last line: it is not one that a kill cut short
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1 << bit]))
        with pytest.raises(CheckpointError, match="line 6 is damaged; remove"):
            log_rows(path)
    # What a kill really cuts short is only the last line, and the run goes on without it.
    path.write_bytes(content[:-30])
    rewind(path, 4)
    assert [row["step"] for row in log_rows(path)] == [1, 2, 3, 4]
    assert json.loads(path.read_text().splitlines()[0])["step"] == 1


def test_every_flip_of_rows_that_were_written_at_once_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    rows = [{"update": k, "log_likelihood": -7.5 * 10.0**-k} for k in range(8)]
    assert whole_rows(path) == []
    write_rows(path, rows)
    assert whole_rows(path) == rows
    assert_all_noticed(path, lambda: whole_rows(path))


def sealed(*parts: bytes) -> bytes:
    file = io.BytesIO()
    with sealing(file) as writer:
        for part in parts:
            writer.write(part)
    return file.getvalue()


def unsealed(content: bytes) -> bytes:
    file = io.BytesIO(content)
    unseal(file)
    return file.read()


def test_seals_are_over_all_of_it() -> None:
    whole = sealed(b"con", b"tent")
    assert whole == sealed(b"content")
    assert unsealed(whole) == b"content"
    assert unsealed(sealed()) == b""
    for damaged in (whole[1:], whole[:-1], b"", b"content"):
        with pytest.raises(DamagedError):
            unsealed(damaged)


class Fails(nn.Module):
    """An energy that runs out of something at one call."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = MLP(2, width=8)
        self.error = error
        self.calls_left = -1

    def forward(self, x: Tensor) -> Tensor:
        if self.calls_left == 0:
            raise self.error("no more")
        self.calls_left -= 1
        energy: Tensor = self.net(x)
        return energy


@pytest.mark.parametrize("error", [OSError, MemoryError])
@pytest.mark.parametrize("calls", range(8))
def test_a_failure_in_the_midst_of_an_update_saves_nothing_that_leads_elsewhere(
    error: type[Exception], calls: int, tmp_path: Path
) -> None:
    straight = start(Fails(error))
    for _ in fit(straight, PHASE, DATA, batch_size=10, steps=6):
        pass
    state = start(Fails(error))
    records = checkpointed(fit(state, PHASE, DATA, batch_size=10, steps=6), state, tmp_path, 0.0)
    with pytest.raises(error):
        for record in records:
            if record.step == 3:
                state.module.calls_left = calls  # type: ignore[assignment]
    resumed = start(Fails(error))
    assert resume(resumed, tmp_path)
    assert resumed.step == (3 if calls < 6 else 4)  # six calls make an update
    for _ in fit(resumed, PHASE, DATA, batch_size=10, steps=6):
        pass
    for a, b in zip(straight.module.parameters(), resumed.module.parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(straight.negative[0], resumed.negative[0])


def test_half_of_an_optimiser_s_step_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start()
    records = checkpointed(fit(state, PHASE, DATA, batch_size=10, steps=6), state, tmp_path, 0.0)
    next(records)
    before = copy.deepcopy(state.module.state_dict())

    def half(*_: object) -> None:
        with torch.no_grad():
            next(state.module.parameters()).add_(1.0)
        raise OSError("no more")

    monkeypatch.setattr(state.optimizer, "step", half)
    with pytest.raises(OSError, match="no more"):
        next(records)
    resumed = start()
    assert resume(resumed, tmp_path)
    for name, value in resumed.module.state_dict().items():
        assert torch.equal(value, before[name])
