"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no network."""

from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def formula(latex: str, display: str) -> str:
    """With its source beside it, for those who copy it."""
    return f'<span class="formula" title="{escape(latex)}">{convert(latex, display=display)}</span>'


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(formula(node.astext(), "inline"))
    raise nodes.SkipNode


def displayed(translator: Any, node: nodes.math_block) -> None:
    drawn = formula(node.astext(), "block")
    translator.body.append(f'<div class="displayed-formula">{drawn}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True}
