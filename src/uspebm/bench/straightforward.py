"""What one would write first: autograd for every point, every distance in every round.

The benchmark's yardstick, and an oracle for tests: the same moves as the library's but that
ascents are not cut at the spacing, and without any of its short cuts.
"""

import copy

import torch
from torch import Tensor, nn

from ..negative import Langevin, PersistentUSP
from ..types import Energy


def plain_copy(module: nn.Module) -> nn.Module:
    """The network as PyTorch stores it by default, channels first."""
    copied: nn.Module = copy.deepcopy(module).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return copied


def gradient(energy: Energy, x: Tensor) -> Tensor:
    """Plain autograd."""
    x = x.detach().requires_grad_()
    (result,) = torch.autograd.grad(energy(x).sum(), x)
    return result


def langevin(energy: Energy, x: Tensor, phase: Langevin, generator: torch.Generator) -> Tensor:
    """The ends of the chains of ``phase`` that start at ``x``."""
    for _ in range(phase.steps):
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        x = x - 0.5 * phase.step_size * gradient(energy, x) + phase.beta**0.5 * noise
        if phase.domain is not None:
            x = phase.domain.project(x)
    return x


def replay_chains(
    energy: Energy, buffer: Tensor, phase: Langevin, generator: torch.Generator
) -> Tensor:
    """Chains that start at buffered samples, a twentieth at the proposal, and are written back."""
    slots = torch.randperm(len(buffer), generator=generator)[: phase.chains]
    start = buffer[slots]
    fresh = torch.rand(phase.chains, generator=generator) < 0.05
    start[fresh] = phase.proposal.sample(int(fresh.sum()), generator, buffer.dtype)
    buffer[slots] = x = langevin(energy, start, phase, generator)
    return x


def ps_usp(
    energy: Energy, points: Tensor, phase: PersistentUSP, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """One merged PS-USP update of ``points`` in place: nodes and log-weights."""
    order = torch.randperm(len(points), generator=generator)
    active = order[: phase.active]
    u = points[active]
    flat = points.flatten(1)
    for _ in range(phase.rounds):
        v = u.flatten(1)
        flat[active] = v
        distance = torch.cdist(v, flat)
        distance[torch.arange(len(v)), active] = torch.inf
        violation = distance < phase.spacing
        weight = torch.where(violation, 1 / distance, 0.0)
        weight[:, active] *= 2
        direction = v * weight.sum(1, keepdim=True) - weight @ flat
        needed = phase.spacing * 1.01 - distance.min(1).values
        length = needed.clamp_max(phase.longest_repulsion) / direction.norm(dim=1)
        repelled = phase.domain.project(u + (direction * length.unsqueeze(1)).view_as(u))
        ascent = phase.ascent_size * gradient(energy, u)
        ascended = phase.domain.project(u - ascent)
        violates = violation.any(1).view(-1, *[1] * (u.dim() - 1))
        u = torch.where(violates, repelled, ascended)
    flat[active] = u.flatten(1)
    nodes = points[order[: phase.nodes]]
    with torch.no_grad():
        return nodes, -energy(nodes)
