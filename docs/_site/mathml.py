"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no network."""

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

NAMED = re.compile(r"(?<!<msub>)(?<!<msup>)(?<!<munder>)<mi>(log|exp|max|min)</mi>(?!<mo)")
"""Functions that no bracket follows: nothing would part them from their argument."""


def formula(latex: str, display: str) -> str:
    """With its source beside it, for those who copy it."""
    drawn = convert(latex, display=display)
    drawn = NAMED.sub(r'<mi>\1</mi><mspace width="0.17em"></mspace>', drawn)
    # A sign that hardly a font has, for one that most have.
    drawn = drawn.replace("<mi>&#x029F5;</mi>", "<mo>&#x02216;</mo>")
    return f'<span class="formula" title="{escape(latex)}">{drawn}</span>'


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
