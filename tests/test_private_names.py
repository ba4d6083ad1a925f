"""The private names of PyTorch that the package stands on: docs/compatibility.md lists them, this release has them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent
#: Everybody's, though their names begin with an underscore.
_COMMON = ("torch._ops.", "torch.utils._pytree", "torch.__version__", "torch.__file__")


def documented() -> list[str]:
    text = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = text.partition("## Private names of PyTorch")[2].partition("\n## ")[0]
    return re.findall(r"`(torch\.[\w.]+)`", section)


@cache
def used() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        found |= set(_names(ast.parse(path.read_text(encoding="utf-8"))))
    return {name for name in found if re.search(r"\._", name) and not name.startswith(_COMMON)}


def _names(tree: ast.AST) -> Iterator[str]:
    """The names that a file imports from PyTorch, and the longest dotted names of it in its code."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if (
                isinstance(root, ast.Name)
                and root.id == "torch"
                and not (parts := ast.unparse(node)).startswith("torch.ops.")
            ):
                yield parts


def test_the_documented_names_are_those_that_the_package_uses() -> None:
    stems = documented()
    assert {name for name in used() if not any(f"{name}.".startswith(f"{stem}.") for stem in stems)} == set()
    assert {stem for stem in stems if not any(f"{name}.".startswith(f"{stem}.") for name in used())} == set()


@pytest.mark.parametrize("name", documented())
def test_pytorch_has_it(name: str) -> None:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[count:], module)
        except AttributeError:
            break
        return
    pytest.fail(f"PyTorch {torch.__version__} has no {name} any more, which docs/compatibility.md says is stood on")
