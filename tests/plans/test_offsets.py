"""Arenas hold all that a device holds, without overlaps, and are as small as the peak where possible."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from arenas import check_arenas
from hypothesis import given
from instances import plan_of
from strategies import solved

from placewright import plan as make_plan
from placewright._core import smallest_arena
from placewright.importers import load_graph
from placewright.plans.offsets import Arena, lay_out
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.errors import InputError

_Timed = tuple[int, int, int]  # begin, end, size


def packed(buffers: list[_Timed], effort: int = 10_000_000) -> tuple[list[int], int, int]:
    """Offsets, size and bound, after a look at every pair."""
    begin, end, size = (np.array(column) for column in zip(*buffers, strict=True))
    offsets, arena, bound = smallest_arena(begin.astype(np.int32), end.astype(np.int32), size.astype(np.int64), effort)
    placed = list(zip(buffers, offsets.tolist(), strict=True))
    for index, ((b, e, s), at) in enumerate(placed):
        assert 0 <= at <= arena - s
        for (b2, e2, s2), at2 in placed[:index]:
            assert e <= b2 or e2 <= b or at + s <= at2 or at2 + s2 <= at
    assert arena == max(at + s for (_, _, s), at in placed)
    assert peak(buffers) <= bound <= arena
    return offsets.tolist(), arena, bound


def peak(buffers: list[_Timed]) -> int:
    return max(sum(s for b, e, s in buffers if b <= time < e) for time, _, _ in buffers)


def least(buffers: list[_Timed]) -> int:
    """Return the size of the smallest arena: over all orders, each buffer as low as the earlier ones allow."""
    best = sum(size for _, _, size in buffers)
    for order in permutations(buffers):
        placed: list[tuple[_Timed, int]] = []
        top = 0
        for b, e, s in order:
            around = sorted((at, at + size) for (b2, e2, size), at in placed if b < e2 and b2 < e)
            place = 0
            for low, high in around:
                if low - place >= s:
                    break
                place = max(place, high)
            placed.append(((b, e, s), place))
            top = max(top, place + s)
            if top >= best:
                break
        best = min(best, top)
    return best


def test_minimallocs_example_takes_the_peak() -> None:
    """b1 [0, 3), b2 [3, 9), b3 [0, 9), b4 [9, 21), b5 [0, 21) of 4 each: three at a time, 12, which is known."""
    _, arena, bound = packed([(0, 3, 4), (3, 9, 4), (0, 9, 4), (9, 21, 4), (0, 21, 4)])
    assert (arena, bound) == (12, 12)


def test_what_begins_as_another_ends_may_have_its_bytes() -> None:
    assert packed([(0, 2, 5), (2, 4, 5)]) == ([0, 0], 5, 5)


def test_events_may_have_any_numbers() -> None:
    assert packed([(0, 2**31 - 1, 5), (2**31 - 2, 2**31 - 1, 7)])[1:] == (12, 12)


def test_a_buffer_that_stays_lies_at_an_end() -> None:
    """An allocator puts the first at 0, the second at 1 and, once the first is freed, the third of 2 on top: 4. With
    the second at an end of the arena it takes 1 + 2 = 3, as much as is held then."""
    buffers = [(0, 2, 1), (0, 4, 1), (2, 5, 2)]
    assert peak(buffers) == least(buffers) == 3
    assert packed(buffers)[1:] == (3, 3)


def test_an_arena_above_the_peak_is_proven_where_all_was_tried() -> None:
    """Two buffers of 4 halve an arena of 8 bytes: c and d, then e and g. While d lives, a of 1 and b of 3 fill the
    other half; while e lives, b and f of 1 do. It is the same half, as b is in it. So a and f would share one place,
    but both live from 2 to 3: the arena takes 9."""
    a, b, c, d, e, f, g = (1, 3, 1), (1, 4, 3), (0, 1, 4), (0, 2, 4), (3, 5, 4), (2, 4, 1), (4, 6, 4)
    buffers = [a, b, c, d, e, f, g]
    assert (peak(buffers), least(buffers)) == (8, 9)
    assert packed(buffers)[1:] == (9, 9)


def random_case(seed: int) -> list[_Timed]:
    draw = random.Random(seed)
    times = [sorted(draw.sample(range(9), 2)) for _ in range(draw.randint(1, 7 if seed % 16 == 0 else 6))]
    return [(b, e, draw.randint(1, 6)) for b, e in times]


def test_no_order_of_a_few_buffers_takes_less() -> None:
    for seed in range(100):
        case = random_case(seed)
        _, arena, bound = packed(case)
        assert arena == bound == least(case), f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_a_rectangle_that_was_cut_is_put_together_again(seed: int) -> None:
    """The arena is full at all times, as in MiniMalloc's cases: 1,000 high, cut 60 times across or along."""
    draw = random.Random(seed)
    parts = [(0, 500, 1000)]
    while len(parts) < 61:
        b, e, s = parts.pop(max(range(len(parts)), key=lambda i: (parts[i][1] - parts[i][0]) * parts[i][2]))
        if draw.random() < 0.5:
            parts += [(b, cut := draw.randrange(b + 1, e), s), (cut, e, s)]
        else:
            parts += [(b, e, cut := draw.randrange(1, s)), (b, e, s - cut)]
    assert packed(parts, 200_000_000)[1] == 1000


