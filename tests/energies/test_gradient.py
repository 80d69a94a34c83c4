import pytest
import torch

from uspebm import Gaussian, NonFiniteError
from uspebm.energies.gradient import energy_and_gradient, energy_at, energy_gradient
from uspebm.types import Energy

X = torch.linspace(-1, 1, 10).reshape(5, 2)


def test_gradient_of_a_quadratic() -> None:
    gradient = energy_gradient(Gaussian((0.0, 0.0), 0.5), X)
    torch.testing.assert_close(gradient, 4 * X)
    assert not gradient.requires_grad


def test_inference_mode_makes_no_zeros_of_it() -> None:
    energy = Gaussian((0.0, 0.0), 0.5)
    with torch.inference_mode():
        for x in (X, X.clone()):  # made outside, and inside
            assert torch.equal(energy_gradient(energy, x), 4 * X)


def test_energies_come_with_their_gradients() -> None:
    energy = Gaussian((0.0, 0.0), 0.5)
    values, gradient = energy_and_gradient(energy, X)
    assert torch.equal(values, energy(X))
    assert torch.equal(gradient, energy_gradient(energy, X))
    assert not values.requires_grad


def test_a_constant_energy_has_no_gradient() -> None:
    assert torch.equal(energy_gradient(lambda x: torch.ones(len(x)), X), torch.zeros_like(X))


def test_an_energy_may_bring_its_own_gradient() -> None:
    class Own:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("not needed")

        def value_and_gradient(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sum(1), torch.full_like(x, 7.0)

    assert torch.equal(energy_gradient(Own(), X), torch.full_like(X, 7.0))


def test_works_where_the_caller_turned_gradients_off() -> None:
    with torch.no_grad():
        torch.testing.assert_close(energy_gradient(Gaussian((0.0, 0.0)), X), X)


@pytest.mark.parametrize("look", [energy_at, energy_gradient])
def test_an_energy_of_the_wrong_shape_is_refused(look: object) -> None:
    with pytest.raises(ValueError, match=r"shape \(5, 1\) for 5 points.*shape \(5,\)"):
        look(lambda x: x.sum(1, keepdim=True), X)  # type: ignore[operator]
    with pytest.raises(ValueError, match="returned float; it must return a tensor"):
        look(lambda x: 1.0, X)  # type: ignore[operator]
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
