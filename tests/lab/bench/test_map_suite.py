"""Suites of maps: the same rows, workers and tables as placements have, of another kind of problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from bench_messages import messages_of
from bench_rows import HEADER, row, write_results

from placewright import cli
from placewright.lab.bench import map_suite
from placewright.lab.bench.columns import AnyTable
from placewright.lab.bench.map_suite import MapSuite
from placewright.lab.bench.protocol import Run
from placewright.lab.bench.report import read_report
from placewright.lab.bench.rows import Row, read_results
from placewright.lab.bench.runner import plan_runs
from placewright.lab.bench.suites import find_suite
from placewright.lab.bench.work import Failure, Job
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.lab.memory_levels.solvers import table
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

SUITE = Path(__file__).parents[3] / "benchmarks" / "suites" / "egrl.toml"
RUN = Run(solver="annealing", evaluations=200, seconds=None, seed=1)


@pytest.fixture
def suite(tmp_path: Path) -> MapSuite:
    return suite_of(tmp_path, 'graphs = "example:resnet50-int8"\nchip = "nnpi"\n')


def suite_of(folder: Path, text: str) -> MapSuite:
    path = folder / "maps.toml"
    path.write_text(text)
    found = find_suite(path)
    assert isinstance(found, MapSuite)
    return found


def job(suite: MapSuite, *runs: Run) -> Job:
    return Job(instance=0, label=suite.labels[0], runs=runs)


def test_a_row_of_a_map_holds_what_the_solver_alone_gives(suite: MapSuite) -> None:
    problem = suite.problem_at(0)
    alone = table.make_map_solver("annealing").solve(problem, SearchRun(Budget(evaluations=200), seed=1))
    (made,) = messages_of(suite, job(suite, RUN))
    assert isinstance(made, Row)
    assert (made.graph, made.num_ops, made.solver, made.seed) == ("resnet50-int8", 57, "annealing", 1)
    assert (made.objective, made.evaluations, made.bytes_over_limit) == (alone.latency_ps, alone.evaluations, 0)
    # Weights are held all the time, activations while they are read: the levels together never hold less than the
    # weights.
    weights = int(problem.size_bytes[problem.is_weight == 1].sum())
    assert weights < made.peak_memory_bytes <= int(problem.size_bytes.sum())
    assert made.step_time_ns - 1 < made.objective / 1000 <= made.step_time_ns
    assert 0 < made.bound <= made.objective


def test_a_map_that_the_checker_refutes_gives_a_failure_and_no_row(
    suite: MapSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_suite, "check_map", lambda found, graph: ["SRAM is over-full during op 'a'"])
    assert messages_of(suite, job(suite, RUN)) == [
        Failure(label="resnet50-int8", run=RUN, reason="WRONG PLAN: SRAM is over-full during op 'a'")
    ]


def test_a_budget_that_a_solver_refuses_costs_its_own_row_only(suite: MapSuite) -> None:
    small = replace(RUN, solver="ea", evaluations=1)
    refused, made = messages_of(suite, job(suite, small, RUN))
    assert isinstance(refused, Failure)
    assert refused.reason == "a budget of 1 evaluations is less than the population of 'ea', 20"
    assert isinstance(made, Row)


def test_the_digest_is_of_graphs_and_chip_and_not_of_what_is_written_about_the_chip(tmp_path: Path) -> None:
    graphs = 'graphs = "example:resnet50-int8"\n'
    chip = 'extends = "nnpi"\nname = "mine"\ndescription = "the same"\n'
    (tmp_path / "same.toml").write_text(chip)
    (tmp_path / "other.toml").write_text(chip + 'op_overhead = "7us"\n')
    digests = {
        name: suite_of(tmp_path, f'{graphs}chip = "{name}"\n').header().digest
        for name in ("nnpi", "same.toml", "other.toml")
    }
    assert digests["nnpi"] == digests["same.toml"] != digests["other.toml"]
    more = suite_of(tmp_path, 'graphs = ["example:resnet50-int8", "example:resnet101-int8"]\nchip = "nnpi"\n')
    assert more.header().digest not in digests.values()
    assert more.header().num_graphs == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('graphs = "example:resnet50-int8"\nchip = "nnpy"\n', "unknown chip 'nnpy'; did you mean nnpi"),
        ('graphs = "example:resnet50-int8"\nchip = "gone.toml"\n', "cannot read '.*gone.toml'"),
        ('graphs = "example:resnet50-int8"\nchip = 3\n', "chip must be a non-empty text, not 3"),
        ('chip = "nnpi"\n', "graphs is missing"),
        ('graphs = []\nchip = "nnpi"\n', r"graphs must be a non-empty text or a list of them, not \[\]"),
        ('graphs = ["example:resnet50-int8", 3]\nchip = "nnpi"\n', "or a list of them, not"),
        (
            'graphs = ["example:resnet50-int8", "example:resnet50-int8"]\nchip = "nnpi"\n',
            "two graphs are named 'resnet50-int8'",
        ),
        ('graphs = "example:resnet50-int8"\nchip = "nnpi"\ndevices = "2xh100"\n', "unknown key 'devices'"),
    ],
)
def test_a_suite_that_is_wrong_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=f"maps.toml'.*{sentence}"):
        suite_of(tmp_path, text)


def test_a_solver_of_placements_is_none_of_maps(suite: MapSuite) -> None:
    with pytest.raises(InputError, match="unknown solver 'brkga'"):
        plan_runs(suite, ["brkga"], [10], [], 1)
    with pytest.raises(InputError, match="unknown solver 'egrl:mine'"):
        suite.policy_of("egrl:mine")


@dataclass(frozen=True, kw_only=True)
class Own:
    """A method that puts everything in one level."""

    level: int
    name: str = "own"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        best.offer(np.full(problem.num_tensors, min(self.level, problem.num_levels - 1), np.uint8))
        return best.result("complete")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda level: monkeypatch.setattr(table, "MAP_SOLVERS", {**table.MAP_SOLVERS, "own": Own(level=level)})


def test_a_code_is_of_what_a_solver_of_maps_decides(suite: MapSuite, own: Callable[[int], None]) -> None:
    codes = []
    for level in (0, 1, 1):
        own(level)
        codes.append(suite.code_of("own"))
    assert codes[0] != codes[1] == codes[2]
    names = ("auto", "exact", "annealing", "marginal", "density", "local-search", "random", "ea", "h0", "h1", "h6")
    found = {suite.code_of(name) for name in names}
    assert len(found) == len(names)
    assert suite.code_of("ea") in found


def test_the_committed_suite_makes_rows_and_a_table_of_speed_ups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "run", str(SUITE), "--solvers", "h6,density,random", "--evaluations", "30", "--seeds", "2"]
    command += ["--take", "2", "--jobs", "1", "--out", str(tmp_path / "r")]
    assert cli.run(command) == 0
    header, rows, _ = read_results(tmp_path / "r")
    assert (header.machine, header.objective, header.num_graphs) == ("nnpi", "latency", 3)
    assert len(rows) == 2 * (1 + 1 + 2)
    # The example of docs/lab/notes/memory-levels.md: 136.8 us with h6, and density 1.248 times as fast.
    of_h6 = next(row for row in rows if (row.graph, row.solver) == ("resnet50-int8", "h6"))
    assert round(of_h6.objective / 1e6, 1) == 136.8
    assert cli.run(command) == 0
    assert read_results(tmp_path / "r")[1] == rows
    assert cli.run(["bench", "report", str(tmp_path / "r"), "--table", "graphs"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("resnet50-int8"))
    assert "136.79 us" in line
    assert "1.248" in line


MAPS = replace(HEADER, suite="maps", machine="nnpi", objective="latency", control="", num_graphs=2)


def graphs_table_of(folder: Path, rows: list[Row]) -> AnyTable:
    (section,) = read_report([write_results(folder, rows, MAPS)], ["graphs"])
    (found,) = section.tables
    return found


def test_speed_ups_are_over_h6_of_the_same_graph(tmp_path: Path) -> None:
    rows = [
        row("a", "h6", 2_000_000, bound=800_000),
        row("a", "egrl", 1_000_000, 40, bound=800_000),
        row("a", "egrl", 1_600_000, 40, seed=1),
        row("b", "h6", 3_000_000),
        row("b", "egrl", 3_000_000, 40),
    ]
    made = graphs_table_of(tmp_path / "r", rows)
    assert [column.heading for column in made.columns] == ["graph", "ops", "h6", "at most", "egrl 40", "±"]
    # a: 2 / 1 and 2 / 1.6 = 1.25, so 1.625 ± 0.375; at most 2 / 0.8 = 2.5.
    assert [column.text("a") for column in made.columns] == ["a", "10", "2.0000 us", "2.500", "1.625", "0.375"]
    assert [column.text("b") for column in made.columns][4:] == ["1.000", "0.000"]


def test_a_map_a_millionth_above_its_bound_is_proven(tmp_path: Path) -> None:
    # HiGHS proves no more; a placement's bound is exact.
    rows = [row("a", "h6", 3_000_000), row("a", "exact", 2_000_001, 40, bound=2_000_000)]
    (section,) = read_report([write_results(tmp_path / "r", rows, MAPS)], ["1"])
    assert section.tables[0].notes == ("Proven optimal: the best known on 1 of 1 graphs.",)
    rows[1] = replace(rows[1], objective=2_000_010)
    (section,) = read_report([write_results(tmp_path / "s", rows, MAPS)], ["1"])
    assert section.tables[0].notes == ("Proven optimal: the best known on 0 of 1 graphs.",)


def test_rows_of_an_unknown_objective_are_one_sentence(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", [row("a", "h6", 1)], replace(MAPS, objective="beauty"))
    with pytest.raises(InputError, match=r"'.*r': the objective 'beauty' is none of step-time, peak-memory, latency"):
        read_report([folder], ["1"])
