import pytest
import torch

from uspebm import Gaussian, NonFiniteError
from uspebm.gradient import energy_at, energy_gradient
from uspebm.types import Energy

X = torch.linspace(-1, 1, 10).reshape(5, 2)


def test_gradient_of_a_quadratic() -> None:
    gradient = energy_gradient(Gaussian((0.0, 0.0), 0.5), X)
    torch.testing.assert_close(gradient, 4 * X)
    assert not gradient.requires_grad


def test_works_where_the_caller_turned_gradients_off() -> None:
    with torch.no_grad():
        torch.testing.assert_close(energy_gradient(Gaussian((0.0, 0.0)), X), X)


@pytest.mark.parametrize("look", [energy_at, energy_gradient])
def test_an_energy_of_the_wrong_shape_is_refused(look: object) -> None:
    with pytest.raises(ValueError, match=r"shape \(5, 1\) for 5 points.*shape \(5,\)"):
        look(lambda x: x.sum(1, keepdim=True), X)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"returned shape \(\)"):
        look(lambda x: x.sum(), X)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (lambda x: x[:, 0].log(), "3 of 5 energies are not finite"),
        (lambda x: (x[:, 0] - X[0, 0]).sqrt(), "1 of 5 gradients of the energy are not finite"),
    ],
)
def test_numbers_that_are_none_are_refused(energy: Energy, message: str) -> None:
    with pytest.raises(NonFiniteError, match=message):
        energy_gradient(energy, X)
