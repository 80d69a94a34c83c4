"""A page as HTML: one file that asks nobody for anything.

The chart library (plotly) is packed into the file, and unpacked by the reader's browser. What comes
from users is text to the template, which escapes it, and JSON to the script, which never makes HTML
of it; a policy in the file forbids every script but its own, and every request.
"""

import base64
import gzip
import hashlib
import json
import math
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from ..support.extras import need
from ..support.files import whole_file
from .page import Block, Chart, Dial, Page, Player

PURPOSE, EXTRA = "a report", "report"
DIGITS = 6
"""Of numbers in charts."""


def check_report_extra() -> None:
    """An error in one line where what reports need is not installed."""
    for module in ("plotly", "jinja2", "PIL"):
        need(module, PURPOSE, EXTRA)


def write_page(page: Page, path: Path) -> None:
    """Write a report, whole or not at all."""
    content = document(page).encode()
    with whole_file(path) as file:
        file.write(content)


def document(page: Page, live: bool = False) -> str:
    """The whole file; a ``live`` one asks where it came from for news."""
    data = _json(block_data(page))
    code = _web("page.js")
    # Only who wrote the page knows it: a script that came in with the text has another, or none.
    nonce = hashlib.sha256((data + page.title).encode()).hexdigest()[:24]
    return str(
        _templates()
        .get_template("page.html")
        .render(
            page=page,
            data=data,
            style=_web("page.css"),
            code=code,
            library=_library(),
            nonce=nonce,
            live=live,
        )
    )


def news(page: Page) -> dict[str, Any]:
    """What a live page is told: the HTML of its parts, and what its blocks show."""
    parts = _templates().get_template("parts.html").module
    return {
        "title": page.title,
        "header": str(parts.header(page)),
        "sections": [
            {"id": f"s{k}", "html": str(parts.section(section, k))}
            for k, section in enumerate(page.sections)
        ],
        "data": plain_numbers(block_data(page)),
    }


def block_data(page: Page) -> dict[str, Any]:
    """What the script draws, by the id of the block's element."""
    return {
        f"s{k}b{n}": data
        for k, section in enumerate(page.sections)
        for n, block in enumerate(section.blocks)
        if (data := _drawn(block)) is not None
    }


def _drawn(block: Block) -> dict[str, Any] | None:
    if isinstance(block, Chart):
        return {"kind": "chart", "figure": block.figure}
    if isinstance(block, Player):
        return {"kind": "player", **block.data}
    if isinstance(block, Dial):
        return {"kind": "dial", "figure": block.figure, "stops": block.stops, "at": block.at}
    return None


def plain_numbers(value: Any) -> Any:
    """For JSON: numbers in a few digits, and null for what is no number."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(one) for one in value]
    return value


def _json(value: Any) -> str:
    """JSON that can stand in a script's element, whatever texts it has."""
    text = json.dumps(plain_numbers(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _web(name: str) -> str:
    return (package_files("uspebm") / "report" / "web" / name).read_text("utf-8")


@cache
def _templates() -> Any:
    jinja2 = need("jinja2", PURPOSE, EXTRA)
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_web),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _library() -> str:
    """plotly.js, packed."""
    need("plotly", PURPOSE, EXTRA)
    code = (package_files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()
