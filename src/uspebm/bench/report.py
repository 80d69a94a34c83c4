"""Runs every case, and shows what came out: a table, a JSON file, a picture."""

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import torch
from rich.table import Table

from ..energies import MLP
from ..files import whole_file
from ..plots import COLOURS, new_figure, save_figure
from ..progress import console
from ..randomness import generator
from . import cases
from .timing import Timing


@dataclass(frozen=True)
class Effort:
    """How long to measure. ``QUICK`` shows that everything runs, not how fast it is."""

    repeats: int = 15
    updates: int = 3
    sizes: tuple[int, ...] = (10_000, 25_000, 50_000)
    rounds: tuple[int, ...] = (20, 100)
    growth: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
    actives: tuple[int, ...] = (50, 125, 250, 500, 1000)
    sides: tuple[int, ...] = (8, 16, 28, 48)
    memory: tuple[int, ...] = (10_000, 50_000, 200_000)


FULL = Effort()
QUICK = Effort(
    repeats=2,
    updates=1,
    sizes=(1_000,),
    rounds=(2,),
    growth=(1_000,),
    actives=(50,),
    sides=(8,),
    memory=(1_000,),
)


@dataclass
class Report:
    """All that was measured. Seconds are per call."""

    machine: dict[str, str] = field(default_factory=dict)
    peak_gflops: float = 0.0
    races: dict[str, dict[str, Timing]] = field(default_factory=dict)
    growth: dict[str, dict[int, float]] = field(default_factory=dict)
    memory: dict[int, dict[str, float]] = field(default_factory=dict)
    ratios: dict[str, float | None] = field(default_factory=dict)


def run(effort: Effort) -> Report:
    """Measure everything, saying what is being measured."""
    report = Report(
        machine={
            "processor": _processor(),
            "threads": str(torch.get_num_threads()),
            "torch": torch.__version__,
        }
    )
    report.peak_gflops = cases.peak_flops(effort.repeats) / 1e9
    for name, timings in _races(effort):
        report.races[name] = timings
        console.print(f"  {name}: " + ", ".join(_words(w, t) for w, t in timings.items()))
    for name, values in _growth(effort):
        report.growth[name] = values
    if sys.platform == "linux":
        for n in effort.memory:
            with suppress(OSError, CalledProcessError):  # not every container lets one look
                report.memory[n] = cases.peak_memory(n)
    report.ratios = _ratios(report, effort)
    return report