def test_many_buffers_are_placed_as_they_come() -> None:
    """200,000 buffers, ten of which are held at a time: too many for a search, placed in n log n."""
    draw = random.Random(1)
    sizes = [draw.randint(1, 100) for _ in range(200_000)]
    begin = np.arange(len(sizes), dtype=np.int32)
    _, arena, bound = smallest_arena(begin, begin + np.int32(10), np.array(sizes, np.int64), 1_000_000)
    assert bound <= arena < 2 * bound


@pytest.mark.parametrize(
    ("begin", "end", "size", "said"),
    [
        ([], [], [], "of one buffer at least"),
        ([0], [1, 2], [1], "one number per buffer"),
        ([1], [1], [1], "ends after it begins"),
        ([-1], [1], [1], "at 0 or later"),
        ([0], [1], [0], "a size above 0"),
        ([0, 0], [1, 1], [2**62, 2**62], "add up to too much"),
    ],
)
def test_the_core_refuses_what_is_no_buffer(begin: list[int], end: list[int], size: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smallest_arena(np.array(begin, np.int32), np.array(end, np.int32), np.array(size, np.int64), 1)


@given(solved())
def test_the_arenas_of_any_plan_are_right(case: tuple[Problem, Solution]) -> None:
    problem, solution = case
    plan = plan_of(problem, solution)
    arenas = lay_out(plan, alignment=1)
    assert check_arenas(plan, problem.graph, arenas) == []
    for arena, in_use in zip(arenas, plan.peak_bytes, strict=True):
        assert arena.size_bytes >= arena.bound_bytes >= in_use


@pytest.mark.parametrize("alignment", [1, 64, 4096])
@pytest.mark.parametrize("name", ["bert-base-train", "inception-v3-train", "resnet50-onnx"])
def test_the_arenas_of_a_network_are_its_peaks(name: str, alignment: int) -> None:
    graph = load_graph(f"example:{name}")
    plan = make_plan(graph, "2xh100", evaluations=1)
    arenas = lay_out(plan, alignment)
    assert check_arenas(plan, graph, arenas) == []
    for arena, in_use in zip(arenas, plan.peak_bytes, strict=True):
        assert arena.size_bytes == arena.bound_bytes
        assert in_use <= arena.size_bytes <= 1.01 * in_use


@pytest.mark.parametrize("alignment", [0, -64, 48])
def test_an_alignment_is_a_power_of_two(alignment: int) -> None:
    plan = make_plan(load_graph("example:resnet50-int8"), "h100", evaluations=1)
    with pytest.raises(InputError, match=f"an alignment is a power of two, not {alignment}"):
        lay_out(plan, alignment)


def test_the_check_names_what_is_wrong_in_an_arena() -> None:
    graph = load_graph("example:resnet50-int8")
    plan = make_plan(graph, "h100", evaluations=1)
    (arena,) = lay_out(plan)
    first, *rest = arena.buffers

    def said(wrong: Arena) -> str:
        return "\n".join(check_arenas(plan, graph, [wrong]))

    def moved(offset: int) -> Arena:
        return replace(arena, buffers=(replace(first, offset=offset), *rest))

    assert said(arena) == ""
    assert "holds other buffers" in said(replace(arena, buffers=tuple(rest)))
    assert "not a multiple of 64 within the arena" in said(moved(first.offset + 32))
    assert "not a multiple of 64 within the arena" in said(moved(arena.size_bytes))
    assert "in one place at 0 ns" in said(moved(rest[0].offset))
    assert "smaller than its bound" in said(replace(arena, bound_bytes=arena.size_bytes + 64))
