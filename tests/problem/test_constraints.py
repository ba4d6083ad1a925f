"""Devices and ops as constraints name them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.graph import Op
from placewright.machines import load_machine
from placewright.problem import constraints
from placewright.problem.constraints import OpNames, _device_index
from placewright.support.errors import InputError


def test_a_device_is_named_or_numbered() -> None:
    machine = load_machine("cpu+2xk80")
    assert [_device_index(machine, text) for text in ("cpu0", "gpu1", "0", "2")] == [0, 2, 0, 2]


@pytest.mark.parametrize("text", ["3", "-1", "1" * 5000, "\u0662", "\u00b2", "gpu2"])
def test_any_other_number_or_name_is_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"machine 'cpu\+2xk80' has no device '.*'; it has cpu0, gpu0, gpu1") as caught:
        _device_index(load_machine("cpu+2xk80"), text)
    assert len(str(caught.value)) < 300


NAMES = st.text("ab.[]", max_size=4)


@given(ops=st.lists(st.tuples(NAMES, NAMES), max_size=6), pattern=st.text("ab.[]!*?", max_size=4))
def test_a_pattern_finds_the_ops_of_which_it_matches_the_name_or_the_module(
    ops: list[tuple[str, str]], pattern: str
) -> None:
    names = OpNames(Op(name=name, kind="other", module=module) for name, module in ops)
    expected = [i for i, own in enumerate(ops) if any(fnmatchcase(name, pattern) for name in own)]
    assert names.matching(pattern) == expected


def test_plain_names_are_looked_up_and_not_matched_with_every_op(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise groups for each of many ops would take time quadratic in their number.
    names = OpNames(Op(name=f"op{index}", kind="other", module="m") for index in range(3))
    assert names.matching("op*") == [0, 1, 2]
    monkeypatch.setattr(constraints, "translate", None)
    assert names.matching("op1") == [1]
    assert names.matching("m") == [0, 1, 2]
    assert names.matching("op") == []
