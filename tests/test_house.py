"""The rules of the house: sizes, signatures, one meaning per name, rooms that introduce themselves.

Every rule is a function from the package's sources to its offenders, and every rule is shown a
source that breaks it, and one that just does not.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent

import pytest

import uspebm

HOUSE = Path(uspebm.__file__).parent
FILE_LINES = 300
FUNCTION_LINES = 60
ARGUMENTS = 6
DOCSTRING_LINES = 6
DEVICES = {"cpu", "cuda", "mps", "xpu"}
NEAR = {
    "detector/energy_parts.py": "what is read from a file is for scoring, on the CPU",
}
"""Where a device may be named in a call, and why."""
PROTOCOL = {"run", "main", "PAPER", "FAST", "SMOKE"}
"""What every file of an experiment may call by the same name."""

Sources = dict[str, str]
"""Path from the package's folder, and what stands in the file."""
Rule = Callable[[Sources], list[str]]


def sources() -> Sources:
    endings = {".py", ".cpp", ".hpp", ".h"}
    files = sorted(file for file in HOUSE.rglob("*") if file.suffix in endings)
    return {str(file.relative_to(HOUSE)): file.read_text() for file in files}


def long_files(house: Sources) -> list[str]:
    lengths = {path: len(text.splitlines()) for path, text in house.items()}
    return [f"{path}: {n} lines" for path, n in lengths.items() if n > FILE_LINES]


def long_functions(house: Sources) -> list[str]:
    return [
        f"{path}:{function.lineno} {function.name}: {lines} lines"
        for path, tree in trees(house)
        for function in functions(tree)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]


def long_signatures(house: Sources) -> list[str]:
    counts = [
        (f"{path}:{node.lineno} {node.name}", size)
        for path, tree in trees(house)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for size in [fields(node) if isinstance(node, ast.ClassDef) else arguments(node)]
    ]
    return [f"{where}: {size} arguments" for where, size in counts if size > ARGUMENTS]


def shared_names(house: Sources) -> list[str]:
    places = defaultdict(list)
    for path, tree in trees(house):
        for name in public_names(tree):
            if not (path.startswith("experiments/") and name in PROTOCOL):
                places[name].append(path)
    return [f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1]


def silent_rooms(house: Sources) -> list[str]:
    rooms = {path: tree for path, tree in trees(house) if path.endswith("/__init__.py")}
    return [
        f"{path}: {fault}"
        for path, tree in rooms.items()
        if (fault := what_is_missing(ast.get_docstring(tree) or ""))
    ]


def named_devices(house: Sources) -> list[str]:
    """Calls that say on which device, instead of taking it from what they are given."""
    return [
        f"{path}:{node.lineno} {ast.unparse(node)[:60]}"
        for path, tree in trees(house)
        if path not in NEAR
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and names_device(node)
    ]


def names_device(call: ast.Call) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    places = [word.value for word in call.keywords if word.arg == "device"]
    if called in ("to", "device", "Generator"):
        places += call.args
    said = [place.value for place in places if isinstance(place, ast.Constant)]
    known = {str(place).partition(":")[0] for place in said} & DEVICES
    return bool(known) or (called in DEVICES - {"cpu"} and not call.args)


def trees(house: Sources) -> Iterator[tuple[str, ast.Module]]:
    for path, text in house.items():
        if path.endswith(".py"):
            yield path, ast.parse(text, path)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Arguments of a call: ``*args`` and ``**kwargs`` are one each, ``self`` and ``cls`` none."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    many = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return len(names) - (names[:1] in (["self"], ["cls"])) + len(many)


def fields(node: ast.ClassDef) -> int:
    """Arguments of the constructor that ``@dataclass`` writes; a frozen one is a value type."""
    made = [d for d in map(ast.unparse, node.decorator_list) if re.search(r"\bdataclass\b", d)]
    if not made or "frozen=True" in made[0]:
        return 0
    annotated = [line for line in node.body if isinstance(line, ast.AnnAssign)]
    return sum(
        "ClassVar" not in ast.unparse(line.annotation) and "init=False" not in ast.unparse(line)
        for line in annotated
    )


def public_names(tree: ast.Module) -> set[str]:
    """Classes, functions and constants; a module's logger is the same thing everywhere."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not makes_logger(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = (n for target in targets for n in ast.walk(target))
            names |= {n.id for n in found if isinstance(n, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def makes_logger(node: ast.Assign | ast.AnnAssign) -> bool:
    return node.value is not None and "logging.getLogger(" in ast.unparse(node.value)


def what_is_missing(docstring: str) -> str:
    """What a room's docstring lacks; nothing where it introduces the room."""
    if not docstring:
        return "no docstring"
    if len(re.findall(r"[.!?](?=\s|$)", docstring)) < 2:
        return "fewer than two sentences"
    if len(docstring.splitlines()) > DOCSTRING_LINES:
        return f"more than {DOCSTRING_LINES} lines"
    if not re.search(r"[Mm]ay (know|be known)", docstring):
        return "does not say what it may know"
    return ""


