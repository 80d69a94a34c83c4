"""Compiled lists of pairs against every distance there is."""

import pytest
import torch
from torch import Tensor

from uspebm.native import Candidates, NativePairs, can_search
from uspebm.support.randomness import generator

SPACING = 1.0


def points(n: int, d: int, purpose: str) -> Tensor:
    """Uniform on a cube in which two of them are about a spacing apart."""
    cube = torch.rand(n, d, generator=generator(0, purpose), dtype=torch.float64)
    return cube.mul_(SPACING * (6 / d) ** 0.5)


def listed(pairs: NativePairs, moving: Tensor, fixed: Tensor, limit: float) -> None:
    """List the fixed points, all but the first, within ``limit``, in two parts."""
    rows, gone = torch.arange(len(moving)), moving.new_zeros(len(moving))
    absent = torch.arange(len(fixed)) == 0
    for part in torch.arange(len(fixed)).split(len(fixed) // 2 + 1):
        squared = torch.cdist(moving, fixed[part]).square()
        first = int(part[0])
        pairs.add(Candidates(rows, squared, first, absent[part], limit**2, 1e-9), gone)


def looked(pairs: NativePairs, moving: Tensor, gone: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient, nearest and coincident of the moving points, which have ``gone`` so far."""
    none = torch.zeros(len(moving), dtype=torch.bool)
    felt = torch.zeros_like(moving), moving.new_full((len(moving),), SPACING), none
    pairs.look(moving, moving, 1e-9, (gone, gone), SPACING, felt)
    return felt


def brute_force(moving: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    offset = moving.unsqueeze(1) - fixed[1:]
    distance = offset.norm(dim=2)
    pull = torch.where(distance < SPACING, 1 / distance, 0.0)
    return (pull.unsqueeze(2) * offset).sum(1), distance.amin(1).clamp_max(SPACING)


def agrees(d: int, told: float) -> bool:
    """Whether points feel what they violate, round for round, told this share of their way."""
    moving, fixed = points(20, d, "moving"), points(101, d, "fixed")
    pairs = NativePairs(len(moving), fixed, None)
    listed(pairs, moving, fixed, limit=2.0 * SPACING)
    gone = moving.new_zeros(len(moving))
    good = True
    for k in range(5):
        gradient, nearest, coincident = looked(pairs, moving, told * gone)
        expected, distance = brute_force(moving, fixed)
        good &= torch.allclose(gradient, expected) and torch.allclose(nearest, distance)
        assert not coincident.any()
        step = torch.randn(moving.shape, generator=generator(k), dtype=moving.dtype)
        step *= 0.2 / step.norm(dim=1, keepdim=True)  # five of them stay within the lists
        moving, gone = moving + step, gone + step.norm(dim=1)
    return good


@pytest.mark.parametrize("d", [3, 8, 37])
def test_every_violation_within_the_lists_is_felt_while_points_move(d: int) -> None:
    assert agrees(d, told=1.0)
    assert not agrees(d, told=0.0)


def test_forgotten_lists_are_empty_and_coincident_points_are_said() -> None:
    fixed = points(10, 4, "fixed")
    moving = fixed[5:7].clone()
    pairs = NativePairs(len(moving), fixed, None)
    listed(pairs, moving, fixed, limit=2.0 * SPACING)
    pairs.clear(torch.tensor([0]))
    gradient, nearest, coincident = looked(pairs, moving, moving.new_zeros(2))
    assert coincident.tolist() == [False, True]
    assert nearest.tolist() == [SPACING, 0.0]
    assert not gradient[0].any()


def test_tensors_that_are_not_in_one_piece_are_refused() -> None:
    fixed = points(10, 4, "fixed")
    pairs = NativePairs(2, fixed, None)
    with pytest.raises(ValueError, match="contiguous"):
        looked(pairs, points(4, 2, "moving").mT, fixed.new_zeros(2))


def test_there_is_search_for_the_cpus_usual_numbers_only() -> None:
    cpu = torch.device("cpu")
    assert can_search(torch.float32, cpu)
    assert can_search(torch.float64, cpu)
    assert not can_search(torch.float16, cpu)
    assert not can_search(torch.float32, torch.device("cuda"))
