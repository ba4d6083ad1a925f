"""Data flows one way: graph, costs, problem, search, plan, show. A module imports only from what stands before it."""

import ast
import importlib
import re
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
    {"datasets"},
    {"learning", "memory_levels"},
    {"methods"},
    {"plans"},
    {"verification"},
    {"execution"},
    {"analysis"},
    {"report", "export", "terminal"},
    {"api"},
    {"bench"},
    {"__init__", "cli", "__main__"},
)
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}


def imported_modules(path: Path) -> set[str]:
    """First component below `placewright` of everything a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "placewright":
            rest = node.module.split(".")[1:]
            names |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
            names |= {rest[1] for rest in parts if rest[0] == "placewright" and len(rest) > 1}
    return names


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_what_stands_before_it(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    later = {name for name in imported_modules(path) if ROW_OF[name] > ROW_OF[own]}
    assert not later, f"{path.relative_to(SOURCE)} imports {later}, which stand after it"


RUNTIMES = ("onnx_runtime", "pytorch")


@pytest.mark.parametrize("path", sorted((SOURCE / "execution").rglob("*.py")), ids=lambda path: path.stem)
def test_a_runtime_is_known_to_itself_alone_among_what_executes_plans(path: Path) -> None:
    own = path.relative_to(SOURCE / "execution").parts[0]
    named = set(re.findall(r"placewright\.execution\.(\w+)", path.read_text())) & set(RUNTIMES)
    assert named <= {own}, f"{path.relative_to(SOURCE)} imports from {named - {own}}"


CORE = ROOT / "cpp" / "core"
CORE_ROOMS = (
    *("support", "problem", "simulate", "construct", "decode", "improve", "bounds", "coarsen"),
    *("memory_levels", "graph_network", "rematerialize", "offsets"),
)


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.?pp")), ids=lambda path: str(path.relative_to(CORE)))
def test_a_file_of_the_core_includes_only_from_its_room_and_those_before_it(path: Path) -> None:
    own = CORE_ROOMS.index(path.relative_to(CORE).parts[0])
    rooms = {name.split("/")[0] for name in re.findall(r'#include "(.+)"', path.read_text())}
    later = {room for room in rooms if CORE_ROOMS.index(room) > own}
    assert not later, f"{path.relative_to(CORE)} includes from {later}, which stand after it"


SCRIPTS = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")]


@pytest.mark.parametrize("path", sorted(SCRIPTS), ids=lambda path: path.name)
def test_what_a_script_imports_of_the_package_exists(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "placewright":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")
