"""The tables of learned placers: medians over seeds, what runs out of memory, and when one matches another."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
placers: Any = importlib.import_module("placers")


def row(ms: float, *trace: tuple[int, float], over: int = 0, **rest: Any) -> dict[str, Any]:
    step = int(ms * 1e6)
    known = {"step_time_ns": step, "bytes_over_limit": over, "blocking_ns": 2 * step, "evaluations": 100}
    seconds = {"seconds": 3.0, "simulator_seconds": 1.0}
    return {**known, **seconds, "trace": [[spent, best * 1e6] for spent, best in trace], **rest}


def job(method: str, seed: int = 0) -> Any:
    return placers.Job(workload="nmt2", machine="2xp100", method=method, seed=seed, evaluations=100)


def printed(rows: dict[Any, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> str:
    placers.print_tables({job.name: row for job, row in rows.items()}, list(rows))
    return capsys.readouterr().out


def test_colocrls_table_has_the_median_of_its_seeds_and_what_it_gains(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        job("single-device"): row(20.0, over=5),
        job("metis-dfs"): row(16.0),
        job("layer-wise"): row(12.0),
        **{job("colocrl", seed): row(ms) for seed, ms in enumerate((10.0, 8.0, 11.0))},
    }
    # 12 / 10 - 1 over the fastest of the others, which is the expert's.
    assert "| nmt2, 2xp100 | OOM | 16.0 |  | 12.0 | 10.0 | +20.0% | +20.0% |" in printed(rows, capsys)


def test_a_line_of_all_methods_says_how_it_stands_to_one_device_and_what_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {job("single-device"): row(20.0), job("post", 0): row(10.0), job("post", 1): row(16.0)}
    # Medians 13 of 20; blocking takes twice as long; of three seconds the simulator took one.
    assert "| post | 0.650 (0.500 to 0.800) | 2.00 | 100 | 3.0 | 1.0 | 2.0 |" in printed(rows, capsys)


def test_one_matches_another_when_it_is_as_good_for_the_first_time_and_never_counts_as_latest() -> None:
    theirs = row(10.0)
    assert placers.matched([(row(9.0, (3, 12.0), (40, 10.0), (70, 9.0)), theirs)]) == "40"
    late = [(row(9.0, (1000, 9.0)), theirs), (row(9.0, (2000, 9.0)), theirs), (row(11.0, (5, 11.0)), theirs)]
    assert placers.matched(late) == "2,000"
    assert placers.matched(late[1:]) == "never"
    assert placers.matched([]) == ""


def test_seeds_come_one_after_the_other_and_what_draws_nothing_has_one() -> None:
    arguments = placers.parser().parse_args(["out", "--seeds", "2", "--methods", "post", "heft", "auto"])
    arguments.workloads, arguments.machines = ["nmt2"], ["2xp100"]
    labels = [(each.label, each.seed) for each in placers.jobs_of(arguments)]
    # Times stand over those of the single device, so it runs whichever methods are asked for.
    first = [("heft", 0), ("auto", 0), ("auto 10 s", 0), ("single-device", 0), ("post", 0)]
    assert sorted(labels[:5]) == sorted(first)
    assert labels[4] == ("post", 0)
    assert sorted(labels[5:]) == [("auto", 1), ("auto 10 s", 1), ("post", 1)]


def test_a_row_that_is_there_is_not_made_again_and_one_cut_off_is(tmp_path: Any, monkeypatch: Any) -> None:
    made = list[str]()

    def make(job: Any) -> dict[str, Any]:
        made.append(job.name)
        return {"run": job.name, **row(1.0)}

    monkeypatch.setattr(placers, "row_of", make)
    jobs, path = [job("post", seed) for seed in range(3)], tmp_path / "rows.jsonl"
    assert placers.rows_of(jobs[:2], path, make=False) == {}
    placers.rows_of(jobs[:2], path, make=True)
    path.write_text(path.read_text()[:-10])
    assert list(placers.rows_of(jobs, path, make=True)) == [each.name for each in jobs]
    assert made == [jobs[0].name, jobs[1].name, jobs[1].name, jobs[2].name]
