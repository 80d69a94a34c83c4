"""Nothing that is read can run code: no module has the means to.

Every rule is shown sources that break it, and some that just do not.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import uspebm

HOUSE = Path(uspebm.__file__).parent
MODULES = {
    *("pickle", "_pickle", "pickletools", "cPickle", "cloudpickle", "dill", "joblib"),
    *("marshal", "shelve", "yaml", "ruamel"),
}
"""Whose readers run what they read, or can be made to."""
RUNNING = {"eval", "exec", "compile", "__import__"}
READING = {"read_pickle", "to_pickle", "unpickle", "pickle_module"}


def dangers(source: str) -> list[str]:
    """What in a source can run code that was read, with its line."""
    nodes = list(ast.walk(ast.parse(source)))
    return [f"{line}: {what}" for node in nodes for line, what in _in(node)]


def _in(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        module = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
        for name in [module] if module else names:
            if name.partition(".")[0] in MODULES:
                yield node.lineno, f"imports {name}"
        if module == "torch" and "load" in names:
            yield node.lineno, "imports torch.load under a name of its own"
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in READING or (isinstance(node, ast.Name) and name in RUNNING):
            yield node.lineno, f"uses {name}"
        if isinstance(node, ast.Attribute) and name in MODULES:
            yield node.lineno, f"uses {ast.unparse(node)}"
    elif isinstance(node, ast.Call):
        yield from _in_call(node)


def _in_call(call: ast.Call) -> Iterator[tuple[int, str]]:
    called = ast.unparse(call.func)
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if called == "torch.load" and given.get("weights_only") != "True":
        yield call.lineno, "torch.load without weights_only=True"
    if given.get("allow_pickle", "False") != "False":
        yield call.lineno, f"{called} with allow_pickle={given['allow_pickle']}"
    numpys = called in ("np.load", "numpy.load") or called.endswith("read_array")
    # Others than keywords may be allow_pickle, or hold it.
    if numpys and (len(call.args) > 1 or None in given):
        yield call.lineno, f"{called} with arguments that do not tell about pickle"
    if called in ("import_module", "importlib.import_module", "need") and call.args:
        name = call.args[0]
        if isinstance(name, ast.Constant) and str(name.value).partition(".")[0] in MODULES:
            yield call.lineno, f"imports {name.value!r}"


def test_no_module_can_run_what_it_reads() -> None:
    found = [
        f"{path.relative_to(HOUSE)}:{danger}"
        for path in sorted(HOUSE.rglob("*.py"))
        for danger in dangers(path.read_text())
    ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "def f():\n    import joblib.numpy_pickle",
        "from ruamel.yaml import YAML",
        "importlib.import_module('cloudpickle')",
        "need('yaml', 'x', 'y')",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=safe)",
        "torch.load(path, **settings)",
        "from torch import load",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=trusted)",
        "numpy.load(path, None, True)",
        "np.lib.format.read_array(file, **settings)",
        "format.read_array(file, True)",
        "f(file, allow_pickle=1)",
        "eval(text)",
        "run = exec",
        "compile(text, '', 'exec')",
        "pd.read_pickle(path)",
        "torch.serialization.pickle.loads(text)",
    ],
)
def test_what_could_is_found(source: str) -> None:
    assert len(dangers(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "torch.load(path, map_location='cpu', weights_only=True)",
        "module.eval()",
        "re.compile('x')",
        "np.load(path)",
        "np.load(path, allow_pickle=False)",
        "np.save(file, x, allow_pickle=False)",
        "safetensors.torch.load(content)",
        "json.loads(text)",
        "from .pickle import jar",
        "need('pyarrow', 'reading', 'tables')",
    ],
)
def test_what_could_not_passes(source: str) -> None:
    assert dangers(source) == []
