"""`placewright fit`: what it prints, draws and refuses."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import Placewright


def test_limits_lead_from_the_smallest_found_to_the_peak(placewright: Placewright, step: Path) -> None:
    outcome = placewright("fit", step, "-d", "p100@graphs", "--evaluations", "60", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    points = found["points"]
    assert (found["peak_bytes"], found["least_possible_bytes"], found["least_possible_op"]) == (142, 90, "matmul21")
    assert 90 <= found["least_found_bytes"] == points[0]["limit_bytes"] < 142
    assert points[-1] == {
        "limit_bytes": 142,
        "share": 1.0,
        "peak_bytes": 142,
        "step_time_ns": found["step_time_ns"],
        "extra_time": 0.0,
        "least_time_ns": found["step_time_ns"],
        "least_extra_time": 0.0,
        "num_reruns": 0,
        "num_moves": 0,
    }
    for less, more in pairwise(points):
        assert less["limit_bytes"] < more["limit_bytes"]
        assert less["step_time_ns"] >= more["step_time_ns"]
    for point in points:
        assert point["peak_bytes"] <= point["limit_bytes"]
        assert point["step_time_ns"] >= point["least_time_ns"]
    assert [rival["name"] for rival in found["rivals"]] == ["everything kept"]


def test_the_table_has_a_row_for_each_limit_and_each_rival(placewright: Placewright, step: Path) -> None:
    lines = placewright("fit", step, "-d", "p100@graphs", "--evaluations", "20").out.splitlines()
    assert lines[0].endswith("142 B with everything kept")
    assert re.match(r"smallest limit( found)?: ", lines[1])
    assert any(
        re.match(r" *limit +of the peak +step time +more time +at least \(proven\) +ops run again +tensors moved", x)
        for x in lines
    )
    assert any(re.match(r"everything kept +142 B", line) for line in lines)


def test_at_80_columns_no_word_is_cut(placewright: Placewright, step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (("fit", step, "-d", "p100@graphs", "--evaluations", "20"), ("inspect", step, "-d", "p100")):
        lines = placewright(*arguments).out.splitlines()
        assert not [line for line in lines if "…" in line or len(line) > 80]
    assert "-0.0%" not in placewright("fit", "example:inception-v3-train", "-d", "p100", "--evaluations", "3").out


def test_what_is_kept_leaves_one_limit(placewright: Placewright, step: Path) -> None:
    found = json.loads(placewright("fit", step, "-d", "p100", "--keep", "*", "--evaluations", "5", "--json").out)
    assert [point["limit_bytes"] for point in found["points"]] == [142]


def test_the_report_draws_the_limits_and_what_people_do(placewright: Placewright, step: Path, tmp_path: Path) -> None:
    page = tmp_path / "fit.html"
    outcome = placewright("fit", step, "-d", "p100", "--evaluations", "20", "--report", page)
    assert outcome.out.endswith(f"wrote report {page}\n")
    text = page.read_text()
    # Two drawings, for wide and for narrow windows; rows without two headings and a rival.
    assert text.count('class="best-dot"') == 2 * (text.count("<tr>") - 3)
    assert text.count('class="rival-dot"') == 2
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("-d", "2xp100"), "'2xp100' has 2 devices; ops run again on one, as in h100"),
        (("-d", "p100", "--keep", "nothing"), "keep names 'nothing', which matches no op of 'step5'"),
        (("-d", "p100", "--evaluations", "0"), "evaluations is 0; it must be a whole number from 1"),
        (("-d", "p100", "--seed=-1"), "seed is -1; it must be a whole number from 0"),
        (("-d", "p100", "--training"), "'step5' is a graph already, and not of a training step"),
        (("-d", "p100", "--report", "."), "cannot write '.': it is a folder"),
    ],
)
def test_bad_input_is_refused(placewright: Placewright, step: Path, options: tuple[str, ...], sentence: str) -> None:
    outcome = placewright("fit", step, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


def test_an_example_fits_into_less_than_checkpointed_blocks_take(placewright: Placewright) -> None:
    found = json.loads(
        placewright("fit", "example:inception-v3-train", "-d", "p100", "--evaluations", "8", "--json").out
    )
    everything, *blocks = found["rivals"]
    assert everything["num_reruns"] == 0
    assert [block["name"] for block in blocks] == [f"{count} blocks checkpointed" for count in (21, 10, 5, 2)]
    for block in blocks:
        # As frameworks do it, a step takes about a third longer, since forward runs twice.
        assert 0.25 < block["extra_time"] < 0.4
        assert block["planned_time_ns"] < block["step_time_ns"]
    assert found["least_found_bytes"] < min(block["peak_bytes"] for block in blocks)
