"""The commands that the pages and the README show are run, on small data, in the order shown.

A page's commands find what a reader would have: files, a model, a run. Where a page asks a service
something by curl, it is started, stays up until the end of the page, and answers.
"""

import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from uspebm import Box, Gaussian, Importance, Recipe, train
from uspebm.cli.main import main
from uspebm.energies.rules import MLPRule
from uspebm.recipes import Schedule
from uspebm.report.live import LiveServer

from .fresh import COMMAND, fresh
from .pages import README, ROOT, blocks, page, page_names, shell_lines
from .serve.processes import running

NOT_RUN = {
    "torchrun": "tests/cli/test_torchrun.py",
    "uspebm bench": "tests/bench/test_report.py",
    "uspebm demo": "tests/cli/test_demo.py",
    "uspebm export": "tests/cli/test_comparing_and_exporting.py",
    "uspebm proxies": "tests/experiments/test_left_out.py",
    "uspebm reproduce": "tests/experiments/test_experiments.py",
}
"""Commands that take longer than all others together, and the tests that run them on less: here
they are only parsed (test_site.py)."""
USUAL_ADDRESS = "http://127.0.0.1:8000"


TEXTS = {"README": README} | {name: page(name) for name in page_names()}
SHOWN = {
    name: lines
    for name, text in TEXTS.items()
    if (lines := shell_lines("".join(blocks(text, "sh"))))
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that pages speak of, small."""
    place, draws = tmp_path_factory.mktemp("workshop"), np.random.default_rng(0)

    def table(rows: int, shift: float = 0.0) -> pd.DataFrame:
        numbers = draws.normal(shift, size=(rows, 3))
        ids = pd.DataFrame({"id": np.arange(rows), "w": np.where(numbers[:, 0] > 0, 2.0, 1.0)})
        return ids.join(pd.DataFrame(numbers, columns=list("abc")))

    names = ("other_normal", "other", "later", "today", "new")
    for name, frame in {n: table(60) for n in names}.items():
        frame.to_csv(place / f"{name}.csv", index=False)
    table(60).to_parquet(place / "new.parquet", index=False)
    table(320).drop(columns="w").to_csv(place / "normal.csv", index=False)
    table(20, 6.0).to_csv(place / "faults.csv", index=False)
    (place / "adbench").mkdir()
    x, y = np.concatenate([table(120), table(12, 6.0)])[:, 2:], np.repeat([0, 1], [120, 12])
    np.savez(place / "adbench" / "1_small.npz", X=x, y=y)
    for name, count in (("photos", 24), ("new-photos", 4)):
        (place / name).mkdir()
        for k, image in enumerate(draws.integers(0, 60, (count, 16, 16), dtype=np.uint8)):
            Image.fromarray(image).save(place / name / f"{k}.png")
    (place / "token").write_text("a-token-of-some-length")
    phase = Importance(Box(-1.0, 1.0, (2,)), nodes=50)
    recipe = Recipe("small", MLPRule(width=8), phase, Schedule(updates=3, batch_size=20))
    for run in ("mine", "demo"):
        train(recipe, Gaussian((0.0, 0.0), 0.3), place / "runs" / run, seed=0, show=False)
    for data, model in (("normal.csv", "model"), ("photos", "of-photos")):
        assert main(["fit", str(place / data), "--out", str(place / model)]) == 0
    return place


def one_look(server: LiveServer, **_: object) -> None:
    """Instead of serving for ever: the page is asked for, and that is all."""
    serving = Thread(target=server.handle_request)
    serving.start()
    with urlopen(server.address, timeout=60) as answer:
        assert b"<html" in answer.read()
    serving.join()


def run_line(line: str, services: ExitStack, address: list[str]) -> None:
    """Run one command; of services, leave it running."""
    words = shlex.split(line, comments=True)
    if " ".join(words[:2]) in NOT_RUN or words[0] in NOT_RUN:
        return
    if words[0] == "make":  # what it would do; to do it is what runs these tests
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[0] in {"curl", "openssl"}:
        here = line.replace(USUAL_ADDRESS, address[-1].rstrip("/"))
        answer = subprocess.run(["bash", "-c", here], capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        assert words[0] == "openssl" or '"p_value"' in answer.stdout, answer.stdout
    elif "--processes" in words:  # forked, and so from a process that has no threads yet
        ended = fresh(COMMAND, *words[1:])
        assert ended.returncode == 0, ended.stderr
    elif words[:2] == ["uspebm", "serve"]:
        service = services.enter_context(running(words[2], *words[3:]))
        address.append(service.url.replace("0.0.0.0", "127.0.0.1"))
    else:
        assert words[0] == "uspebm", line
        port = ["--port", "0"] if words[1] == "watch" else []
        assert main([*words[1:], *port]) == 0, line


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_commands_of_a_page_run(
    name: str, workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(shutil.copytree(workshop, tmp_path / "here"))
    monkeypatch.chdir(here)
    monkeypatch.setattr(LiveServer, "serve_forever", one_look)
    asks = any(line.startswith("curl") for line in SHOWN[name])
    with ExitStack() as services:
        address: list[str] = []
        for line in SHOWN[name]:
            if asks or not line.startswith("uspebm serve"):  # started where it is asked
                run_line(line, services, address)


@pytest.mark.parametrize(
    "line", ["uspebm score model gone.csv --out s.csv", "make nothing", "rm x"]
)
def test_a_command_that_fails_is_noticed(
    line: str, workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workshop)
    with ExitStack() as services, pytest.raises((AssertionError, subprocess.CalledProcessError)):
        run_line(line, services, [])


def test_what_is_not_run_here_is_shown_and_is_run_elsewhere() -> None:
    shown = [line for lines in SHOWN.values() for line in lines]
    for command, test in NOT_RUN.items():
        assert any(line.startswith(command) for line in shown), command
        assert re.search(rf'"{command.split()[-1]}"|def {command}\(', (ROOT / test).read_text()), (
            test
        )
