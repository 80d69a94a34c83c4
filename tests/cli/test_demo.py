"""The demo: what it writes, and how it goes on after an interrupt."""

import json
import signal
from pathlib import Path

import pytest

from tests.fresh import COMMAND, started
from uspebm import MLP, Record, load_snapshot
from uspebm.cli.main import main
from uspebm.experiments import fig4
from uspebm.recipes.paper import MIXTURE_PS_USP, MIXTURE_SRLMC, MODES, RIGHTMOST
from uspebm.support import progress
from uspebm.training.checkpoint import checkpoints

METHODS = ("ps_usp", "srlmc")


def logged_steps(out: Path, method: str) -> list[int]:
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [row["step"] for row in rows if row["method"] == method]


def test_a_short_demo_writes_what_it_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path), "--steps", "3"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    for method in METHODS:
        assert set(results[method]) >= {"kl", "mode_mass", "ood_share", "seconds"}
        assert len(results[method]["mode_mass"]) == 6
        assert sum(results[method]["mode_mass"]) == pytest.approx(1.0)
        assert logged_steps(tmp_path, method) == [1, 2, 3]
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "KL(p‖q)" in out
    for method in METHODS:
        assert method in out
        load_snapshot(MLP(2, width=128), tmp_path / f"{method}.safetensors")
    assert main(["demo", "--out", str(tmp_path), "--steps", "2"]) == 2  # not over a finished run
    assert "holds a run with other settings" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path), "--steps", "2", "--fresh"]) == 0
    assert "smaller than the paper" in out.replace("\n", " ")


def test_an_interrupt_between_updates_saves_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Ctrl-C arrives while a line is being printed."""

    def interrupt(record: Record) -> str:
        if record.step == 2:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(Record, "summary", interrupt)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    try:
        fig4.demo(tmp_path, updates=3, seed=0)
    except KeyboardInterrupt:  # kept alive here, and with it every frame
        assert [p.name for p in checkpoints(tmp_path / "ps_usp")] == ["step-000000002.ckpt"]
    else:
        raise AssertionError("not interrupted")


def test_the_demo_starts_everything_in_the_rightmost_mode() -> None:
    assert max(MODES)[0] == RIGHTMOST.mean[0] == 1.0
    assert MIXTURE_PS_USP.proposal == MIXTURE_SRLMC.sampler.proposal == RIGHTMOST
    assert fig4.DEMO.partition.proposal == RIGHTMOST
    assert fig4.DEMO.srlmc.phase == MIXTURE_SRLMC


def interrupted_demo(out: Path, signum: signal.Signals) -> int:
    with started(COMMAND, "demo", "--out", out, "--steps", "12") as child:
        assert child.stdout.readline().startswith("ps_usp 1/12")
        child.send_signal(signum)
        ended = child.rest()
    if signum == signal.SIGINT:
        assert f"Resume with: uspebm demo --out {out} --steps 12 --seed 0\n" in ended.stdout
    return ended.returncode


def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert interrupted_demo(tmp_path, signal.SIGINT) == 130
    assert list((tmp_path / "ps_usp").glob("step-*.ckpt"))
    assert main(["demo", "--out", str(tmp_path), "--steps", "11"]) == 2
    assert "unfinished run with other settings" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path), "--steps", "12"]) == 0
    assert "resuming at update" in capsys.readouterr().out
    assert logged_steps(tmp_path, "ps_usp") == list(range(1, 13))
    assert not checkpoints(tmp_path / "ps_usp")
    assert (tmp_path / "ps_usp" / "run.json").exists()  # what a report is made of stays


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps 0 must be at least 1"),
        (["--seed", "99999999999999999999"], "must be between 0 and 4294967295"),
        (["--out", "/dev/null/x"], "/dev/null"),
        (["--out", "/dev/null"], "is a file; choose a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
