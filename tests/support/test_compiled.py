"""Building compiled code: once, anew where its text has changed, and saying what went wrong."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from uspebm.support.compiled import BuildError, library, library_if_any


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache on disk; nothing is kept in memory before or after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library.cache_clear()
    yield tmp_path / "cache"
    library.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A function that returns what its header and the command line say."""
    (tmp_path / "addend.hpp").write_text("constexpr int addend = 40;\n")
    path = tmp_path / "answer.cpp"
    path.write_text('#include "addend.hpp"\nextern "C" int answer() { return addend + OTHER; }\n')
    return path


def answer(source: Path, other: int = 2) -> int:
    """The answer as another process would get it."""
    library.cache_clear()
    return int(library(source, OTHER=other).answer())


def test_it_is_compiled_once(cache: Path, source: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="uspebm"):
        assert [answer(source), answer(source)] == [42, 42]
    assert len(list(cache.rglob("*.so"))) == 1
    assert [r.getMessage()[:22] for r in caplog.records] == ["compiled answer.cpp in"]


@pytest.mark.usefixtures("cache")
def test_a_changed_constant_source_or_header_is_compiled_anew(source: Path) -> None:
    assert answer(source) == 42
    assert answer(source, other=3) == 43
    source.write_text(source.read_text().replace("+", "-"))
    assert answer(source) == 38
    source.with_name("addend.hpp").write_text("constexpr int addend = 10;\n")
    assert answer(source) == 8


@pytest.mark.usefixtures("cache")
def test_a_missing_compiler_is_said(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source.parent))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError, match=r"no C\+\+ compiler"):
        library(source, OTHER=2)


def test_a_refusing_compiler_is_said(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(BuildError, match="failed with code 1"):
        library(source, OTHER=2)
    assert not list(cache.rglob("*.so"))


def test_what_does_not_compile_is_said_in_the_compilers_words(cache: Path, source: Path) -> None:
    with pytest.raises(BuildError, match=r"failed with code 1: .*error.*OTHER"):
        library(source)
    assert not list(cache.rglob("*.*"))


def test_no_place_for_it_is_said(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    library.cache_clear()
    with pytest.raises(BuildError, match="no place for compiled code: Could not determine home"):
        library(source, OTHER=2)


def test_a_cache_that_may_not_be_looked_into_is_said(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = os.stat

    def forbidden(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(str(cache)):
            raise PermissionError(13, "Permission denied", str(path))
        return seen(path, *rest, **more)

    monkeypatch.setattr(os, "stat", forbidden)
    with pytest.raises(BuildError, match="Permission denied"):
        library(source, OTHER=2)


def test_where_torch_can_do_it_no_compiler_is_no_error(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    library.cache_clear()
    with caplog.at_level("INFO", logger="uspebm"):
        assert [library_if_any(source), library_if_any(source)] == [None, None]
    assert [r.getMessage()[:32] for r in caplog.records] == ["torch does the work of answer.cp"]
