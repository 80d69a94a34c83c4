"""A replay buffer around Langevin chains.

Chains start at samples kept from earlier updates; a share of them starts at the proposal
again. The ends are written back to the slots the starts came from. The buffer converges to
the data's distribution but does not make the chains mix (Kim & Ye, Fig. 3): it shares every
bias of the sampler it wraps.

References:
    Du & Mordatch (2019); Tieleman (2008) for persistent chains.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box, check_proposal
from ..support.checks import at_least
from ..support.group import current_group
from ..types import Energy, Nodes, Workspace
from .langevin import Langevin, LangevinInfo


class ReplayState(NamedTuple):
    """The buffer."""

    buffer: Tensor
    """``(capacity, *event)``."""


@dataclass(frozen=True)
class Replay:
    """Chains of ``sampler`` that start at buffered samples.

    Arguments:
        sampler: Says how chains run and where new ones start.
        capacity: Slots of the buffer, at least the number of chains.
        refresh: Probability that a chain starts at the proposal again.

    >>> chains = Langevin(Box(0.9, 1.0, (1,)), chains=500, steps=10, step_size=0.05)
    >>> phase, draws = Replay(chains, capacity=500), torch.Generator()
    >>> state, means = phase.init(draws), []
    >>> for _ in range(10):  # q is a standard Gaussian; chains go on where they were
    ...     nodes, state, _ = phase.step(lambda x: 0.5 * x.square().sum(1), state, draws)
    ...     means.append(nodes.x.mean().item())
    >>> means[0] > 0.7, means[-1] < 0.2
    (True, True)
    """

    sampler: Langevin
    capacity: int = 50_000
    refresh: float = 0.05

    def __post_init__(self) -> None:
        at_least(1, capacity=self.capacity)
        if self.capacity < self.sampler.chains:
            raise ValueError(
                f"capacity={self.capacity} must be at least chains={self.sampler.chains}: "
                "every chain starts at a slot of its own"
            )
        if not 0.0 <= self.refresh <= 1.0:
            raise ValueError(f"refresh={self.refresh} must be a probability")

    @property
    def domain(self) -> Box | None:
        return self.sampler.domain

    @property
    def gradients(self) -> int:
        return self.sampler.gradients

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> ReplayState:
        """A buffer filled from the proposal."""
        group = current_group()
        check_proposal(self.sampler.proposal, generator, dtype, self.sampler.domain)
        slots, draws = group.share(self.capacity), group.own(generator)
        return ReplayState(self.sampler.start(slots, draws, dtype))

    def step(
        self,
        energy: Energy,
        state: ReplayState,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, ReplayState, LangevinInfo]:
        group, buffer, device = current_group(), state.buffer, state.buffer.device
        chains, draws = group.share(self.sampler.chains), group.own(generator)
        slots = torch.randperm(len(buffer), generator=draws, device=device)[:chains]
        fresh = self.sampler.start(chains, draws, buffer.dtype)
        restart = torch.rand(chains, generator=draws, device=device) < self.refresh
        start = torch.where(restart.reshape(-1, *[1] * (fresh.dim() - 1)), fresh, buffer[slots])
        x = self.sampler.run(energy, start, draws)
        buffer[slots] = x
        return Nodes(x, x.new_zeros(chains)), state, LangevinInfo(self.sampler.rho)
