"""The documentation: `sphinx-build -W -n --keep-going -b html docs build/site`. It needs no network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

from symgrad.core.version import VERSION  # noqa: E402

project = "symgrad"
author = copyright = "The symgrad developers"
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",  # numpydoc's sections
    "docstrings",  # names in docstrings, as links
    "links",  # what the pages link to is there
    "outputs",  # what a program prints looks different from the program
    "coverage",  # what becomes of every function of NumPy and SciPy
    "supported",  # the list of NumPy's and SciPy's functions, from the operator table
]

html_theme = "furo"
html_title = f"symgrad {VERSION}"
html_static_path = ["static"]
html_css_files = ["symgrad.css"]
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
smartquotes = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # the anchors that GitHub gives to headings

autodoc_typehints = "none"  # docstrings say types, in words
autodoc_member_order = "bysource"
napoleon_use_param = False  # "array" and "tree of arrays" are no names of classes
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
nitpick_ignore_regex = [("py:class", r"\w+(Error|Warning)|Exception|tuple|object|builtins\..*")]  # Python's own
