"""Names that docstrings and signatures refer to by where they are defined.

A public one leads to where it is documented, ``uspebm.Name``. One of an inner room has no page, and
stays text. One that does not exist is a warning, and so an error.
"""

from importlib import import_module
from typing import Any

import uspebm


def exists(target: str) -> bool:
    """Whether some module has it."""
    parts = target.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        try:
            for name in parts[n:]:
                found = getattr(found, name)
        except AttributeError:
            return False
        return True
    return False


def resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("uspebm."):
        return None
    name = target.rpartition(".")[2]
    if name in uspebm.__all__ and target != f"uspebm.{name}":
        return env.domains["py"].resolve_xref(
            env, node["refdoc"], app.builder, "obj", f"uspebm.{name}", node, content
        )
    return content if exists(target) else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
