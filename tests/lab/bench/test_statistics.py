"""Means over seeds and graphs, their confidence intervals, and what they are measured against."""

import math

import pytest
from bench_rows import results_of, row
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as students_t

from placewright.lab.bench.rows import Row
from placewright.lab.bench.solver_setting import SolverSetting
from placewright.lab.bench.summaries import Summary, num_proven, summaries
from placewright.lab.statistics import clustered_mean, t_quantile
from placewright.support.errors import InputError


def standing_of(rows: list[Row], label: str, copies: int = 0) -> Summary:
    return next(one for one in summaries(results_of(rows, copies)) if one.setting.label == label)


@pytest.mark.parametrize("degrees", [1, 2, 5, 10, 11, 12, 29, 30, 31, 100, 10_000])
def test_quantiles_of_t_agree_with_a_library_of_statistics(degrees: int) -> None:
    assert t_quantile(degrees) == pytest.approx(students_t.ppf(0.975, degrees), abs=2e-4)


def test_copies_of_a_topology_do_not_make_the_interval_narrower() -> None:
    # Topologies a: 1 and 3, mean 2; b: 5 and 7, mean 6. The mean is 4; s of 2 and 6 is sqrt(8), so 12.7062 * sqrt(8/2).
    values = {"a": 1.0, "a~1": 3.0, "b": 5.0, "b~1": 7.0}
    mean = clustered_mean(values, lambda graph: graph[0])
    assert mean is not None
    assert mean.value == 4.0
    assert mean.half_width == pytest.approx(12.7062 * 2)


def test_one_topology_has_a_mean_without_an_interval_and_none_has_nothing() -> None:
    mean = clustered_mean({"a": 1.0, "a~1": 3.0}, lambda graph: "a")
    assert mean is not None
    assert (mean.value, mean.half_width) == (2.0, None)
    assert clustered_mean({}, lambda graph: graph) is None


@given(st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=2, max_size=12))
def test_with_equal_copies_the_interval_is_that_of_the_topologies_means(topologies: list[list[float]]) -> None:
    values = {f"{t}~{c}": value for t, copies in enumerate(topologies) for c, value in enumerate(copies)}
    means = [sum(copies) / 3 for copies in topologies]
    centre = sum(means) / len(means)
    s = math.sqrt(sum((mean - centre) ** 2 for mean in means) / (len(means) - 1))
    mean = clustered_mean(values, lambda graph: graph.split("~")[0])
    assert mean is not None
    assert mean.half_width == pytest.approx(t_quantile(len(means) - 1) * s / math.sqrt(len(means)), abs=1e-9)


def test_measures_are_those_of_the_paper() -> None:
    # BRKGA 5K on a: (90 + 110) / 2 = 100, on b: 200. x: 80 and 210.
    rows = [
        row("a", "brkga", 90, 5000, seed=0, bound=70),
        row("a", "brkga", 110, 5000, seed=1, bound=60),
        row("b", "brkga", 200, 5000, bound=100),
        row("a", "x", 80, bound=64),
        row("b", "x", 210, bound=150),
    ]
    x = standing_of(rows, "x")
    # 100 * (1 - 80 / 100) and 100 * (1 - 210 / 200).
    assert x.improvement == pytest.approx({"a": 20.0, "b": -5.0})
    # The best are 80 and 200; the largest bounds 70 and 150.
    assert x.gap_best == pytest.approx({"a": 0.0, "b": 5.0})
    assert x.gap_bound == pytest.approx({"a": 100 * 10 / 70, "b": 40.0})
    assert x.percent_matched == 50.0
    reference = standing_of(rows, "brkga 5K")
    assert reference.improvement == {"a": 0.0, "b": 0.0}
    # (90, 110) against 80, mean 100: 25%.
    assert reference.gap_best == pytest.approx({"a": 25.0, "b": 0.0})


def test_a_solver_on_a_part_of_the_graphs_is_compared_on_those_alone() -> None:
    rows = [row("a", "brkga", 100, 5000), row("b", "brkga", 1000, 5000), row("a", "x", 90), row("c", "x", 5)]
    x = standing_of(rows, "x")
    assert x.improvement == pytest.approx({"a": 10.0})
    assert set(x.gap_best) == {"a", "c"}


