"""The small parts of the command line: texts, progress, interruption."""

from functools import partial

import pytest

from placewright.cli.exit_codes import complain
from placewright.cli.progress import progress_line
from placewright.lab.commands.counting import counting
from placewright.problem.objective import format_objective
from placewright.search.run.budget import Progress
from placewright.support.errors import printable
from placewright.support.quantities import change, counted, format_count, proven_change, round_marks, share, shortened


def test_long_names_lose_their_middle() -> None:
    assert shortened("encoder.layer.11.output", 30) == "encoder.layer.11.output"
    assert shortened("encoder.layer.11.attention.output.dense", 20) == "encoder…output.dense"
    assert len(shortened("x" * 100, 33)) == 33


def test_unprintable_characters_are_shown_as_escapes() -> None:
    assert printable("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"
    assert printable("größe 層") == "größe 層"


def test_numbers_read_short() -> None:
    assert [format_count(n) for n in (0, 999, 1000, 329_123_456, 2_740_000_000_000)] == [
        "0",
        "999",
        "1 K",
        "329 M",
        "2.74 T",
    ]
    assert (format_count(544, "FLOP"), format_count(8_280_000_000, "FLOP")) == ("544 FLOP", "8.28 GFLOP")
    assert (counted(1, "op"), counted(1234, "op")) == ("1 op", "1,234 ops")
    assert (share(1, 3), share(0, 0)) == ("33%", "-")
    assert (share(4, 1000), share(0, 1000), share(6, 1000)) == ("<1%", "0%", "1%")


def test_changes_are_relative_and_huge_ones_are_factors() -> None:
    assert change(112, 100) == "+12.0%"
    assert change(100, 100) == "same"
    assert change(60, 100) == "-40.0%"
    assert (change(99_990, 100_000), change(100_010, 100_000)) == ("0.0%", "0.0%")  # of no sign
    assert change(5000, 100) == "50x"
    assert change(5, 0) == "more"
    leasts = (112, 100.01, 100, 98)
    assert [proven_change(int(least * 1000), 100_000) for least in leasts] == ["+12.0%", "none", "none", "none"]


def test_marks_of_an_axis_are_round_and_tell_apart() -> None:
    gib = 2**30
    assert [text for _, text in round_marks(17 * gib, 19 * gib, 5, kind="bytes")] == [
        *("17.0 GiB", "17.5 GiB", "18.0 GiB", "18.5 GiB", "19.0 GiB")
    ]
    times = round_marks(146_930_000, 147_260_000, 4, kind="time")
    assert [text for _, text in times] == ["147.0 ms", "147.1 ms", "147.2 ms"]
    assert [value for value, _ in times] == pytest.approx([147.0e6, 147.1e6, 147.2e6])
    (only,) = round_marks(5, 5, 4, kind="time")
    assert only[0] == 5


def test_progress_names_method_rate_and_best_so_far() -> None:
    progress = Progress(method="brkga", evaluations=3000, seconds=1.5, best=12_300_000, bytes_over_limit=0)
    assert (
        progress_line(progress, partial(format_objective, "step-time"))
        == "brkga: 3,000 evaluations, 2,000/s, best 12.3 ms"
    )
    over = Progress(method="etf", evaluations=5, seconds=0, best=2**20, bytes_over_limit=2**30)
    assert progress_line(over, partial(format_objective, "peak-memory")) == (
        "etf: 5 evaluations, 0/s, best 1.00 MiB, 1.00 GiB over the memory limit"
    )


def test_a_long_sentence_names_the_first_members_of_its_lists(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"no device 'x' (known: {', '.join(f'device_number_{i}' for i in range(40))}); try another")
    known = "known: device_number_0, device_number_1, device_number_2 and 37 more"
    assert capsys.readouterr().err == f"placewright: error: no device 'x' ({known}); try another\n"
    complain("a, b, c, d, e, f")
    assert capsys.readouterr().err == "placewright: error: a, b, c, d, e, f\n"


def test_the_time_left_without_a_terminal_leaves_out_what_was_done_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("placewright.lab.commands.counting.time.monotonic", lambda: now[0])
    with counting(1000, "steps") as advance:
        # A killed training goes on at step 900; in two minutes it does 20 more, so the last 80 take eight.
        for now[0], done in ((1.0, 900), (121.0, 920), (481.0, 990), (541.0, 998)):
            advance(done, "")
    lines = ["920 of 1,000 steps, 8 minutes left", "990 of 1,000 steps, 1 minute left"]
    assert capsys.readouterr().err.splitlines() == [*lines, "998 of 1,000 steps, less than a minute left"]
