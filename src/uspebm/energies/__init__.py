"""Energies: networks, laws whose log Z is known, kernels over points; and gradients of any of them.

May know: objectives, domains, types, and support.
"""

from .analytic import Gaussian, GaussianMixture
from .networks import MLP, Conv, Reconstruction

__all__ = ["MLP", "Conv", "Gaussian", "GaussianMixture", "Reconstruction"]
