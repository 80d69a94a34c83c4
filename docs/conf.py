"""How the site is built: ``make docs``. Nothing is fetched, neither to build it nor to read it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))

import uspebm

project = "uspebm"
author = "The uspebm developers"
version = release = uspebm.__version__
html_title = f"uspebm {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",  # formulas as browsers draw them themselves
    "names",  # public names, wherever they are defined
    "record",  # RESULTS.md, LOG.md and their like as pages
]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
nitpicky = True
# Types of others, and of this package's inner rooms that no docstring points to by its whole name.
nitpick_ignore_regex = [("py:.*", r"(?!uspebm\.).*")]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
exclude_patterns = ["_site", "serve"]

html_theme = "furo"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["sort.js"]
html_copy_source = html_show_sphinx = html_show_copyright = False
