"""The imports of a test module, direct or through the package and other test modules, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"


def directly(path: Path) -> frozenset[str]:
    """Dotted names that the file itself imports, also inside functions."""
    return frozenset(_names(path, inside_functions=True))


@cache
def packages_of(path: Path) -> frozenset[str]:
    """Top-level packages that the import of this file brings in, and those that its functions import."""
    seen: set[Path] = set()
    found = set(_names(path, inside_functions=True))
    left = [own for name in found if (own := _file_of(name, path.parent))]
    while left:
        module = left.pop()
        if module in seen:
            continue
        seen.add(module)
        names = _names(module, inside_functions=TESTS in module.parents)
        found |= set(names)
        left += [own for name in names if (own := _file_of(name, module.parent))]
    return frozenset(name.split(".")[0] for name in found)


@cache
def _names(path: Path, inside_functions: bool) -> tuple[str, ...]:
    """Dotted names that a file imports, when it is itself imported or also when its functions are called."""
    return tuple(name for node in _statements(ast.parse(path.read_text()), inside_functions) for name in _named(node))


def _statements(node: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if (inside_functions or not is_function) and not _is_for_types(child):
            yield from _statements(child, inside_functions)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        # A name imported from a package may be one of its modules.
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("importorskip"):
        return [str(own.value) for own in node.args[:1] if isinstance(own, ast.Constant)]
    return []


@cache
def _file_of(name: str, folder: Path) -> Path | None:
    """The file of a module of the package or of the tests."""
    parts = name.split(".")
    for root in (SOURCE, TESTS, folder):
        for path in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if path.is_file():
                return path
    return None
