"""Cells that spreadsheets do not take for formulas, and the names they were made from."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placewright.support.spreadsheet import guarded, unguarded


@pytest.mark.parametrize(
    "first", [*"=+-@＝＋－＠﹦﹢﹣﹫'＇", *"\t\r\n\v\f\x00\x1f\x85\u2028\u2029", "\n=", " =", "\xa0＝"]
)
def test_what_begins_like_a_formula_stands_after_an_apostrophe(first: str) -> None:
    assert guarded(f"{first}1+1") == f"'{first}1+1"


@pytest.mark.parametrize("name", ["", "a=b", "it's", " leading", "größe", "模型", "1", "[0]"])
def test_other_names_are_their_own_cells(name: str) -> None:
    assert guarded(name) == unguarded(name) == name


@given(st.text(st.sampled_from("'=＝\n\t a") | st.characters()))
@example("''=")
def test_every_name_comes_back_through_a_file(name: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerow([guarded(name), "end"])
    ((cell, _),) = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert unguarded(cell) == name
