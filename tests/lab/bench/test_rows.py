"""Results on disk: kept row by row, read back whatever happened to the file."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bench_rows import HEADER, row

from placewright.lab.bench.rows import Results, read_results
from placewright.support.errors import InputError

ROW = row("a", "brkga", 10, 5000)
ROWS = [ROW, replace(ROW, seed=1), replace(ROW, graph="b", time_limit_s=1.0, evaluations_limit=None)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = Results(tmp_path / "r", HEADER)
    for kept in ROWS:
        results.add(kept)
    results.close()
    return tmp_path / "r"


def test_rows_are_read_as_they_were_added(folder: Path) -> None:
    assert read_results(folder) == (HEADER, ROWS, [])
    again = Results(folder, replace(HEADER, started="later", processor="another"))
    assert list(again.rows.values()) == ROWS
    assert again.rows.keys() == {row.key for row in ROWS}


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_file_that_was_cut_off_loses_its_last_row_only(folder: Path, cut: int) -> None:
    path = folder / "rows.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    kept = ROWS if cut == 1 else ROWS[:2]  # Without its newline alone the last row is whole.
    assert read_results(folder)[1] == kept
    results = Results(folder, HEADER)
    assert len(results.complaints) == (cut > 1)
    results.add(replace(ROW, seed=9))
    results.close()
    assert read_results(folder)[1:] == ([*kept, replace(ROW, seed=9)], [])


@pytest.mark.parametrize("damage", [b"\x00\x00\x00", b"[1, 2]", b'{"graph":"a"}', b'"text"', b"{" * 100_000])
def test_a_damaged_line_is_named_and_set_aside_and_the_rest_kept(folder: Path, damage: bytes) -> None:
    path = folder / "rows.jsonl"
    lines = path.read_bytes().splitlines()
    before = b"\n".join([lines[0], damage, lines[2]]) + b"\n"
    path.write_bytes(before)
    _, rows, complaints = read_results(folder)
    assert rows == [ROWS[0], ROWS[2]]
    assert len(complaints) == 1
    assert complaints[0].startswith(f"'{path}', line 2 is damaged: ")
    results = Results(folder, HEADER)
    results.close()
    assert results.complaints == complaints
    assert (folder / "rows.damaged").read_bytes() == damage + b"\n"
    assert Results(folder, HEADER).complaints == []


def test_lines_that_were_set_aside_earlier_stay(folder: Path) -> None:
    path = folder / "rows.jsonl"
    for damage in (b"first", b"second", b""):
        path.write_bytes(path.read_bytes() + damage)
        Results(folder, HEADER).close()
    assert (folder / "rows.damaged").read_bytes() == b"first\nsecond\n"
    path.write_bytes(b"")
    Results(folder, HEADER).close()
    assert (folder / "rows.damaged").read_bytes() == b"first\nsecond\n"


def test_gzipped_rows_are_added_to_not_hidden(folder: Path) -> None:
    plain = folder / "rows.jsonl"
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert read_results(folder)[1] == ROWS
    results = Results(folder, HEADER)
    assert list(results.rows.values()) == ROWS
    results.add(replace(ROW, seed=9))
    results.close()
    assert read_results(folder)[1] == [*ROWS, replace(ROW, seed=9)]


def test_a_second_run_into_the_same_folder_is_refused_until_the_first_ends(folder: Path) -> None:
    first = Results(folder, HEADER)
    with pytest.raises(InputError, match=r"another run is adding rows to '.*r'; let it end or choose another"):
        Results(folder, HEADER)
    first.close()
    Results(folder, HEADER).close()


def test_rows_that_are_removed_under_a_run_end_it(folder: Path) -> None:
    results = Results(folder, HEADER)
    (folder / "rows.jsonl").unlink()
    with pytest.raises(InputError, match=r"rows.jsonl' was removed while rows were added to it"):
        results.add(replace(ROW, seed=9))
    results.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"objective": "12"},
        {"objective": -1},
        {"objective": 10**400},
        {"seconds": None},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"time_limit_s": 1e300},
        {"evaluations_limit": 5.5},
        {"status": 3},
        {"bound": True},
        {"solver": "\ud800"},
        {"extra": 1},
    ],
)
def test_a_row_with_a_value_of_the_wrong_kind_is_damaged(folder: Path, changed: dict[str, object]) -> None:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps({**asdict(ROW), **changed}) + "\n")
    _, rows, complaints = read_results(folder)
    assert (rows, len(complaints)) == ([], 1)


def test_a_row_that_stands_twice_counts_once(folder: Path) -> None:
    path = folder / "rows.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    assert read_results(folder)[1] == ROWS


def test_results_of_other_work_are_not_mixed(folder: Path) -> None:
    with pytest.raises(InputError, match=r"holds results with another control \(order, not signal\); choose another"):
        Results(folder, replace(HEADER, control="signal"))
    Results(folder, HEADER).close()  # What was refused has not locked it.
    (folder / "run.json").unlink()
    with pytest.raises(InputError, match=r"holds rows.jsonl without run.json"):
        Results(folder, HEADER)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": 2, "suite": 3}'])
def test_a_header_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run.json' is not the header of benchmark results"):
        read_results(folder)


@pytest.mark.parametrize("version", [1, 3])
def test_the_header_of_another_version_is_told_from_damage(folder: Path, version: int) -> None:
    (folder / "run.json").write_text(f'{{"schema_version": {version}, "more": 1}}')
    said = (
        rf"run.json' has schema_version {version}; this placewright reads version 2, and `placewright bench run` makes"
    )
    with pytest.raises(InputError, match=said):
        read_results(folder)


def test_rows_that_are_set_aside_are_kept_and_can_be_made_again(folder: Path) -> None:
    results = Results(folder, HEADER)
    results.set_aside([ROWS[1].key])
    assert [json.loads(line)["seed"] for line in (folder / "rows.stale").read_text().splitlines()] == [1]
    results.add(replace(ROWS[1], objective=9))
    results.set_aside([ROWS[0].key])
    results.close()
    assert len((folder / "rows.stale").read_text().splitlines()) == 2
    assert read_results(folder)[1] == [ROWS[2], replace(ROWS[1], objective=9)]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make folder '.*file/r': Not a directory"):
        Results(tmp_path / "file" / "r", HEADER)
