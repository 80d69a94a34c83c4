"""Runs every case, and shows what came out: a table, a JSON file, a picture."""

import json
import math
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import torch
from rich.table import Table

from ..energies import MLP
from ..recipes.paper import IMAGES, PLANE
from ..support.files import whole_file
from ..support.plots import COLOURS, new_figure, save_figure
from ..support.progress import console
from ..support.randomness import generator
from . import cases, scoring
from .memory import peak_memory
from .particle_updates import image_update, plane_update, race_updates
from .timing import Timing

GROWTH = {
    "n": (1_000, 3_000, 10_000, 30_000, 100_000, 200_000),
    "active": (50, 125, 250, 500, 1000),
    "side": (64, 256, 784, 2304),
}
"""What an update's cost is measured against: n, |Λ|, and the dimension of square images."""
LABELS = {"n": "n", "active": "|Λ|", "side": "d (MLP)"}


@dataclass(frozen=True)
class Effort:
    """How long to measure. ``QUICK`` shows that everything runs, not how fast it is."""

    repeats: int = 15
    updates: int = 5
    images: tuple[int, ...] = (125, 500)
    steps: int = cases.LANGEVIN.steps
    """Of chains."""
    capacity: int = 50_000
    """Of the replay buffer."""
    sizes: tuple[int, ...] = (10_000, 25_000, 50_000)
    rounds: tuple[int, ...] = (20, 100)
    batches: tuple[int, ...] = (1, 1000)
    learned: tuple[int, ...] = (5_000, 1_000_000)
    scored: int = 100_000
    growth: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(GROWTH))


FULL = Effort()
QUICK = Effort(
    repeats=2,
    updates=1,
    images=(125,),
    steps=2,
    capacity=1_000,
    sizes=(1_000,),
    rounds=(2,),
    batches=(1,),
    learned=(100,),
    scored=200,
    growth={"n": (1_000,), "active": (50,), "side": (64,)},
)


@dataclass(frozen=True)
class Report:
    """All that was measured; what comes late is added to it. Seconds are per call."""

    machine: dict[str, str]
    compilation: float | None
    """Seconds to build the compiled code, once per machine; none where torch is used instead."""
    peak: dict[str, Timing]
    """The CNN's gradient and a large matrix product, in one race."""
    races: dict[str, dict[str, Timing]] = field(default_factory=dict)
    """Ours and its rivals, for every case."""
    sizes: dict[str, dict[int, Timing]] = field(default_factory=dict)
    """Our update for several n in one race, for every N."""
    growth: dict[str, dict[int, Timing]] = field(default_factory=dict)
    memory: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    """MiB of the points and at the peak, beside each growth."""
    ratios: dict[str, float | None] = field(default_factory=dict)


def measure_all(effort: Effort, keep: Callable[[Report], None]) -> Report:
    """Measure everything, saying what is being measured, and ``keep`` what there is as it grows."""
    report = Report(
        machine={
            "processor": _processor(),
            "threads": str(torch.get_num_threads()),
            "torch": torch.__version__,
        },
        compilation=cases.compilation_seconds(),
        peak=cases.race_peak(effort.repeats),
    )
    _say("compilation", f"{report.compilation:.1f} s" if report.compilation else "none")
    for name, timings in _races(effort):
        report.races[name] = timings
        _say(name, ", ".join(f"{who} {_words(t)}" for who, t in timings.items()))
        keep(report)
    for rounds in effort.rounds:
        problems = {str(n): image_update(n, rounds) for n in effort.sizes}
        timings = race_updates(problems, effort.updates)
        report.sizes[f"N={rounds}"] = {int(n): timing for n, timing in timings.items()}
        _say(f"ps-usp N={rounds}, by n", ", ".join(f"{n} {_words(t)}" for n, t in timings.items()))
    for kind, sizes in effort.growth.items():
        report.growth[kind] = {}
        report.memory[kind] = {}
        for size in sizes:
            _grow(report, kind, size, effort.updates)
        times = report.growth[kind].items()
        _say(f"growth with {kind}", ", ".join(f"{size} {_words(t)}" for size, t in times))
        keep(report)
    report.ratios.update(_ratios(report, effort))
    keep(report)
    return report


