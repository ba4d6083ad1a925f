"""Reports from folders of results: what is printed, what is written, and what is said of what is missing."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_rows import HEADER, plausible_rows, results_of, row, write_results

from placewright.lab.bench.number_text import format_mean, format_number
from placewright.lab.bench.paper import PAPER_ROWS, paper_row
from placewright.lab.bench.report import read_report, write_tables
from placewright.lab.bench.summaries import summaries
from placewright.lab.commands.bench_report import report
from placewright.lab.statistics import Mean
from placewright.support.errors import InputError

SMALL = [
    row("a", "brkga", 100, 5000, bound=50, seconds=0.05),
    row("b", "brkga", 200, 5000, bound=100, seconds=0.15),
    row("a", "etf", 80, bound=50, seconds=0.001),
    row("b", "etf", 200, bound=160, seconds=0.003),
]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_markdown_has_the_facts_the_figures_and_what_they_mean(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", SMALL, replace(HEADER, paper="synthetic-runtime"))
    write_tables(read_report([folder], ["1", "3"]), tmp_path / "out")
    text = (tmp_path / "out" / "toy.md").read_text()
    assert (
        "- Machine: 2xideal/free\n- Objective: step-time\n- Control dependencies: order\n- Instances: 3 graphs\n"
        in text
    )
    assert "- Seeds: 1 (0)\n- Date: 2026-11-20T20:00:00+00:00\n- Processor: Some CPU, 2 cores\n- Version: 0.1" in text
    headings = cells_of(next(line for line in text.splitlines() if line.startswith("| solver")))
    etf = dict(zip(headings, cells_of(next(x for x in text.splitlines() if x.startswith("| etf"))), strict=True))
    # Improvements 20 and 0: mean 10, s = sqrt(200), half-width 12.7062 * sqrt(200 / 2) = 127. It is the best on both.
    assert etf["% vs BRKGA 5K"] == "+10.0 ± 127.1"
    assert etf["% gap best"] == "0"
    # Gaps 60% and 25%, from 50 and the larger bound 160: mean 42.5, s = 35 / sqrt(2), 12.7062 * 17.5 = 222.
    assert etf["% gap bound"] == "42.5 ± 222.4"
    assert (etf["% ≥"], etf["best graph"], etf["worst graph"], etf["ms"]) == ("100", "+20.0", "0", "2.00")
    assert all(f"- *{heading}*: " in text for heading in headings)
    # The bound of b's best, 200, is 160 and that of a's, 80, is 50.
    assert "Proven optimal: the best known on 0 of 2 graphs." in text


def test_a_time_too_short_to_be_measured_is_not_called_nothing(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", [row("a", "etf", 80, seconds=0.0), row("a", "list", 80, seconds=0.002)])
    write_tables(read_report([folder], ["3"]), tmp_path / "out")
    lines = [cells_of(line) for line in (tmp_path / "out" / "toy.md").read_text().splitlines() if line[:1] == "|"]
    assert {cells[0]: cells[2] for cells in lines[2:]} == {"etf": "under 1 us", "list": "2.00 ms"}


def test_the_csv_holds_numbers_with_their_intervals(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", SMALL)
    write_tables(read_report([folder], ["1", "3"]), tmp_path / "out")
    with (tmp_path / "out" / "table-1.csv").open() as file:
        rows = {line["setting"]: line for line in csv.DictReader(file)}
    assert rows["etf"]["improvement_percent"] == "10"
    assert rows["etf"]["improvement_percent_ci95"] == "127.062"
    assert rows["etf"]["improvement_percent_graphs"] == "2"
    assert rows["brkga 5K"]["gap_best_percent"] == "12.5"  # 25% on a, 0 on b
    with (tmp_path / "out" / "table-3.csv").open() as file:
        seconds = {line["setting"]: line for line in csv.DictReader(file)}
    assert (seconds["brkga 5K"]["mean_seconds"], seconds["brkga 5K"]["median_seconds"]) == ("0.1", "0.1")


def test_the_papers_figures_stand_beside_ours_under_its_limits_only() -> None:
    by_name = {paper.name: paper for paper in PAPER_ROWS}
    tuned = by_name["Tuned BRKGA"]
    assert (tuned.improvement["tf-runtime"], tuned.gap_best["tf-peak-memory"]) == (3.20, 7.11)
    assert (by_name["REGAL"].improvement["synthetic-runtime"], by_name["IDRS"].gap_best["tf-runtime"]) == (4.81, 28.60)
    [summary] = summaries(results_of([row("a", "brkga", 7, 5000)]))
    assert paper_row(summary.setting) is by_name["BRKGA 5K"]
    assert paper_row(replace(summary.setting, evaluations_limit=1000)) is None
    assert paper_row(replace(summary.setting, time_limit_s=1.0)) is None


def test_everything_is_printed_and_written_unless_something_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "r", SMALL)
    assert report([folder], table=["3"]) == 0
    printed = capsys.readouterr().out
    assert "Table 3" in printed
    assert "Table 1" not in printed
    assert {path.name for path in (folder / "report").iterdir()} == {"toy.md", "table-3.csv"}


def test_an_unknown_table_or_figure_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no table '2'; known are 1, 3, heuristics, limits, graphs"):
        report([tmp_path], table=["2"])
    with pytest.raises(InputError, match=r"there is no figure 'x'; known are 2, 3, 12$"):
        report([tmp_path], figure=["x"])


def test_a_narrow_terminal_leaves_columns_out_and_never_the_solver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = replace(HEADER, paper="tf-runtime")
    folder = write_results(tmp_path / "r", plausible_rows(3), header)
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        report([folder], table=["1"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines[:-1])) <= columns
        assert all(any(line.startswith(name) for line in lines) for name in ("etf", "auto 5K", "brkga 50K", "heft"))


def test_damaged_lines_are_warned_of_and_the_rest_is_used(tmp_path: Path, caplog: Any) -> None:
    folder = write_results(tmp_path / "r", SMALL)
    with (folder / "rows.jsonl").open("a") as file:
        file.write('{"graph": "a"}\n{"gra')
    [section] = read_report([folder], ["1"])
    assert len(section.results.rows) == 4
    assert [message.split("'")[2][:17] for message in caplog.messages] == [", line 5 is damag", ", line 6 is damag"]


def test_a_missing_reference_is_said(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", [row("a", "etf", 80), row("a", "dfs", 90)])
    write_tables(read_report([folder], ["1"]), tmp_path)
    text = (tmp_path / "toy.md").read_text()
    assert "No improvements: BRKGA 5K, which they are measured against, is not among these results." in text
    etf = cells_of(next(line for line in text.splitlines() if line.startswith("| etf")))
    assert etf[1:4] == ["1", "", "0"]


def test_graphs_without_the_reference_are_counted(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", [*SMALL, row("c", "etf", 1), row("d", "etf", 1)])
    write_tables(read_report([folder], ["1"]), tmp_path)
    text = (tmp_path / "toy.md").read_text()
    assert "Improvements leave out 2 graphs on which there is nothing of BRKGA 5K." in text
    assert "| etf | 4 | +10.0" in text


def test_infeasible_plans_get_a_column_only_where_there_are_some(tmp_path: Path) -> None:
    write_results(tmp_path / "r", SMALL)
    write_results(tmp_path / "s", [*SMALL, row("a", "dfs", 1, bytes_over_limit=5)])
    for folder, expected in {"r": 0, "s": 1}.items():
        write_tables(read_report([tmp_path / folder], ["1"]), tmp_path)
        assert (tmp_path / "toy.md").read_text().count("| infeasible |") == expected
    assert "| dfs | 0 | 1 |  |  |  |" in (tmp_path / "toy.md").read_text()


def test_folders_of_one_suite_are_one_study_and_repeated_rows_count_once(tmp_path: Path, caplog: Any) -> None:
    write_results(tmp_path / "r", SMALL)
    write_results(tmp_path / "s", [SMALL[2], row("a", "dfs", 90)], replace(HEADER, started="later"))
    [section] = read_report([tmp_path / "r", tmp_path / "s"], ["1"])
    assert len(section.results.rows) == 5
    assert section.results.started == (HEADER.started, "later")
    assert caplog.messages == ["toy: rows that stand in several folders are taken from the first: 1"]


def test_folders_of_other_suites_are_sections_of_their_own_with_files_of_their_own(tmp_path: Path) -> None:
    write_results(tmp_path / "r", SMALL)
    write_results(tmp_path / "s", SMALL, replace(HEADER, objective="peak-memory"))
    write_results(tmp_path / "t", SMALL, replace(HEADER, suite="../up"))
    sections = read_report([tmp_path / "r", tmp_path / "s", tmp_path / "t"], ["1"])
    written = write_tables(sections, tmp_path / "out")
    assert [path.name for path in written] == ["toy.md", "toy-2.md", "---up.md", "table-1.csv"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in written}
    assert (tmp_path / "out" / "table-1.csv").read_text().count("\ntoy-2,peak-memory,") == 2


def test_results_in_another_sequence_give_the_same_bytes(tmp_path: Path) -> None:
    rows = plausible_rows(5)
    write_results(tmp_path / "r", rows)
    write_results(tmp_path / "s", rows[::-1])
    for name in "rs":
        write_tables(read_report([tmp_path / name], ["1", "3"]), tmp_path / f"out-{name}")
    for name in ("toy.md", "table-1.csv", "table-3.csv"):
        assert (tmp_path / "out-r" / name).read_bytes() == (tmp_path / "out-s" / name).read_bytes()


def test_a_folder_without_rows_and_an_unknown_test_set_are_named(tmp_path: Path) -> None:
    write_results(tmp_path / "r", [])
    with pytest.raises(InputError, match="r' holds no results yet"):
        read_report([tmp_path / "r"], ["1"])
    write_results(tmp_path / "s", SMALL, replace(HEADER, paper="tf-runtim"))
    with pytest.raises(InputError, match="no test set 'tf-runtim'; did you mean tf-runtime"):
        read_report([tmp_path / "s"], ["1"])


def test_names_from_files_cannot_break_the_markdown(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", [row("a", "x|<b>\ny", 80)])
    write_tables(read_report([folder], ["1"]), tmp_path)
    assert "| x\\|&lt;b> y | 1 |" in (tmp_path / "toy.md").read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0, "0"),
        (-0.0, "0"),
        (0.0123, "+0.012"),
        (0.123, "+0.12"),
        (9.996, "+10.0"),
        (-123.4, "-123"),
        (54_196.8, "+54,197"),
        (-0.0001, "0.000"),
    ],
)
def test_numbers_have_about_three_digits(value: float | None, text: str) -> None:
    assert format_number(value, "+") == text


def test_an_interval_has_the_decimals_of_its_mean() -> None:
    assert format_mean(Mean(12.345, 0.567, 9)) == "12.3 ± 0.6"
    assert format_mean(Mean(0.0, 0.567, 9)) == "0 ± 0.57"
    assert format_mean(Mean(4.8111, None, 1), "+") == "+4.81"
    # With two decimals the interval would be 0.00.
    assert format_mean(Mean(0.2581, 0.0042, 9)) == "0.258 ± 0.004"


def test_a_table_says_what_code_made_its_rows_and_how_a_policy_was_trained(tmp_path: Path) -> None:
    rows = [
        *(replace(one, code="0123456789ab") for one in SMALL[:2]),
        *SMALL[2:],
        row("a", "regal", 70, 5000, trained="imitation"),
        row("a", "idrs", 70, 5000, trained="REINFORCE"),
        row("a", "cp-sat", 70, 5000, found_by="cp-sat: segments"),
    ]
    write_tables(read_report([write_results(tmp_path / "r", rows)], ["1"]), tmp_path)
    with (tmp_path / "table-1.csv").open() as file:
        told = {line["setting"]: (line["trained"], line["code"]) for line in csv.DictReader(file)}
    assert told == {
        "brkga 5K": ("", "0123456789ab"),
        "etf": ("", "unknown"),
        "regal 5K": ("imitation", "unknown"),
        "idrs 5K": ("REINFORCE", "unknown"),
        "cp-sat 5K": ("", "unknown"),
    }


def test_a_mean_over_rows_of_different_code_is_refused(tmp_path: Path) -> None:
    rows = [SMALL[0], replace(SMALL[1], code="0123456789ab"), *SMALL[2:]]
    two = "1 row of unknown and 1 row of 0123456789ab"
    with pytest.raises(InputError, match=f"rows of 'brkga 5K' were made by different code: {two}; `bench run`"):
        read_report([write_results(tmp_path / "r", rows)], ["1"])
