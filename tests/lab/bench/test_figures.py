"""Figures: what they show, and that their bytes depend on the results alone."""

import builtins
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from bench_rows import plausible_rows, results_of, row, write_results

from placewright.lab.bench.figure_histogram import bin_edges, main_settings
from placewright.lab.bench.figure_limits import lines_by_solver
from placewright.lab.bench.figure_topology import improvements_by_topology
from placewright.lab.bench.report import draw_figure, read_report, write_figures
from placewright.lab.bench.rows import Row
from placewright.lab.bench.solver_setting import SolverSetting
from placewright.lab.bench.summaries import summaries
from placewright.lab.commands.bench_report import report
from placewright.support.errors import MissingExtraError

FIGURES = ("2", "3")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str, rows: list[Row]) -> dict[str, bytes]:
    results = results_of(rows)
    files = draw_figure(name, results, summaries(results))
    assert not isinstance(files, str), files
    return files


def texts_of(svg: bytes) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", FIGURES)
def test_equal_results_give_equal_bytes_with_text_as_text(name: str) -> None:
    rows = plausible_rows(4)
    first, second = drawn(name, rows), drawn(name, rows[:])
    assert first == second
    assert first["png"].startswith(b"\x89PNG")
    assert b"<dc:date>" not in first["svg"]
    assert any("toy" in text for text in texts_of(first["svg"]))


def test_the_histogram_says_how_many_are_matched_and_how_many_tie() -> None:
    # One better, one worse, one tie: 2 of 3 match or beat.
    values = {"a": 90, "b": 110, "c": 100}
    rows = [row(graph, "brkga", 100, 5000) for graph in values]
    rows += [row(graph, "etf", value) for graph, value in values.items()]
    assert "matches or beats on 66.7% of 3 graphs, 1 tie" in texts_of(drawn("2", rows)["svg"])


def test_a_histogram_of_ties_alone_is_empty_and_drawn() -> None:
    rows = [row("a", "brkga", 100, 5000), row("a", "etf", 100)]
    assert "matches or beats on 100% of 1 graph, 1 tie" in texts_of(drawn("2", rows)["svg"])


def test_boxes_are_over_a_graph_and_its_copies() -> None:
    labels = ["a", "a~1", "a~2", "a~3", "b", "b~1", "b~2", "b~3", "c"]
    rows = [row(label, "brkga", 100, 5000) for label in labels]
    values = (90, 80, 70, 60, 110, 100, 100, 90, 50)
    rows += [row(label, "regal", value, 5000) for label, value in zip(labels, values, strict=True)]
    # Under another limit, or by another policy, it is another thing.
    rows += [row("a", "regal", 10, 1000), row("a", "regal:other", 10, 5000)]
    results = results_of(rows, copies=3)
    assert improvements_by_topology(results, summaries(results)) == {"a": [10, 20, 30, 40], "b": [-10, 0, 0, 10]}
    files = draw_figure("12", results, summaries(results))
    assert not isinstance(files, str)
    texts = texts_of(files["svg"])
    assert texts.index("b") < texts.index("a")
    assert "c" not in texts
    alone = results_of([one for one in rows if one.solver == "brkga"], copies=3)
    assert "no graph has 4 instances" in draw_figure("12", alone, summaries(alone))


@pytest.mark.parametrize(
    ("low", "high"), [(-24.0, 26.0), (3.0, 3.5), (-0.001, -0.0005), (-900.0, 50.0), (0.0, 1e-9), (24.0, 24.0)]
)
def test_bins_hold_all_values_and_none_counts_both_better_and_worse(low: float, high: float) -> None:
    edges = bin_edges(low, high)
    assert edges[0] <= low
    assert edges[-1] >= high
    assert 0.0 in edges
    assert 2 <= len(edges) <= 28


def test_a_solver_has_one_panel_under_the_papers_limit_if_there_is_one() -> None:
    rows = [row("a", "brkga", 100, 5000), row("a", "brkga", 90, 50_000)]
    rows += [row("a", "x", 80, 50_000), row("a", "x", 85, 5000), row("a", "y", 70, 1000), row("a", "etf", 99)]
    labels = [one.setting.label for one in main_settings(summaries(results_of(rows)))]
    assert labels == ["y 1K", "x 5K", "etf"]


def test_a_line_is_over_the_graphs_that_all_its_points_have() -> None:
    rows = [row(graph, "brkga", 100, 5000) for graph in "ab"]
    rows += [row("a", "x", 90, 1000), row("b", "x", 50, 1000), row("a", "x", 80, 5000), row("a", "etf", 1)]
    lines = lines_by_solver(summaries(results_of(rows)))
    # On a alone: 10% with 1,000 evaluations, 20% with 5,000. BRKGA and etf have one limit, so no line.
    assert list(lines) == ["x"]
    points: list[Any] = [(limit, mean.value, mean.num_graphs) for limit, mean in lines["x"]]
    assert points == [(1000, pytest.approx(10.0), 1), (5000, pytest.approx(20.0), 1)]


def test_what_cannot_be_drawn_is_said_and_the_rest_is_drawn(tmp_path: Path, caplog: Any) -> None:
    rows = [row("a", "etf", 80), row("a", "brkga", 90, 5000)]
    folder = write_results(tmp_path / "r", rows)
    written = write_figures(read_report([folder], []), FIGURES, tmp_path / "out")
    assert [path.name for path in written] == ["toy-figure-2.svg", "toy-figure-2.png"]
    assert caplog.messages == [
        "toy: no figure 3: no solver ran under several evaluation limits on graphs that BRKGA 5K ran on",
    ]


def test_without_what_draws_the_tables_are_there_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "r", plausible_rows(2))
    present = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return present(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"placewright\[bench\]"):
        report([folder])
    assert "Table 1" in capsys.readouterr().out
    assert (folder / "report" / "toy.md").exists()


@pytest.mark.parametrize(
    ("solver", "label"),
    [
        ("brkga", "brkga 5K"),
        ("regal:runtime-synthetic", "regal:runtime-synthetic 5K"),
        ("regal:benchmarks/policies/scheduling/best.safetensors", "regal:scheduling 5K"),
        ("idrs:runs/old.safetensors", "idrs:old 5K"),
        ("regal:best.safetensors", "regal:best 5K"),
    ],
)
def test_where_there_is_little_room_a_policy_goes_by_its_name(solver: str, label: str) -> None:
    assert SolverSetting(solver, 5000).short_label == label