def test_without_the_reference_there_are_gaps_and_no_improvements() -> None:
    rows = [row("a", "brkga", 100, 1000), row("a", "x", 90)]
    assert all(not one.improvement and one.percent_matched is None for one in summaries(results_of(rows)))
    assert standing_of(rows, "brkga 1K").gap_best == pytest.approx({"a": 100 * 10 / 90})


def test_plans_over_the_limits_are_counted_and_have_no_objective() -> None:
    # The plan of 5 does not fit, so the best is 40 and the bound of 30 is not contradicted.
    rows = [
        row("a", "x", 5, seed=0, bytes_over_limit=1, bound=30),
        row("a", "x", 50, seed=1, bound=30),
        row("b", "x", 5, bytes_over_limit=7, bound=30),
        row("a", "y", 40, bound=30),
    ]
    x = standing_of(rows, "x")
    assert x.entry.num_infeasible == 2
    assert x.gap_best == pytest.approx({"a": 25.0})
    assert set(x.entry.seconds) == {"a", "b"}


def test_an_objective_below_a_proven_bound_is_refused_with_all_that_is_known() -> None:
    rows = [row("a", "x", 99, 5000, seed=3), row("a", "y", 120, time_limit_s=60.0, bound=100)]
    expected = "'a': x 5K with seed 3 reached 99, below the lower bound 100 that y 60 s with seed 0 proves"
    with pytest.raises(InputError, match=expected):
        summaries(results_of(rows))


def test_graphs_whose_best_is_the_bound_are_proven_optimal() -> None:
    rows = [row("a", "x", 100, bound=90), row("a", "y", 105, bound=100), row("b", "x", 7, bound=6)]
    assert num_proven(results_of(rows)) == 1


def test_a_reference_or_bound_of_nothing_gives_no_percentages() -> None:
    rows = [row("a", "brkga", 0, 5000, bound=0), row("a", "x", 0, bound=0)]
    assert not any(one.improvement or one.gap_best or one.gap_bound for one in summaries(results_of(rows)))


def test_tildes_mark_copies_only_where_there_are_copies() -> None:
    assert results_of([], copies=2).topology_of("net~1") == "net"
    assert results_of([], copies=2).topology_of("net~small") == "net~small"
    assert results_of([], copies=0).topology_of("net~1") == "net~1"


def test_times_without_copies_leave_them_out() -> None:
    rows = [row(graph, "x", 1, seconds=s) for graph, s in {"a": 1.0, "a~1": 50.0, "b": 2.0, "c": 6.0}.items()]
    # Mean (1 + 2 + 6) / 3, median 2.
    assert standing_of(rows, "x", copies=1).unaugmented_seconds() == (3.0, 2.0)


def test_the_papers_methods_come_first_in_its_sequence_and_then_the_best() -> None:
    rows = [
        row("a", "brkga", 100, 5000),
        row("a", "brkga", 70, 50_000),
        row("a", "worse", 130),
        row("a", "better", 60),
        row("a", "regal", 95, 5000),
        row("a", "cp-sat", 50, time_limit_s=600.0),
        row("a", "cp-sat", 55, time_limit_s=60.0),
        row("a", "gp-dfs", 150),
    ]
    labels = [one.setting.label for one in summaries(results_of(rows))]
    paper = ["cp-sat 60 s", "cp-sat 600 s", "gp-dfs", "brkga 5K", "regal 5K"]
    assert labels == [*paper, "better", "brkga 50K", "worse"]


@pytest.mark.parametrize(
    ("setting", "label"),
    [
        (SolverSetting("etf"), "etf"),
        (SolverSetting("brkga", 400), "brkga 400"),
        (SolverSetting("brkga", 1500), "brkga 1.5K"),
        (SolverSetting("brkga", 2_000_000), "brkga 2M"),
        (SolverSetting("cp-sat", None, 0.5), "cp-sat 0.5 s"),
        (SolverSetting("auto", 5000, 60.0), "auto 5K 60 s"),
    ],
)
def test_settings_are_called_by_solver_and_limit(setting: SolverSetting, label: str) -> None:
    assert setting.label == label
