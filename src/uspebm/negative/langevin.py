r"""Langevin chains as negatives.

.. math:: x \gets x - \tfrac{\alpha}{2} \nabla E(x) + \sqrt{\beta}\, z, \qquad z \sim N(0, I)

With :math:`\alpha = \beta` (``noise_scale`` left out) this is Langevin Monte Carlo, whose limit
is q up to an error of the order of the step size. Decoupled, the limit is :math:`q^\rho`,
:math:`\rho = \alpha / \beta` (Kim & Ye, Prop. 2): sharper than q where α > β. Stopped after a
short run, the chain has reached neither.

References:
    Du & Mordatch (2019); Nijkamp et al. (2019); Kim & Ye (2022), section 3.1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box, check_proposal, draw
from ..energies.gradient import energy_gradient
from ..support.checks import at_least, positive
from ..support.group import current_group
from ..types import Energy, Nodes, NonFiniteError, Proposal, Workspace
from .prototype import Prototype, prototype


class LangevinInfo(NamedTuple):
    """What a run of chains says about itself."""

    rho: float
    """α / β: the chains aim at q to this power."""


@dataclass(frozen=True)
class Langevin:
    """Chains that start at ``proposal`` anew for every update.

    Arguments:
        proposal: The law q0 of the starting points.
        chains: Number of chains, and so of nodes.
        steps: Steps of each chain, T.
        step_size: α, twice the factor of the gradient.
        noise_scale: β, the variance of the noise. Left out, it equals α: the correct coupling.
        domain: Points are projected on it after every step, if given.

    >>> box = Box(-1.0, 1.0, (2,))
    >>> Langevin(box, chains=100, steps=20, step_size=0.1, noise_scale=0.01).rho
    10.0
    >>> phase, draws = Langevin(box, 2000, steps=200, step_size=0.02), torch.Generator()
    >>> nodes, *_ = phase.step(lambda x: 2 * x.square().sum(1), phase.init(draws), draws)
    >>> round(nodes.x.var().item(), 1)  # q is a Gaussian of variance 1/4; rounded up by the step
    0.3
    """

    proposal: Proposal
    chains: int
    steps: int
    step_size: float
    noise_scale: float | None = None
    domain: Box | None = None

    def __post_init__(self) -> None:
        at_least(1, chains=self.chains, steps=self.steps)
        positive(step_size=self.step_size)
        if self.noise_scale is not None:
            positive(noise_scale=self.noise_scale)

    @property
    def beta(self) -> float:
        """The variance of the noise that is really added."""
        return self.step_size if self.noise_scale is None else self.noise_scale

    @property
    def rho(self) -> float:
        """The effective inverse temperature α / β."""
        return self.step_size / self.beta

    @property
    def gradients(self) -> int:
        return self.chains * self.steps

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Prototype:
        """Chains start anew each time: the state only says of what kind their points are."""
        check_proposal(self.proposal, generator, dtype, self.domain)
        return prototype(self.start(1, generator, dtype))

    def step(
        self,
        energy: Energy,
        state: Prototype,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Prototype, LangevinInfo]:
        group = current_group()
        chains, draws = group.share(self.chains), group.own(generator)
        x = self.run(energy, self.start(chains, draws, state.like.dtype), draws)
        return Nodes(x, x.new_zeros(len(x))), state, LangevinInfo(self.rho)

    def start(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """``n`` draws from q0."""
        return draw(self.proposal, n, generator, dtype, self.domain)

    def run(self, energy: Energy, x: Tensor, generator: torch.Generator) -> Tensor:
        """The ends of ``steps``-step chains that start at ``x``."""
        sqrt_beta = math.sqrt(self.beta)
        for _ in range(self.steps):
            z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
            x = x - 0.5 * self.step_size * energy_gradient(energy, x) + sqrt_beta * z
            if self.domain is not None:
                x = self.domain.project(x)
        if not torch.isfinite(x).all():
            raise NonFiniteError(f"Langevin chains overflowed within {self.steps} steps")
        return x
