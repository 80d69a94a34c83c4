"""What the reference shows is all that is public, said in full, and seen at work.

Each rule is a function from what is documented to its offenders, and is shown one that breaks it.
"""

import ast
import inspect
import re
from doctest import DocTestParser
from importlib import import_module
from textwrap import dedent
from typing import Any, NamedTuple

import uspebm

from .pages import page, page_names

REFERENCE = "\n".join(page(name) for name in page_names() if name.startswith("reference/"))
SHOWN_BY = {
    "uspebm.Energy": "uspebm.types",  # a name for callables has no docstring
    "uspebm.CheckpointError": "uspebm.load_snapshot",
    "uspebm.train": "uspebm.Recipe",
    "uspebm.resume": "uspebm.checkpointed",
    "uspebm.save": "uspebm.checkpointed",
}
"""Names whose doctest stands in the docstring of another: they are nothing by themselves."""


class Documented(NamedTuple):
    """Something that the reference shows."""

    thing: Any
    said: str
    """Its docstring, with those of what it is made of."""
    shown: str
    """Where its doctest is."""


def documented() -> dict[str, Documented]:
    names = re.findall(r"^\.\. auto(?!module)\w+:: (\S+)$", REFERENCE, re.MULTILINE)
    return {name: Documented(named(name), said(named(name)), shown(name)) for name in names}


def named(name: str) -> Any:
    room, _, last = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(import_module(room), last)


def shown(name: str) -> str:
    return inspect.getdoc(named(SHOWN_BY.get(name, name))) or ""


def said(thing: Any) -> str:
    """A class's docstring, its ancestors', and those of its attributes; a function's own."""
    if not inspect.isclass(thing):
        return thing.__doc__ or ""
    own = [c for c in thing.__mro__ if c.__module__.startswith("uspebm")]
    return "\n".join([*(c.__doc__ or "" for c in own), *map(attributes, own)])


def attributes(kind: type) -> str:
    """Fields that a string follows, as ``name: string``."""
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    pairs = zip(tree.body, tree.body[1:], strict=False)
    return "\n".join(
        f"{ast.unparse(field.target)}: {ast.unparse(text)}"
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    )


def never_at_work(found: dict[str, Documented]) -> list[str]:
    """Without a doctest that has a result."""
    return [
        name
        for name, one in found.items()
        if not any(example.want for example in DocTestParser().get_examples(one.shown))
    ]


def silent_on_arguments(found: dict[str, Documented]) -> list[str]:
    """Arguments that no docstring names; what it shows at work counts."""
    return [
        f"{name}({argument})"
        for name, one in found.items()
        for argument in arguments(one.thing)
        if not re.search(rf"\b{argument}\b", one.said + one.shown)
    ]


def arguments(thing: Any) -> list[str]:
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    if is_error or not (inspect.isroutine(thing) or inspect.isclass(thing)):
        return []
    taken = inspect.signature(thing).parameters
    return [name for name, p in taken.items() if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]


def test_every_public_name_is_there_once() -> None:
    listed = re.findall(r"^\.\. auto[a-z]+:: uspebm\.(\w+)$", REFERENCE, re.MULTILINE)
    modules = re.findall(r"^\.\. automodule:: uspebm\.(\w+)$", REFERENCE, re.MULTILINE)
    assert sorted({*listed} - {*modules}) == sorted(uspebm.__all__)
    assert sorted([*uspebm.__all__, *modules]) == sorted(listed)


def test_everything_is_seen_at_work() -> None:
    found = documented()
    assert len(found) > 60
    assert never_at_work(found) == []
    assert found.keys() >= SHOWN_BY.keys()
    for name in SHOWN_BY:
        lines = "".join(e.source + e.want for e in DocTestParser().get_examples(found[name].shown))
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", lines)


def test_every_argument_is_named() -> None:
    assert silent_on_arguments(documented()) == []


def test_what_breaks_a_rule_is_found() -> None:
    """The mutants: no doctest; one that has no result; an argument that nothing names."""

    def half(x: float, cut: int = 2) -> float:
        """A half of ``x``."""
        return x / cut

    for doctest, at_work, named in (
        ("", False, False),
        (">>> y = half(1, cut=2)\n", False, True),
        (">>> half(1)\n0.5\n", True, False),
        (">>> half(1, cut=2)\n0.5\n", True, True),
    ):
        found = {"half": Documented(half, said(half), doctest)}
        assert never_at_work(found) == ([] if at_work else ["half"])
        assert silent_on_arguments(found) == ([] if named else ["half(cut)"])
