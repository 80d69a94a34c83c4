import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from uspebm import MLP, Record, load_snapshot, progress
from uspebm.appendix import MIXTURE_SRLMC, MODES, RIGHTMOST
from uspebm.checkpoint import checkpoints
from uspebm.cli import main
from uspebm.experiments import demo, training
from uspebm.runlog import rows


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "demo" in capsys.readouterr().out


def test_a_short_demo_writes_what_it_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path), "--steps", "3"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    for method in ("ps_usp", "srlmc"):
        assert set(results[method]) >= {"kl", "mode_mass", "ood_share", "seconds"}
        assert len(results[method]["mode_mass"]) == 6
        assert sum(results[method]["mode_mass"]) == pytest.approx(1.0)
        steps = [r["step"] for r in rows(tmp_path / "metrics.jsonl") if r["method"] == method]
        assert steps == [1, 2, 3]
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "KL(p‖q)" in out
    for method in demo.METHODS:
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

    monkeypatch.setattr(training, "figures", interrupt)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    try:
        demo.run(tmp_path, demo.Config(steps=3))
    except KeyboardInterrupt:  # kept alive here, and with it every frame
        assert [p.name for p in checkpoints(tmp_path / "ps_usp")] == ["step-000000002.ckpt"]
    else:
        raise AssertionError("not interrupted")


def interrupted_demo(out: Path, signum: signal.Signals) -> int:
    command = [sys.executable, "-m", "uspebm", "demo", "--out", str(out), "--steps", "40"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("ps_usp 1/40")
        child.send_signal(signum)
        rest = child.stdout.read()
    if signum == signal.SIGINT:
        assert f"Resume with: uspebm demo --out {out}" in rest.replace("\n", "")
    return child.returncode


def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert interrupted_demo(tmp_path, signal.SIGINT) == 130
    assert list((tmp_path / "ps_usp").glob("step-*.ckpt"))
    assert main(["demo", "--out", str(tmp_path), "--steps", "20"]) == 2
    assert "unfinished run with other settings" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path), "--steps", "40"]) == 0
    assert "resuming at update" in capsys.readouterr().out
    steps = [r["step"] for r in rows(tmp_path / "metrics.jsonl") if r["method"] == "ps_usp"]
    assert steps == list(range(1, 41))
    assert not (tmp_path / "ps_usp").exists()


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


def test_the_demo_starts_everything_in_the_rightmost_mode() -> None:
    assert max(MODES)[0] == RIGHTMOST.mean[0] == 1.0
    assert demo.PS_USP.proposal == MIXTURE_SRLMC.sampler.proposal == RIGHTMOST


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "fig4"], ["bench", "--quick"]])
def test_a_file_for_a_folder_is_refused_before_any_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "afile"
    path.touch()
    assert main([*command, "--out", str(path)]) == 2
    assert capsys.readouterr().err == f"uspebm: --out {path} is a file; choose a folder\n"


def test_proxies_look_at_the_model_before_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("USPEBM_DATA", str(tmp_path))
    assert main(["proxies", str(tmp_path / "missing.safetensors")]) == 2
    assert "missing.safetensors cannot be read" in capsys.readouterr().err


def test_waiting_threads_do_not_spin_for_long_unless_told_to() -> None:
    code = "import os, uspebm; print(os.environ['GOMP_SPINCOUNT'])"
    for own, expected in (({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"} | own
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected
