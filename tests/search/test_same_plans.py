"""Plans, bounds and proposals stay what they were, bit for bit (same_plans.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from same_plans import CP_METHODS, FILE, GUIDED, SEARCHES_OF_MOVES, ortools_version, proposals, solutions
from same_problems import PROBLEMS

from placewright.lab.methods import PLACERS
from placewright.methods.table import ENTRIES, METHODS

RECORDED: dict[str, Any] = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_method_makes_the_same_plan_as_before(name: str) -> None:
    recorded = RECORDED["problems"][name]
    made = solutions(PROBLEMS[name](), recorded["seed"])
    expected = dict(recorded["solutions"])
    if ortools_version() != RECORDED["ortools"]:
        made, expected = ({k: v for k, v in plans.items() if k not in CP_METHODS} for plans in (made, expected))
    assert made == expected, differences(name, made, expected)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_shipped_policy_proposes_the_same_as_before(name: str) -> None:
    recorded = RECORDED["problems"][name]
    made = proposals(PROBLEMS[name](), recorded["seed"])
    assert made == recorded["proposals"], differences(name, made, recorded["proposals"])


def differences(problem: str, made: dict[str, str], expected: dict[str, str]) -> str:
    """Return a line for each method or policy whose digest differs."""
    return "\n".join(
        f"{problem}: {name} gives {made.get(name)}, and gave {expected.get(name)}"
        for name in sorted(made.keys() | expected.keys())
        if made.get(name) != expected.get(name)
    )


def test_every_method_is_among_them() -> None:
    recorded = {name.partition(":")[0] for each in RECORDED["problems"].values() for name in each["solutions"]}
    many = {name for name in recorded if name.partition(" ")[0] in SEARCHES_OF_MOVES and " " in name}
    assert recorded - many == (ENTRIES.keys() & METHODS.keys()) - set(PLACERS)
    assert set(GUIDED) <= set(ENTRIES)
    assert RECORDED["problems"].keys() == PROBLEMS.keys()
