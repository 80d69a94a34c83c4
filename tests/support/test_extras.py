"""What works without any of the extras, and what says in one line which one it needs.

Packages are hidden from a process of its own, as if they had never been installed.
"""

from pathlib import Path

import pytest

from tests.fresh import fresh
from uspebm.support.extras import MissingExtraError, need

EXTRAS = {
    "tables": ["pyarrow"],
    "images": ["PIL"],
    "plots": ["matplotlib"],
    "onnx": ["onnx", "onnxscript"],
    "pipelines": ["skops", "skl2onnx"],
    "pyod": ["pyod"],
    "report": ["plotly", "jinja2", "PIL"],
    "tensorboard": ["tensorboard"],
    "serve": ["fastapi", "uvicorn", "httptools", "prometheus_client"],
}
BESIDES = ["pandas", "onnxruntime"]
"""Only tests have these."""
HIDE = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

packages = sys.argv[1].split(",")
folder = Path(sys.argv[2])
found = PathFinder.find_spec

def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in packages else found(name, path, target)

PathFinder.find_spec = find_spec
assert not sys.modules.keys() & {*packages}
"""


def run_without(packages: list[str], program: str, folder: Path) -> str:
    """What ``program`` prints where ``packages`` cannot be imported."""
    done = fresh(HIDE + program, ",".join(packages), folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


WHOLE = """
import numpy as np
import uspebm

for name in uspebm.__all__:
    getattr(uspebm, name)
X = np.random.default_rng(0).normal(size=(300, 2))
detector = uspebm.EnergyDetector("tables-density", max_updates=2, random_state=0).fit(X)
uspebm.save_model(detector, folder / "model")
loaded = uspebm.load(folder / "model")
assert np.array_equal(loaded.score_samples(X), detector.score_samples(X))
print(*sorted(file.name for file in (folder / "model").iterdir()))
print("curve.png" in (folder / "model" / "README.md").read_text())
"""


def test_tables_in_memory_need_no_extra(tmp_path: Path) -> None:
    """Fitting, scoring, saving and loading; a model's card then has no picture."""
    everything = [package for packages in EXTRAS.values() for package in packages]
    files, pictured = run_without(everything + BESIDES, WHOLE, tmp_path).splitlines()
    assert files.split() == ["README.md", "model.json", "weights.safetensors"]
    assert pictured == "False"


def test_with_all_extras_there_is_a_picture(tmp_path: Path) -> None:
    """The control: the same program, with nothing hidden."""
    files, pictured = run_without(["nothing"], WHOLE, tmp_path).splitlines()
    assert "curve.png" in files.split()
    assert pictured == "True"


SAYING = """
from uspebm.support.extras import MissingExtraError

def work():
{work}

try:
    work()
except MissingExtraError as error:
    print(error)
"""
WORK = {
    "a CSV file": (
        "tables",
        "from uspebm.data.readers import open_source\n"
        "(folder / 'x.csv').write_text('a,b\\n1,2\\n')\n"
        "open_source(folder / 'x.csv').read()",
        "reading tables needs pyarrow, which is not installed: pip install 'uspebm[tables]'",
    ),
    "a Parquet file": (
        "tables",
        "from uspebm.data.readers import open_source\n"
        "(folder / 'x.parquet').write_text('PAR1')\n"
        "open_source(folder / 'x.parquet').read()",
        "reading tables needs pyarrow, which is not installed: pip install 'uspebm[tables]'",
    ),
    "a Parquet file of scores": (
        "tables",
        "from uspebm.data.writers import check_sink\ncheck_sink(folder / 'x.parquet')",
        "writing Parquet needs pyarrow, which is not installed: pip install 'uspebm[tables]'",
    ),
    "a folder of images": (
        "images",
        "from uspebm.data.readers import open_source\n"
        "(folder / 'x.png').write_bytes(b'')\n"
        "open_source(folder).read()",
        "reading images needs pillow, which is not installed: pip install 'uspebm[images]'",
    ),
    "an ONNX file": (
        "onnx",
        "from uspebm.detector.onnx_export import check_onnx\ncheck_onnx(folder / 'x.onnx')",
        "export needs onnx, which is not installed: pip install 'uspebm[onnx]'",
    ),
    "a pipeline": (
        "pipelines",
        "from uspebm.detector.pipelines import load_pipeline\nload_pipeline(folder)",
        "loading a pipeline needs skops, which is not installed: pip install 'uspebm[pipelines]'",
    ),
    "a report": (
        "report",
        "from uspebm.report.html import check_report_extra\ncheck_report_extra()",
        "a report needs plotly, which is not installed: pip install 'uspebm[report]'",
    ),
    "event files": (
        "tensorboard",
        "from uspebm.report.tensorboard import check_tensorboard_extra\ncheck_tensorboard_extra()",
        "--tensorboard needs tensorboard, which is not installed: "
        "pip install 'uspebm[tensorboard]'",
    ),
    "a service": (
        "serve",
        "from argparse import Namespace\n"
        "from uspebm.cli.serve import run_serve\n"
        "run_serve(Namespace(json=False))",
        "the service needs fastapi, which is not installed: pip install 'uspebm[serve]'",
    ),
    "a figure": (
        "plots",
        "from uspebm.support.plots import new_figure\nnew_figure(columns=1)",
        "drawing needs matplotlib, which is not installed: pip install 'uspebm[plots]'",
    ),
}


@pytest.mark.parametrize("what", WORK, ids=list(WORK))
def test_what_needs_an_extra_says_which(tmp_path: Path, what: str) -> None:
    extra, work, message = WORK[what]
    indented = "\n".join(f"    {line}" for line in work.splitlines())
    assert run_without(EXTRAS[extra], SAYING.format(work=indented), tmp_path) == f"{message}\n"


def test_scores_in_other_formats_need_no_extra(tmp_path: Path) -> None:
    program = """
import numpy as np
from uspebm.data.readers import open_source
from uspebm.data.writers import open_sink

np.save(folder / "x.npy", np.zeros((3, 2)))
rows = open_source(folder / "x.npy").read()
for ending in ("csv", "jsonl", "npy", "npz"):
    with open_sink(folder / f"scores.{ending}") as sink:
        sink.write({"score": rows[:, 0]})
"""
    run_without(EXTRAS["tables"], program, tmp_path)
    assert len(list(tmp_path.glob("scores.*"))) == 4


def test_a_broken_package_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtraError) as error:
        need("half_installed", "drawing", "plots")
    assert str(error.value) == (
        "drawing needs half_installed, which cannot be imported (No module named "
        "'no_such_library'): pip install 'uspebm[plots]'"
    )
