"""The site that `make docs` builds: the Markdown of the repository as it stands, and a reference made from the code.

The pages are the files themselves, so links between them are the same on the site and in the repository.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_line import document_command_line
from sphinx.application import Sphinx

from placewright.version import VERSION

HERE = Path(__file__).parent

project = "placewright"
author = copyright = "The placewright developers"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "benchmarks/**.md"]
exclude_patterns = [".*", "build", "cpp", "out", "src", "tests", "docs/site/navigation.md"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

default_role = "py:obj"  # `plan` in a docstring leads to plan
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = True

html_theme = "furo"
html_title = "placewright"
html_show_copyright = html_show_sourcelink = html_copy_source = False
html_additional_pages = {"index": "to_first_page.html"}
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "none"  # of blocks that name no language
smartquotes = False  # options begin with two hyphens

#: Pages that stand below another one.
BELOW = {"docs/notes/README": "*", "benchmarks/results/README": "**"}


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_what_is_generated)
    app.connect("autodoc-process-docstring", part_attributes, priority=400)  # before napoleon reads the docstring


def add_what_is_generated(app: Sphinx, docname: str, source: list[str]) -> None:
    """Tables of contents, which a README cannot hold, and what the command line says of its options."""
    if docname == root_doc:
        source[0] += (HERE / "navigation.md").read_text()
    if docname in BELOW:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n{BELOW[docname]}\n```\n"
    if docname == "docs/site/commands":
        source[0] += document_command_line()


def part_attributes(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Attributes that share a description each get it: "a, b" is one name to napoleon."""
    if "Attributes" not in lines:
        return
    begin = lines.index("Attributes") + 2
    parted = lines[:begin]
    while begin < len(lines):
        end = next((i for i in range(begin + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
        for word in lines[begin].split(", ") if end > begin + 1 else [lines[begin]]:
            parted += [word, *lines[begin + 1 : end]]
        begin = end
    lines[:] = parted
