"""The table of OOD detection: what its cells say, and what must not vanish from it."""

from uspebm.evaluation.metrics import Detection
from uspebm.experiments import ood_table
from uspebm.experiments.image_problem import FASHION_MNIST, MNIST
from uspebm.experiments.ood_table import OODTable


def test_a_cell_is_the_mean_over_seeds_in_per_cent() -> None:
    found = [Detection(0.01, 0.9, 0.9, 0.9), Detection(0.03, 0.9, 0.9, 0.9)]
    assert ood_table._cell(found, "fpr95") == "2.00 ± 1.41"
    assert ood_table._cell(found[:1], "fpr95") == "1.00"


def test_a_method_that_always_diverges_does_not_vanish() -> None:
    table = OODTable(FASHION_MNIST, {}, {"SRLMC": [0, 1]}, 10)
    text = table.markdown()
    lost = "| SRLMC | all diverged | – | – | – | – | – |"
    assert text.count(lost) == len(ood_table.FIGURE_TITLES)
    assert table.terminal().row_count == 3  # and two of the paper


def test_the_papers_figures_stand_where_it_has_some() -> None:
    row = {name: [Detection(0.01, 0.9, 0.8, 0.7)] for name in MNIST.ood}
    text = OODTable(MNIST, {"ours": row}, {}, 10).markdown()
    assert "paper" not in text
    assert "test images of MNIST" in text
    assert "| method | seeds | Fashion-MNIST | KMNIST |" in text
    assert text.count("| ours | 1 | ") == 4
    text = OODTable(FASHION_MNIST, {}, {}, 10).markdown()
    assert text.count("| PS-USP (paper) | 3 |") == 3  # it has no AUROC


def test_none_of_ten_thousand_is_not_written_as_zero() -> None:
    none, one = Detection(0.0, 1.0, 1.0, 1.0), Detection(0.0001, 1.0, 1.0, 1.0)
    row = {name: [none, none] for name in MNIST.ood} | {"KMNIST": [none, one]}
    text = OODTable(MNIST, {"ours": row}, {}, 10_000).markdown()
    assert "| ours | 2 | < 0.03 | 0.01 ± 0.01 | < 0.03 | < 0.03 | < 0.03 |" in text


def test_bits_per_dimension_are_told_of_what_has_some() -> None:
    assert "Bits per dimension" not in OODTable(MNIST, {}, {}, 10).markdown()
    text = OODTable(MNIST, {}, {}, 10, {"one": [7.9], "three": [7.8, 7.9, 8.0]}).markdown()
    assert "| one | 7.900 |\n| three | 7.900 ± 0.100 |\n" in text
