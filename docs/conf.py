"""The documentation site: ``make docs`` builds it into ``docs/_build``."""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generate import write_reference  # noqa: E402  it lies beside this file

project = "DYNAMITE"
author = "the authors of DYNAMITE"
release = version_of("dynamite-fl")
html_title = f"DYNAMITE {release}"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
copybutton_prompt_text = "$ "
smartquotes = False  # they would turn the two dashes of an option into one
highlight_language = "text"

# Pages at the top that the index names. All others are explanations.
NAMED = {"index", "faq", "limitations", "training", "plan", "deploy", "control", "paper", "results"}
NAMED |= {"figures", "benchmarks"}


def add_other_pages(app: Any, name: str, source: list[str]) -> None:  # noqa: ARG001
    """List the pages that no other table of contents has, so that a new page needs no entry."""
    if name == "index":
        others = sorted(page.stem for page in HERE.glob("*.md") if page.stem not in NAMED)
        source[0] = source[0].replace("% other pages", "\n".join(others))


def plain_languages(app: Any, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Take out the words after a block's language, for the tests; link to pages of the site."""
    source[0] = re.sub(r"^(```\w+) [\w. /-]+$", r"\1", source[0], flags=re.MULTILINE)
    source[0] = source[0].replace("](../benchmarks/README.md", "](benchmarks.md")


def escape_bars(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Escape the bars of norms such as |w|, which would be substitutions in a docstring."""
    for index, line in enumerate(lines):
        if ">>>" not in line and "``" not in line:
            lines[index] = line.replace("|", "\\|")


def setup(app: Any) -> None:
    """Write the generated pages, and connect what changes the others."""
    write_reference(HERE / "reference")
    app.connect("source-read", add_other_pages)
    app.connect("source-read", plain_languages)
    app.connect("autodoc-process-docstring", escape_bars)
