"""Data flows one way: graph, costs, problem, search, plan, show. A module imports only from what stands before it."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "placewright"

#: From first to last; modules of one row may import each other.
ROWS = (
    {"_core", "version", "support"},
    {"graph", "machine", "proposal", "guide", "decoder"},
    {"examples", "importers", "costs", "machines"},
    {"problem"},
    {"bounds"},
    {"search"},
    {"rematerialization"},
    {"methods"},
    {"plans"},
    {"verification"},
    {"execution"},
    {"analysis"},
    {"report", "export", "terminal"},
    {"api"},
    {"__init__", "cli", "__main__"},
    # The laboratory, which nothing of the product imports.
    {"lab.__init__", "lab.processes", "lab.statistics", "lab.peers"},
    {"lab.memory_levels"},
    {"lab.datasets"},
    {"lab.learning"},
    {"lab.methods"},
    {"lab.registration", "lab.bench"},
    {"lab.commands"},
)
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}


def room(parts: Sequence[str]) -> str:
    """The room of a module, by its path below `placewright`."""
    if not parts:
        return "__init__"
    return ".".join((parts[0], parts[1] if len(parts) > 1 else "__init__")) if parts[0] == "lab" else parts[0]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


PATHS = sorted(SOURCE.rglob("*.py"))
MODULES = {module_of(path) for path in PATHS} | {"placewright._core"}


@cache
def imported_modules(path: Path) -> set[str]:
    """The modules of the package that a file imports, also inside functions and for types alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {member if member in MODULES else node.module for member in members}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & MODULES


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_what_stands_before_it(path: Path) -> None:
    own = room(path.relative_to(SOURCE).with_suffix("").parts)
    rooms = {room(name.split(".")[1:]) for name in imported_modules(path)}
    later = {name for name in rooms if ROW_OF[name] > ROW_OF[own]}
    assert not later, f"{path.relative_to(SOURCE)} imports {later}, which stand after it"


#: Words with which a clause begins that has lost its noun.
LOST = {"What", "How", "Of", "Whether", "Which", "Where", "That", "As", "By", "Those", "For", "So", "Its", "In", "When"}


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples"])
def test_docstrings_begin_with_a_noun_or_a_verb(folder: str) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for path in (ROOT / folder).rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    texts = [text for node in nodes if isinstance(node, documented) and (text := ast.get_docstring(node))]
    assert texts
    assert [text.splitlines()[0] for text in texts if text.split()[0].rstrip(",.:") in LOST] == []


def test_no_files_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({module_of(path): imported_modules(path) for path in PATHS}).prepare()
    except CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


IMPORTED = """
import sys
import placewright, placewright.api, placewright.methods.table
print(*(name for name in sys.modules if name.startswith("placewright.lab")))
"""


def test_the_product_loads_nothing_of_the_laboratory() -> None:
    loaded = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


CORE = ROOT / "cpp" / "core"
CORE_ROOMS = (
    *("support", "problem", "simulate", "construct", "decode", "bounds", "improve", "coarsen"),
    *("memory_levels", "graph_network", "rematerialize", "offsets"),
)


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.?pp")), ids=lambda path: str(path.relative_to(CORE)))
def test_a_file_of_the_core_includes_only_from_its_room_and_those_before_it(path: Path) -> None:
    own = CORE_ROOMS.index(path.relative_to(CORE).parts[0])
    rooms = {name.split("/")[0] for name in re.findall(r'#include "(.+)"', path.read_text())}
    later = {room for room in rooms if CORE_ROOMS.index(room) > own}
    assert not later, f"{path.relative_to(CORE)} includes from {later}, which stand after it"


SCRIPTS = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")]


def test_what_the_core_names_of_the_package_exists() -> None:
    named = {
        name
        for path in (ROOT / "cpp").rglob("*.?pp")
        for name in re.findall(r"\bplacewright((?:\.[a-z]\w*)+)", path.read_text())
    }
    assert named
    for name in named:
        path = SOURCE.joinpath(*name[1:].split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"placewright{name}"


@pytest.mark.parametrize("path", sorted(SCRIPTS), ids=lambda path: path.name)
def test_what_a_script_imports_of_the_package_exists(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "placewright":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")


def test_the_forge_runs_the_parts_of_what_must_pass_before_a_change_lands() -> None:
    parts = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert matrix("part") == parts


def matrix(name: str) -> list[str]:
    """The jobs that the forge runs side by side."""
    listed = re.search(rf"{name}: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert listed is not None
    return [entry.strip('"') for entry in listed[1].split(", ")]


def test_the_forge_tries_every_python_that_the_package_names_and_the_pinned_pytorch_beside_another() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    classifiers = "\n".join(declared["project"]["classifiers"])
    versions = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert matrix("python") == versions
    wheels = declared["tool"]["cibuildwheel"]["build"]
    assert wheels == [f"cp{version.replace('.', '')}-manylinux_*" for version in versions]
    assert declared["project"]["requires-python"] == f">={versions[0]}"
    pinned, other = (entry.split()[0] for entry in matrix("torch"))
    assert pinned in declared["project"]["optional-dependencies"]["dev"]
    assert other != pinned