RULES: list[Rule] = [
    *(long_files, long_functions, long_signatures, shared_names, silent_rooms),
    named_devices,
]


@pytest.mark.parametrize("rule", RULES)
def test_the_house_keeps_its_rules(rule: Rule) -> None:
    offenders = rule(sources())
    if offenders:
        pytest.fail("\n".join([rule.__name__.replace("_", " "), *offenders]), pytrace=False)


def test_the_house_is_found() -> None:
    assert {"types.py", "native/__init__.py", "native/conv_energy.cpp"} <= sources().keys()


FUNCTION = "def f():\n" + "    pass\n" * (FUNCTION_LINES - 1)
FIELDS = "".join(f"    x{k}: int\n" for k in range(ARGUMENTS + 1))
ROOM = "May know: types."
MUTANTS: list[tuple[Rule, Sources]] = [
    (long_files, {"a.py": "x = 1\n" * (FILE_LINES + 1)}),
    (long_files, {"native/a.hpp": "int x;\n" * (FILE_LINES + 1)}),
    (long_functions, {"a.py": FUNCTION + "    pass\n"}),
    (long_functions, {"a.py": "class A:\n" + indent(f"async {FUNCTION}    pass\n", " ")}),
    (long_signatures, {"a.py": "def f(a, b, c, /, d, e, *, f, g): ...\n"}),
    (long_signatures, {"a.py": "def f(a, b, c, d, e, *f, **g): ...\n"}),
    (long_signatures, {"a.py": "class A:\n    def f(self, a, b, c, d, e, f, g): ...\n"}),
    (long_signatures, {"a.py": f"@dataclass\nclass A:\n{FIELDS}"}),
    (long_signatures, {"a.py": f"@dataclass(kw_only=True)\nclass A:\n{FIELDS}"}),
    (shared_names, {"a.py": "class Look: ...\n", "b.py": "def Look(): ...\n"}),
    (shared_names, {"a.py": "FAR = 1\n", "b.py": "FAR: int = 2\n"}),
    (shared_names, {"a.py": "Row = int\n", "b.py": "Row, x = 1, 2\n"}),
    (shared_names, {"bench/a.py": "def run(): ...\n", "bench/b.py": "def run(): ...\n"}),
    (shared_names, {"experiments/a.py": "ROWS = 1\n", "experiments/b.py": "ROWS = 1\n"}),
    (named_devices, {"a.py": "x = torch.zeros(3, device='cuda')\n"}),
    (named_devices, {"a.py": "def f(x):\n    return x.to('cuda:0', torch.float32)\n"}),
    (named_devices, {"a.py": "x = module.cuda()\n"}),
    (named_devices, {"a.py": "here = torch.Generator(torch.device('cpu'))\n"}),
    (silent_rooms, {"room/__init__.py": ""}),
    (silent_rooms, {"room/__init__.py": f'"""{ROOM}"""\n'}),
    (silent_rooms, {"room/__init__.py": '"""What lives here. And more of it."""\n'}),
    (silent_rooms, {"room/__init__.py": f'"""What lives here. {ROOM}\n' + "more\n" * 7 + '"""\n'}),
]


@pytest.mark.parametrize(("rule", "mutant"), MUTANTS)
def test_what_breaks_a_rule_is_found(rule: Rule, mutant: Sources) -> None:
    assert len(rule(mutant)) == 1


@pytest.mark.parametrize("rule", RULES)
def test_what_just_keeps_the_rules_passes(rule: Rule) -> None:
    house = {
        "__init__.py": "",  # the whole house is introduced by its README
        "room/__init__.py": f'"""What lives here.\n\n{ROOM}\n"""\n',
        "long.py": "\n" * FILE_LINES,
        "function.py": FUNCTION.replace("def f", "def exactly"),
        "signature.py": "class A:\n    def f(self, a, b, /, c, *d, e, **f): ...\n",
        "value.py": f"@dataclass(frozen=True)\nclass Value:\n{FIELDS}",
        "tuple.py": f"class Tuple(NamedTuple):\n{FIELDS}",
        "log.py": "log = logging.getLogger('a')\n",
        "other_log.py": "log = logging.getLogger('a')\n_x = 1\n",
        "device.py": "def g(x, device='cpu'):\n    return x.to(device).cpu()\n"
        "_near = x.device.type == 'cpu' or not torch.cuda.is_available()\n",
        "private.py": "from value import Value\n_x = 1\n",
        "experiments/a.py": "PAPER = 1\ndef run(): ...\n",
        "experiments/b.py": "PAPER = 2\ndef run(): ...\n",
    }
    assert rule(house) == []
