"""Snapshots scored, one of them chosen as the paper does, and kept for the next time."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uspebm import Conv, save_snapshot
from uspebm.experiments import choice
from uspebm.experiments.image_problem import FASHION_MNIST
from uspebm.recipes.snapshots import WEIGHT_KINDS


def images(n: int, level: float) -> Tensor:
    draws = torch.Generator().manual_seed(int(10 * level))
    return (level + 0.3 * torch.randn(n, 1, 28, 28, generator=draws)).clamp(-1, 1)


def test_the_best_by_the_first_halves_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ood = {name: lambda: images(40, 0.8) for name in FASHION_MNIST.ood}
    small = replace(FASHION_MNIST, test=lambda: images(40, -0.5), ood=ood)
    monkeypatch.setattr(choice, "FASHION_MNIST", small)
    snapshots = tmp_path / "table1" / "runs" / "PS-USP-0" / "snapshots"
    torch.manual_seed(0)
    for update, sign in ((60, 1.0), (120, -1.0)):
        network = Conv((1, 28, 28))
        with torch.no_grad():  # energies that rise with brightness, or fall
            for parameter in network.parameters():
                parameter.abs_()
            list(network.parameters())[-2].mul_(sign)
        for weights in WEIGHT_KINDS:
            save_snapshot(network, snapshots / f"{weights}-{update:06}.safetensors")
    with pytest.raises(ValueError, match="has no run with snapshots"):
        choice.run(tmp_path / "elsewhere" / "choice", choice.SMOKE, 1)
    out = tmp_path / "choice"
    found = {c.name: c.measured for c in choice.run(out, choice.SMOKE, 1)}
    name = "PS-USP-0, averaged: FPR95 on MNIST, "
    chosen = {n: v for n, v in found.items() if n.startswith(f"{name}chosen on OOD data")}
    assert list(chosen.values()) == [0.0]
    assert "update 60" in next(iter(chosen))
    assert found[f"{name}last (update 120)"] == 100.0
    assert (out / "choice.png").exists()
    monkeypatch.setattr(choice, "_scored", lambda *_: pytest.fail("they were kept"))
    assert {c.name: c.measured for c in choice.run(out, choice.SMOKE, 1)} == found
