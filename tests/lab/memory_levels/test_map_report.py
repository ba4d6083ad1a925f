"""The report of a memory map: what it shows, and that it loads nothing."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from small_problems import hostile_graph

from placewright.lab.memory_levels import map_memory
from placewright.lab.memory_levels.explain import transitions
from placewright.lab.memory_levels.maps import MemoryMap
from placewright.lab.memory_levels.report import map_html
from placewright.support.quantities import format_bytes


@pytest.fixture(scope="module")
def found() -> MemoryMap:
    return map_memory("example:resnet50-int8", "nnpi", evaluations=4000)


def test_the_report_tells_latency_bound_and_moves(found: MemoryMap) -> None:
    text = re.sub(r"<[^>]+>", " ", map_html(found))
    assert "106.92 us" in text
    assert "compiler h0, the best rule: 109.63" in text
    assert "No map is faster than" in text
    assert "fc.weight" in text
    assert all(name in text for name in found.chip.level_names)
    assert all(assumption.replace("'", "&#x27;") in text for assumption in found.chip.assumptions)


def test_tensors_that_save_are_among_those_that_lie_elsewhere(found: MemoryMap) -> None:
    listed = re.search(r"<caption[^>]*>Tensors that save the most.*?</table>", map_html(found), re.DOTALL)
    assert listed is not None
    shown = set(re.findall(r'<th [^>]*class="layer"[^>]*>([^<]+)<', listed[0]))
    moved = {tensor.name for tensor in found.tensors if tensor.level != tensor.compiler_level}
    assert shown
    assert shown <= moved


def test_a_map_that_is_the_compilers_lists_none() -> None:
    page = map_html(map_memory("example:resnet50-int8", "nnpi", solver="h0"))
    assert "Every tensor lies where compiler h0 has it." in page


def test_the_report_loads_nothing_and_is_well_formed(found: MemoryMap) -> None:
    page = map_html(found)
    assert not re.search(r"""(?:src|href)=["'](?!data:)|url\(|@import""", page)
    assert not re.search(r"<script[^>]+src", page)
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)
    assert page.count("<svg") == len(found.chip.levels) + 4


def test_transitions_hold_every_byte_once(found: MemoryMap) -> None:
    whole = sum(map(sum, transitions(found)))
    parts = sum(sum(map(sum, transitions(found, weights=weights))) for weights in (True, False))
    assert whole == parts == sum(tensor.size_bytes for tensor in found.tensors)
    # fc.weight alone goes from LLC to SRAM: 1000 * 2048 B and 4 B for each of the 1000 biases.
    assert transitions(found, weights=True)[1][0] == 1000 * 2048 + 4 * 1000


def test_names_from_files_cannot_break_the_page() -> None:
    page = map_html(map_memory(hostile_graph(), "nnpi", solver="h0"))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_the_scale_of_a_level_says_whose_peak_it_is() -> None:
    """Of DRAM it is the compiler's where that has more there, beside the bytes of the map alone."""
    found = map_memory("example:resnet101-int8", "nnpi", evaluations=200)
    level = len(found.chip.levels) - 1
    assert max(found.compiler_bytes_in_use[level]) > found.peak_bytes(level)
    peak = format_bytes(max(found.compiler_bytes_in_use[level]))
    assert f"the top is {peak}, the peak of {found.compiler}" in map_html(found)


@pytest.mark.parametrize("width", [390, 800])
def test_figures_below_each_other_have_no_rule_between_them(found: MemoryMap, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_content(map_html(found))
    sides = page.evaluate(
        """() => [...document.querySelectorAll('.map-figures .figure')]
            .map((node) => [getComputedStyle(node).borderLeftWidth, getComputedStyle(node).paddingLeft])"""
    )
    page.close()
    assert sides == [["0px", "0px"]] * 4
