"""Refusals of nodes on which ONNX's shape inference would crash or never end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from placewright.importers.onnx.records import label_of, node_attributes, subgraphs
from placewright.support.errors import InputError, shown

#: Letters of the axes of one operand or the result, and at most once dots for the axes without letters.
_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
#: More axes than any tensor has; inference truncates some of these numbers to 32 bits.
_MAX_AXES = 2**15


def check_nodes(graph: Any, source: str) -> None:
    """Checks the nodes of a graph, and of its subgraphs. Raises InputError naming the node."""
    for node in graph.node:
        if node.domain in ("", "ai.onnx") and (problem := _problem(node, node_attributes(node))):
            raise InputError(f"'{source}': {label_of(node)} {problem}")
        for inner in subgraphs(node):
            check_nodes(inner, source)


def _problem(node: Any, attributes: Mapping[str, Any]) -> str | None:
    """The problem of a node, as the rest of a sentence about it; None if there is none."""
    for name, least in (("axis", -_MAX_AXES), ("batch_dims", 0)):
        value = attributes.get(name)
        if isinstance(value, int) and not least <= value < _MAX_AXES:
            return f"has {name} = {value}, and no tensor has such an axis"
    if node.op_type == "Split" and attributes.get("num_outputs", len(node.output)) != len(node.output):
        return f"has {len(node.output)} outputs and num_outputs = {shown(str(attributes['num_outputs']))}"
    return _problem_of_equation(attributes.get("equation")) if node.op_type == "Einsum" else None


def _problem_of_equation(equation: Any) -> str | None:
    if not isinstance(equation, str):
        return "has no text as its equation"
    left, _, right = equation.replace(" ", "").partition("->")
    if not all(_TERM.fullmatch(term) for term in (*left.split(","), right)):
        return f"has the equation '{shown(equation)}'; a term is letters and at most one '...'"
    return None
