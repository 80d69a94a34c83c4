"""Laws of images to start from."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate


@dataclass(frozen=True)
class RandomFields:
    """Random fields of several scales and contrasts, clipped to [−1, 1].

    Smooth or rough, flat or of two values, bright or dark: a wide law of images that knows nothing
    of any data set. Constant images and white noise are its two ends.

    Arguments:
        shape: ``(channels, height, width)``.
        cells: Sides of the coarse grids that fields are drawn on; each image takes one at random.
    """

    shape: tuple[int, int, int]
    cells: tuple[int, ...] = (2, 4, 7, 14, 28)

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` images, ``(n, *shape)``."""
        channels, height, width = self.shape
        device = generator.device
        images = torch.empty(n, *self.shape, dtype=dtype, device=device)
        scale = torch.randint(len(self.cells), (n,), generator=generator, device=device)
        for k, side in enumerate(self.cells):
            chosen = scale == k
            count = int(chosen.sum())
            coarse = torch.randn(
                count, channels, side, side, generator=generator, dtype=dtype, device=device
            )
            if count:
                images[chosen] = interpolate(coarse, (height, width), mode="bicubic")
        numbers = torch.rand(n, 1, 1, 1, generator=generator, dtype=dtype, device=device)
        contrast = torch.exp(-3.0 + 5.3 * numbers)  # from nearly none to two values only
        shift = torch.randn(n, 1, 1, 1, generator=generator, dtype=dtype, device=device)
        return (contrast * images + contrast.clamp_min(1.0) * shift).clamp_(-1.0, 1.0)
