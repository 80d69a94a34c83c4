"""Which page a folder makes, and where it is written."""

from collections.abc import Callable
from pathlib import Path

from ..detector.folder import REPORT
from .comparison_page import comparison_page, is_comparison
from .demo_page import demo_page, is_demo
from .evaluation_page import evaluation_page, is_evaluation
from .experiment_page import experiment_page, results_in
from .html import write_page
from .model_page import is_model, model_page
from .page import Page
from .run_files import is_run, runs_below
from .run_page import run_page, runs_page

REPORTS: tuple[tuple[Callable[[Path], object], Callable[[Path], Page]], ...] = (
    (is_model, model_page),
    (is_comparison, comparison_page),
    (is_evaluation, evaluation_page),
    (results_in, experiment_page),
    (is_demo, demo_page),
    (is_run, run_page),
    (runs_below, runs_page),
)
"""Whether a folder is of a kind, and the page of that kind; the first that fits."""


def page_of(folder: Path) -> Page:
    """The page of whatever it is that ``folder`` holds."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name that of a run, a model or results")
    for holds, make in REPORTS:
        if holds(folder):
            return make(folder)
    raise ValueError(
        f"{folder} holds nothing to report: no model, no run (run.json), no results (results.json)"
    )


def write_report(folder: Path) -> Path:
    """Write ``report.html`` into ``folder``, and say where it is."""
    place = folder / REPORT
    write_page(page_of(folder), place)
    return place
