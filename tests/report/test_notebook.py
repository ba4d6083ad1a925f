"""A plan in a notebook: the head of the report, its timeline and its table of devices, small and escaped."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plans import layered_plan, machine_of, small_plan

from placewright.api.questions import Plan
from placewright.report import html_of
from placewright.report.notebook import timeline

_VOID = {"meta", "br"}


class _Tree(HTMLParser):
    """Raises when elements do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> _Tree:
    tree = _Tree()
    tree.feed(html)
    assert tree.open == []
    return tree


def test_it_has_head_timeline_and_table_and_no_script() -> None:
    html = Plan.of(small_plan())._repr_html_()
    tree = parsed(html)
    assert {"h1", "svg", "path", "table"} <= tree.seen
    assert "script" not in tree.seen
    assert "http" not in html


def test_its_size_does_not_grow_with_the_ops() -> None:
    # The report of 2,000 ops is some 300 kB.
    assert len(Plan.of(layered_plan(2_000, 4))._repr_html_()) < 30_000


def test_names_cannot_become_markup() -> None:
    plan = small_plan()
    devices = tuple(replace(device, name=f"<img{i}>") for i, device in enumerate(plan.machine.devices))
    html = Plan.of(
        replace(plan, graph_name="<script>alert(1)</script>", machine=replace(plan.machine, devices=devices))
    )._repr_html_()
    assert parsed(html).seen.isdisjoint({"script", "img0", "img1"})
    assert "&lt;script&gt;" in html


def test_a_lane_shows_when_its_device_computes_and_sends() -> None:
    # Of 228,764 ns drawn on 600: c runs on gpu1 from 99,382 to 129,382, so from 260.7 to 339.3; its result is sent back
    # until 218,764, so from 339.3 to 573.8. Marks are widened to whole units and begin 110 to the right, a lane down.
    drawn = timeline(small_plan())
    computing, sending = re.findall(r'<path d="([^"]*)"', drawn)[2:]
    assert computing == "M370 22h80v12H370z"
    assert sending == "M449 35h235v4H449z"


def test_many_devices_are_cut_to_the_busiest() -> None:
    many = small_plan()
    wide = replace(
        many,
        machine=machine_of(20, 16 * 2**20),
        metrics=replace(many.metrics, busy_ns=tuple(range(20)), peak_bytes=(0,) * 20),
    )
    drawn = timeline(wide)
    assert "4 less busy devices not shown" in drawn
    assert ">gpu19<" in drawn
    assert ">gpu3<" not in drawn


def test_an_answer_is_one_output_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich took each part of an answer in a notebook for an output of its own, and the answer's text was empty."""
    plan = Plan.of(small_plan())
    told = plan.explain().text
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    answer = plan.explain()
    assert answer.text == told
    assert len(told.splitlines()) > 5
    html = answer._repr_html_()
    parsed(html)
    assert unescape(html.removesuffix("</pre>").partition(">")[2]) == told


def test_a_plan_writes_its_report(tmp_path: Path) -> None:
    plan = Plan.of(small_plan())
    plan.write_report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html_of(plan)