def _races(effort: Effort) -> Iterator[tuple[str, dict[str, Timing]]]:
    net, mlp = cases.network(), MLP(2)
    x = cases.SQUARE.sample(1000, generator(0))
    for batch in (125, 500):
        yield f"cnn gradient {batch}", cases.gradients(net, cases.images(batch), effort.repeats)
    yield "mlp gradient 1000", cases.gradients(mlp, x, effort.repeats)
    repeats = max(2, effort.repeats // 2)
    for batch in (125, 500):
        yield f"langevin {batch} x 20", cases.chains(net, cases.images(batch), repeats)
    yield "langevin mlp 1000 x 20", cases.chains(mlp, x, repeats)
    yield "srlmc update", cases.replay(max(2, effort.repeats // 2))
    yield "ps-usp 2-D", cases.mixture(effort.updates)
    for rounds in effort.rounds:
        for n in effort.sizes:
            # Many rounds of the straightforward one take a minute each: fewer of them will do.
            repeats = effort.updates if rounds <= 20 else max(1, effort.updates - 1)
            yield f"ps-usp n={n} N={rounds}", cases.fashion(n, rounds, repeats)


def _growth(effort: Effort) -> Iterator[tuple[str, dict[int, float]]]:
    console.print("  growth with n, |Λ| and d ...")
    repeats = effort.updates
    yield (
        "particles",
        {n: cases.fashion(n, 20, repeats, rival=False)["ours"].median for n in effort.growth},
    )
    yield "active", {m: cases.growth_in_active(m, repeats).median for m in effort.actives}
    yield (
        "dimension",
        {side**2: cases.growth_in_dimension(side, repeats).median for side in effort.sides},
    )


def _ratios(report: Report, effort: Effort) -> dict[str, float | None]:
    """The figures that the project promises, each inside this one run."""
    races = report.races
    small, large, rounds = effort.sizes[0], effort.sizes[-1], effort.rounds[-1]
    few = effort.rounds[0]
    cnn = races["cnn gradient 125"]["ours"].median
    flop = 2 * cases.multiplications(cases.network(), cases.IMAGES.shape)
    ours_small = races[f"ps-usp n={small} N={rounds}"]["ours"].median
    ours_large = races[f"ps-usp n={large} N={rounds}"]["ours"].median
    return {
        "cnn_gradient_vs_plain": _ratio(races["cnn gradient 125"], "plain"),
        "cnn_share_of_peak": 125 * flop / cnn / (report.peak_gflops * 1e9),
        "langevin_vs_torchebm": _ratio(races["langevin 125 x 20"], "torchebm"),
        "srlmc_vs_straightforward": _ratio(races["srlmc update"], "straightforward"),
        # Named after the sizes of a full run; a quick one only shows that they are there.
        "ps_usp_50k_vs_straightforward": _ratio(
            races[f"ps-usp n={large} N={rounds}"], "straightforward"
        ),
        "ps_usp_50k_vs_10k": ours_large / ours_small,
        "ps_usp_50k_vs_10k_few_rounds": (
            races[f"ps-usp n={large} N={few}"]["ours"].median
            / races[f"ps-usp n={small} N={few}"]["ours"].median
        ),
        "ps_usp_2d_vs_straightforward": _ratio(races["ps-usp 2-D"], "straightforward"),
    }


def _ratio(timings: Mapping[str, Timing], rival: str) -> float | None:
    """How many times faster ours is; None where the rival is not installed."""
    return timings[rival].median / timings["ours"].median if rival in timings else None


def table(report: Report) -> Table:
    """For a terminal."""
    result = Table(title="uspebm bench: median seconds per call (quartiles)")
    for heading in ("case", "ours", "rival", "ratio"):
        result.add_column(heading)
    for name, timings in report.races.items():
        rivals = [key for key in timings if key != "ours"]
        result.add_row(
            name,
            _seconds(timings["ours"]),
            "\n".join(f"{key} {_seconds(timings[key])}" for key in rivals),
            "\n".join(f"{_ratio(timings, key):.2f}x" for key in rivals),
        )
    for name, rates in gradients_per_second(report).items():
        words = ", ".join(f"{who} {rate:,.0f}" for who, rate in rates.items())
        result.add_row(f"{name}, per second", words, "", "")
    for kind, times in report.growth.items():
        words = ", ".join(f"{size:,}: {seconds:.2f}" for size, seconds in times.items())
        result.add_row(f"seconds by {kind}", words, "", "")
    for n, sizes in report.memory.items():
        result.add_row(f"MiB at n={n}", f"{sizes['peak']:.0f}", f"points {sizes['points']:.0f}", "")
    return result


def save(report: Report, path: Path) -> None:
    """Everything, as JSON."""
    content: dict[str, Any] = asdict(report)
    with whole_file(path) as file:
        file.write(json.dumps(content, indent=2).encode())


def draw(report: Report, stem: Path) -> None:
    """Ratios to the rivals, and how an update's cost grows."""
    figure, panels = new_figure(columns=3, size=3.6)
    names, ratios = [], []
    for name, timings in report.races.items():
        for key in timings:
            if (ratio := _ratio(timings, key)) is not None and key != "ours":
                names.append(f"{name} vs {key}")
                ratios.append(ratio)
    places = range(len(names))
    panels[0].barh(places, ratios, color=COLOURS["ps_usp"])
    panels[0].axvline(1.0, color=COLOURS["data"], linewidth=0.8)
    panels[0].set_yticks(places, names, fontsize=5)
    panels[0].invert_yaxis()
    panels[0].set_title("times faster than the rival", fontsize=9)
    labels = {"particles": "n", "active": "|Λ|", "dimension": "d (MLP)"}
    for kind, label in labels.items():
        sizes, seconds = zip(*report.growth[kind].items(), strict=True)
        panels[1].loglog(sizes, seconds, marker="o", label=label)
    panels[1].set_title("seconds per update (N = 20)", fontsize=9)
    panels[1].set_xlabel("n, |Λ| or d")
    panels[1].legend(fontsize=7)
    counts = list(report.memory)
    panels[2].loglog(counts, [report.memory[n]["peak"] for n in counts], "o-", label="peak")
    panels[2].loglog(counts, [report.memory[n]["points"] for n in counts], "--", label="points")
    panels[2].set_title("MiB of an update, 784 dimensions", fontsize=9)
    panels[2].set_xlabel("n")
    panels[2].legend(fontsize=7)
    for panel in panels:
        panel.tick_params(labelsize=6, which="both")
    save_figure(figure, stem)


def _words(name: str, timing: Timing) -> str:
    return f"{name} {timing.median * 1e3:.1f} ms"


def gradients_per_second(report: Report) -> dict[str, dict[str, float]]:
    """The first races once more, as rates."""
    return {
        name: {who: int(name.split()[-1]) / timing.median for who, timing in timings.items()}
        for name, timings in report.races.items()
        if "gradient" in name
    }


def _seconds(timing: Timing) -> str:
    return f"{timing.median:.4f} ({timing.low:.4f}–{timing.high:.4f})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
