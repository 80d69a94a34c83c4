import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uspebm import GaussianMixture
from uspebm.cli.main import main
from uspebm.cli.reproduce import FIGURES
from uspebm.evaluation.grid_density import grid_density
from uspebm.experiments import props, two_modes
from uspebm.experiments.claims import claim
from uspebm.experiments.mixture import MIXTURE, evenness, mixture_fit
from uspebm.experiments.over_updates import course_claims
from uspebm.negative import Interpolated
from uspebm.recipes.paper import LINE, MODES, PLANE
from uspebm.support.randomness import generator


def test_everything_runs_and_reports_its_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "all", "--preset", "smoke", "--seeds", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    for figure in FIGURES:
        folder = tmp_path / "smoke" / figure
        results = json.loads((folder / "results.json").read_text())
        assert results["claims"]
        for one in results["claims"]:
            assert set(one) == {"name", "paper", "measured", "spread", "seeds", "holds"}
        for kind in ("png", "svg"):
            assert (folder / f"{figure}.{kind}").stat().st_size > 5_000
    fig4_results = json.loads((tmp_path / "smoke" / "fig4" / "results.json").read_text())
    for method in ("ps_usp", "srlmc"):
        assert set(fig4_results[method]) == {"kl", "mode_mass", "ood_share", "seconds"}
    courses = json.loads((tmp_path / "smoke" / "fig1" / "results.json").read_text())["courses"]
    for row in ("srlmc", "replay"):
        for seed in range(2):
            for weights in ("averaged", "raw"):
                assert list(courses[row][seed][weights]) == ["1", "2", "3", "4", "5"]
    assert courses["srlmc"][0]["raw"] != courses["srlmc"][0]["averaged"]
    assert (tmp_path / "smoke" / "fig1" / "fig1-updates.png").stat().st_size > 5_000
    assert "holds" in capsys.readouterr().out


def test_bad_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "props", "--seeds", "0"]) == 2
    assert "--seeds 0 must be at least 1" in capsys.readouterr().err


def test_a_claim_is_the_mean_over_seeds() -> None:
    one = claim("x", "small", [1.0, 2.0, 3.0], lambda v: v < 2.5)
    assert (one.measured, one.spread, one.seeds, one.holds) == (2.0, 1.0, 3, True)
    assert not claim("x", "small", [3.0], lambda v: v < 2.5).holds


def test_a_perfect_model_of_the_mixture_is_measured_as_one() -> None:
    _, measured = mixture_fit(MIXTURE, 0.0)
    assert measured.kl == 0.0
    assert measured.mode_mass == pytest.approx([1 / 6] * 6, abs=1e-3)
    assert measured.ood_share == 0.0
    _, wrong = mixture_fit(GaussianMixture(MODES[:5], 0.1), 0.0)
    assert wrong.kl > 1.0


def test_in_full_chains_see_interpolated_slopes_and_quadrature_does_not() -> None:
    rows = {row: two_modes.PAPER.recipe(row, one) for row, one in two_modes.PAPER.phases().items()}
    interpolated = {row for row, recipe in rows.items() if isinstance(recipe.phase, Interpolated)}
    assert interpolated == {"srlmc", "replay"}
    for row, phase in two_modes.FAST.phases().items():
        assert two_modes.FAST.recipe(row, phase).phase == phase


def test_a_lopsided_mixture_leans_by_the_ratio_of_its_masses() -> None:
    law = two_modes.LOPSIDED_MODES
    lean = two_modes.line_lean(grid_density(law, LINE, two_modes.LINE_CELLS, torch.float64))
    assert lean.tilt == pytest.approx(math.log(0.97 / 0.03), abs=1e-3)
    assert lean.ood_share == 0.0
    # Densest just outside the region of 99.9 %, 3.29 deviations from the higher mode.
    assert lean.shoulder == pytest.approx(3.29**2 / 2, rel=0.02)


def test_what_is_seen_is_the_most_and_how_often() -> None:
    lean = two_modes.LineLean(tilt=1.0, shoulder=1.4, ood_share=0.0)
    flat = lean._replace(ood_share=0.5)  # as every model is at first
    course = {60: flat, 120: lean._replace(ood_share=0.1), 180: lean, 240: lean, 300: lean}
    claims = course_claims({"srlmc": [{"averaged": course, "raw": {60: lean}}]})
    measured = {c.name: (c.measured, c.holds) for c in claims}
    what = "srlmc, {} weights: OOD above the median ID density, {}"
    assert measured[what.format("averaged", "the most in the last two thirds")] == (0.1, True)
    assert measured[what.format("averaged", "share of the looks")] == (0.25, True)
    assert measured[what.format("raw", "the most in the last two thirds")] == (0.0, False)


def test_evenness_tells_a_lattice_from_a_cloud() -> None:
    axis = torch.arange(-2.0, 2.0, 0.05)
    lattice = torch.cartesian_prod(axis, axis)
    even = evenness(lattice, 0.05)
    assert even["nearest_over_spacing"] == pytest.approx(1.0, abs=1e-3)
    assert even["covering_radius_over_spacing"] < 0.75
    cloud = evenness(PLANE.sample(len(lattice), generator(0)), 0.05)
    assert cloud["nearest_over_spacing"] < 0.7
    assert cloud["unevenness"] == pytest.approx(1.43, abs=0.05)
    assert even["unevenness"] < 0.01


def test_the_one_dimensional_measures_know_the_truth() -> None:
    samples = two_modes.TWO_MODES.sample(20_000, generator(0))
    _, exact = two_modes.line_fit(two_modes.TWO_MODES, samples)
    assert exact.kl == pytest.approx(0.0, abs=1e-6)
    assert exact.mass_left == pytest.approx(0.5, abs=1e-3)
    assert exact.samples_to_p < 0.02
    assert abs(exact.barrier) < 0.01
    assert two_modes.wasserstein(samples + 0.1) == pytest.approx(0.1, abs=0.02)


def test_chains_of_another_rho_are_told_apart() -> None:
    """Prop. 2: chains are as far from their law as samples are, and further from another's."""
    config = replace(props.SMOKE, chains=4_000, steps=600)
    allowed = 1.63 / 4_000**0.5
    assert props.chains_to_law(2.0, config, 0) < allowed
    with pytest.MonkeyPatch.context() as patch:
        law = props.chain_law
        patch.setattr(props, "chain_law", lambda rho, beta, config: law(1.0, beta, config))
        assert props.chains_to_law(2.0, config, 0) > 2 * allowed
    assert props.law_to_power(2.0, 2.0, props.BETA, config) < 0.02
    assert props.law_to_power(2.0, 1.5, props.BETA, config) > 0.03