def _races(effort: Effort) -> Iterator[tuple[str, dict[str, Timing]]]:
    net, mlp = cases.paper_network(), MLP(2)
    x = PLANE.sample(1000, generator(0))
    for batch in effort.images:
        yield (
            f"cnn gradient {batch}",
            cases.race_gradients(net, cases.synthetic_images(batch), effort.repeats),
        )
    yield "mlp gradient 1000", cases.race_gradients(mlp, x, effort.repeats)
    repeats = max(2, effort.repeats // 2)
    starts = {str(n): (net, cases.synthetic_images(n)) for n in effort.images}
    for name, (module, start) in (starts | {"mlp 1000": (mlp, x)}).items():
        yield (
            f"langevin {name} x {effort.steps}",
            cases.race_chains(module, start, effort.steps, repeats),
        )
    yield "srlmc update", cases.race_replay(effort.capacity, effort.steps, repeats)
    yield from scoring.latencies(repeats, effort.batches)
    yield from scoring.tables(repeats, effort.learned, effort.scored)
    yield "ps-usp 2-D", race_updates({"ours": plane_update()}, effort.updates, rival=True)
    for rounds in effort.rounds:
        for n in effort.sizes:
            problem = {"ours": image_update(n, rounds)}
            # Many rounds of the straightforward one take a minute each: fewer of them will do.
            repeats = min(3, effort.updates) if rounds > 20 else effort.updates
            yield f"ps-usp n={n} N={rounds}", race_updates(problem, repeats, rival=True)


def _grow(report: Report, kind: str, size: int, repeats: int) -> None:
    """Time and memory of an update at N = 20 where one of its sizes is ``size``."""
    size_of = {kind: math.isqrt(size) if kind == "side" else size}
    report.growth[kind][size] = race_updates({"ours": image_update(**size_of)}, repeats)["ours"]
    if sys.platform == "linux":
        with suppress(OSError, CalledProcessError):  # not every container lets one look
            report.memory[kind][size] = peak_memory(**size_of)


def _ratios(report: Report, effort: Effort) -> dict[str, float | None]:
    """The figures that the project promises, each inside one race."""
    races = report.races
    few, many = effort.rounds[0], effort.rounds[-1]
    small, large = effort.sizes[0], effort.sizes[-1]
    flop = 125 * 2 * cases.multiplications(cases.paper_network(), IMAGES.shape)
    rates = flop / report.peak["cnn"].median, 2 * cases.PRODUCT**3 / report.peak["product"].median
    at_many, at_few = report.sizes[f"N={many}"], report.sizes[f"N={few}"]
    return {
        "cnn_gradient_vs_plain": _ratio(races["cnn gradient 125"], "plain"),
        "cnn_share_of_peak": rates[0] / rates[1],
        "langevin_vs_torchebm": _ratio(races[f"langevin 125 x {effort.steps}"], "torchebm"),
        "srlmc_vs_straightforward": _ratio(races["srlmc update"], "straightforward"),
        # Named after the sizes of a full run; a quick one only shows that they are there.
        "ps_usp_50k_vs_straightforward": _ratio(
            races[f"ps-usp n={large} N={many}"], "straightforward"
        ),
        "ps_usp_50k_vs_straightforward_few_rounds": _ratio(
            races[f"ps-usp n={large} N={few}"], "straightforward"
        ),
        "ps_usp_50k_vs_10k": at_many[large].median / at_many[small].median,
        "ps_usp_50k_vs_10k_few_rounds": at_few[large].median / at_few[small].median,
        "ps_usp_2d_vs_straightforward": _ratio(races["ps-usp 2-D"], "straightforward"),
    }


def _ratio(timings: Mapping[str, Timing], rival: str) -> float | None:
    """How many times faster ours is; None where the rival is not installed."""
    return timings[rival].median / timings["ours"].median if rival in timings else None


def report_table(report: Report) -> Table:
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
    for name, times in report.sizes.items():
        for n, timing in times.items():
            result.add_row(f"ps-usp {name}, n={n}, in turns", _seconds(timing), "", "")
    for kind, times in report.growth.items():
        for size, timing in times.items():
            memory = report.memory[kind].get(size)
            words = f"{memory['peak']:.0f} MiB, points {memory['points']:.0f}" if memory else ""
            result.add_row(f"{LABELS[kind]} = {size}", _seconds(timing), words, "")
    return result


def save_report(report: Report, path: Path) -> None:
    """Everything, as JSON."""
    content: dict[str, Any] = asdict(report)
    with whole_file(path) as file:
        file.write(json.dumps(content, indent=2).encode())


def draw_report(report: Report, stem: Path) -> None:
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
    for kind, times in report.growth.items():
        sizes = list(times)
        middle = [t.median for t in times.values()]
        spread = [
            [t.median - t.low for t in times.values()],
            [t.high - t.median for t in times.values()],
        ]
        line = panels[1].errorbar(sizes, middle, yerr=spread, marker="o", label=LABELS[kind])
        memory = report.memory[kind]
        colour = line.lines[0].get_color()
        panels[2].plot(list(memory), [m["peak"] for m in memory.values()], "o-", color=colour,
                       label=LABELS[kind])  # fmt: skip
        panels[2].plot(list(memory), [m["points"] for m in memory.values()], ":", color=colour)
    panels[1].set_title("seconds per update (N = 20)", fontsize=9)
    panels[2].set_title("MiB of an update (dotted: the points)", fontsize=9)
    for panel in panels[1:]:
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("n, |Λ| or d")
        panel.legend(loc="upper right", fontsize=7)
    for panel in panels:
        panel.tick_params(labelsize=6, which="both")
    save_figure(figure, stem)


def _say(what: str, words: str) -> None:
    console.print(f"  {what}: {words}")


def _words(timing: Timing) -> str:
    return f"{timing.median * 1e3:.1f} ms"


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
