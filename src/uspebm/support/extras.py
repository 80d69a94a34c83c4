"""Packages that only some work needs, imported when it begins."""

from importlib import import_module
from types import ModuleType

PACKAGES = {"PIL": "pillow"}
"""What a module's package is called where the two differ."""


class MissingExtraError(ValueError):
    """Something was asked for that needs a package which is not there."""


def need(module: str, purpose: str, extra: str) -> ModuleType:
    """``module``, or one line that says what ``purpose`` needs and how to install it.

    >>> need("no_such_package.part", "reading tables", "tables")
    Traceback (most recent call last):
    ...
    uspebm.support.extras.MissingExtraError: reading tables needs no_such_package, which is not
    installed: pip install 'uspebm[tables]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        root = module.partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == root
        # A package may be there and be broken: then installing it anew is the way, too.
        reason = (
            "is not installed" if absent else f"cannot be imported ({' '.join(str(error).split())})"
        )
        raise MissingExtraError(
            f"{purpose} needs {PACKAGES.get(root, root)}, which {reason}: "
            f"pip install 'uspebm[{extra}]'"
        ) from error
