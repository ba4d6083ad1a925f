"""Sizes, durations and bandwidths: read exactly, written with three significant digits."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.support.errors import InputError
from placewright.support.quantities import (
    format_bytes,
    format_time_ns,
    limit_text,
    parse_bandwidth,
    parse_bytes,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("80GB", 80 * 1000**3),
        ("10GiB", 10 * 1024**3),
        ("1.5 MiB", 1_572_864),
        (" 2 kb ", 2000),
        ("1_000 KB", 10**6),
        ("1e3KiB", 1_024_000),
        ("0.3GiB", 322_122_547),  # 0.3 * 2**30 = 322122547.2; a limit must not grow, so down
    ],
)
def test_sizes_are_read_exactly(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


def test_a_limit_in_words_is_the_next_round_one_that_suffices() -> None:
    assert limit_text(14 * 2**20 + 1) == "15MiB"
    assert limit_text(3277 * 2**20) == "3.21GiB"  # 3.2002 GiB
    assert limit_text(16 * 2**28) == "4GiB"


@given(st.integers(0, 2**55))
def test_a_limit_in_words_holds_what_it_is_for(size: int) -> None:
    limit = parse_bytes(limit_text(size))
    assert size <= limit <= size + max(2**20, 2**30 // 100 + 1)


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1s", 10**9),
        ("50ms", 50 * 10**6),
        ("5us", 5000),
        ("5µs", 5000),
        ("5μs", 5000),
        ("2min", 12 * 10**10),
        (".5us", 500),
    ],
)
def test_durations_are_read_exactly(text: str, time_ns: int) -> None:
    assert parse_duration_ns(text) == time_ns


@pytest.mark.parametrize(
    ("text", "rate"), [("25GB/s", 25e9), ("1 GiB/s", 2.0**30), ("100Gbit/s", 12.5e9), ("1B / s", 1.0)]
)
def test_bandwidths_are_read_exactly(text: str, rate: float) -> None:
    assert parse_bandwidth(text) == rate


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "nan", "inf", "10G", "10 XB", "1.2.3GB", "1e40GB", "9" * 30])
def test_impossible_sizes_are_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="size '"):
        parse_bytes(text)


def test_bits_are_not_taken_for_bytes() -> None:
    with pytest.raises(InputError, match="bits"):
        parse_bytes("10Gb")


@pytest.mark.parametrize(
    ("text", "why"), [("10", "no unit"), ("10 fortnights", "fortnights"), ("-5us", "not understood")]
)
def test_impossible_durations_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_duration_ns(text)


@pytest.mark.parametrize("text", ["25GB", "25", "GB/s", "25GB/h", "0B/s", "-1GB/s"])
def test_impossible_bandwidths_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),  # 1000 / 1024
        (1_739_461_755, "1.62 GiB"),
        (1023 * 1024, "0.999 MiB"),  # four digits in KiB, so the next unit
        (-(2**31), "-2.00 GiB"),
    ],
)
def test_sizes_are_written_with_three_digits(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (750, "750 ns"),
        (9_996, "10.0 us"),  # 9.996 rounds to 10.00, whose third digit is one further left
        (999_600, "1.00 ms"),
        (12_400_000, "12.4 ms"),
        (10**12, "16.7 min"),
    ],
)
def test_times_are_written_with_three_digits(time_ns: int, text: str) -> None:
    assert format_time_ns(time_ns) == text


@given(st.integers(0, 2**62 - 1))
def test_a_plain_number_of_bytes_reads_back_exactly(size_bytes: int) -> None:
    assert parse_bytes(str(size_bytes)) == parse_bytes(f"{size_bytes} B") == size_bytes


@given(st.integers(0, 2**55))
def test_written_sizes_read_back_within_half_a_percent(size_bytes: int) -> None:
    assert abs(parse_bytes(format_bytes(size_bytes)) - size_bytes) <= 0.005 * size_bytes + 1  # reading rounds down


@given(st.integers(0, 10**15))
def test_written_times_read_back_within_half_a_percent(time_ns: int) -> None:
    assert abs(parse_duration_ns(format_time_ns(time_ns)) - time_ns) <= 0.005 * time_ns + 1


@given(st.text(max_size=20))
def test_no_text_does_worse_than_an_input_error(text: str) -> None:
    for parse in (parse_bytes, parse_duration_ns, parse_bandwidth):
        with suppress(InputError):
            assert parse(text) >= 0


@pytest.mark.parametrize("parse", [parse_bytes, parse_duration_ns, parse_bandwidth])
@pytest.mark.parametrize("text", ["1" * 2_000_000 + "GB/s", "1" * 2_000_000 + "s", "\u0662GB", "\u0662s", "\u0662GB/s"])
def test_endless_numbers_and_digits_of_other_scripts_are_not_understood(parse: Any, text: Any) -> None:
    with pytest.raises(InputError, match="not understood") as caught:
        parse(text)
    assert len(str(caught.value)) < 250
