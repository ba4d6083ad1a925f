"""Bad chips, graphs, maps and files each end in one sentence that names the thing."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from instances import sketch
from small_problems import chip_of, random_graph, two_ops

import placewright._core as _core
from placewright.graph import Graph
from placewright.lab.memory_levels import load_map, map_memory
from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.file import read_map
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.maps import judgement
from placewright.lab.memory_levels.reward import paper_rewards
from placewright.support.errors import InputError

GOOD = 'mac_rate = 1e12\nvector_rate = 1e12\nlevels = [{name = "A", capacity = "1MiB", bandwidth = "1GB/s"}]\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("1GB/s", "0GB/s"), "bandwidth"),
        (GOOD.replace('"1GB/s"', "nan"), "bandwidth"),
        (GOOD.replace("1MiB", "-1MiB"), "capacity"),
        (GOOD.replace("mac_rate = 1e12", "mac_rate = nan"), "mac_rate"),
        (
            GOOD.replace("mac_rate = 1e12", 'mac_rate = "4TMAC/s"'),
            "mac_rate must be a number of multiply-adds per second, like 4e12, not '4TMAC/s'",
        ),
        (GOOD.replace("mac_rate = 1e12", "mac_rate = 0"), "mac_rate"),
        (GOOD.replace("vector_rate = 1e12\n", ""), "vector_rate is missing"),
        (GOOD.replace('name = "A", ', ""), r"levels\[0\]: name is missing"),
        (GOOD + 'extends = "nnip"\n', "did you mean nnpi"),
        (GOOD + "extends = ['nnpi']\n", r"extends names the unknown chip '\['nnpi'\]'"),
        (GOOD + "extends = {chip = 'nnpi'}\n", "extends names the unknown chip"),
        (GOOD + "name = ['mine']\n", "name must be a non-empty text"),
        (GOOD + "speed = 3\n", "unknown key 'speed'"),
        ("mac_rate = 1\nvector_rate = 1\nlevels = []\n", "0 levels"),
        ("levels = [", "chip.toml"),
        ("", "levels is missing"),
        (
            'extends = "nnpi"\nlevels = [{name = "A", capacity = "1MiB", bandwidth = "1GB/s"}, '
            '{name = "B", capacity = "1GiB", bandwidth = "2GB/s"}]\n',
            "'B' is faster than 'A'",
        ),
        (
            'extends = "nnpi"\nlevels = [{name = "A", capacity = "1MiB", bandwidth = "2GB/s"}, '
            '{name = "A", capacity = "1GiB", bandwidth = "1GB/s"}]\n',
            "two levels are named 'A'",
        ),
    ],
)
def test_a_chip_file_that_is_wrong(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=named) as raised:
        load_chip(path)
    assert "chip.toml" in str(raised.value)


def test_the_chip_file_in_the_documents_has_every_key(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
    path = tmp_path / "chip.toml"
    path.write_text(text.partition("### chip.toml")[2].partition("```toml\n")[2].partition("```")[0])
    chip = load_chip(path)
    assert chip.name == "npu-4"
    # What is not its default is in the file; what has none cannot be missing.
    for record in (chip, chip.levels[1]):
        assert [field.name for field in fields(record) if getattr(record, field.name) == field.default] == []


def test_presets_load_and_say_where_their_numbers_come_from() -> None:
    chips = [load_chip(name) for name in ("nnpi", "nnpi-50tops", "nnpi-tight", "nnpi-prefetch", "h100+host")]
    assert all(chip.source and chip.assumptions and chip.description for chip in chips)


def test_nothing_is_fetched_early_from_the_fastest_level() -> None:
    level = MemoryLevel(name="A", capacity_bytes=10, bandwidth_bytes_per_s=1e6, is_prefetched=True)
    with pytest.raises(InputError, match="fastest"):
        Chip(name="x", levels=(level,), mac_rate=1e9, vector_rate=1e9)


def test_a_level_of_no_bytes_is_legal_and_stays_empty() -> None:
    problem = make_memory_problem(two_ops(), chip_of(("none", 0, 1e9), ("DRAM", 10**6, 1e8)))
    _, moved, levels = problem.evaluate_one(np.zeros(problem.num_tensors, np.uint8))
    assert moved == problem.size_bytes.sum()
    assert (levels == 1).all()


def test_a_network_that_the_slowest_level_cannot_hold() -> None:
    with pytest.raises(InputError, match=r"'two-ops' does not fit on chip 'small': .*DRAM, holds 100 B"):
        make_memory_problem(two_ops(), chip_of(("SRAM", 100, 1e9), ("DRAM", 100, 1e8)))


@pytest.mark.parametrize(
    ("array", "named"),
    [
        (np.zeros((1, 3), np.uint8), "4 tensors"),
        (np.zeros(4, np.uint8), "shape"),
        (np.full((1, 4), 2, np.uint8), "level 2"),
        (np.full((1, 4), -1, np.int64), "level -1"),
        (np.zeros((1, 4), np.float64), "float64"),
        (np.full((1, 4), np.nan), "float64"),
    ],
)
def test_an_array_that_is_no_map(array: np.ndarray, named: str) -> None:
    problem = make_memory_problem(two_ops(), chip_of(("SRAM", 100, 1e9), ("DRAM", 10**6, 1e8)))
    with pytest.raises(InputError, match=named):
        problem.evaluate(array)


def one_op(**changes: Any) -> Graph:
    """A matrix product with a weight, changed."""
    made, weight = changes.pop("made", 8), changes.pop("weight", 8)
    graph = sketch(f"weight={weight}", f"op weight -> made={made}", name="one", kind="matmul")
    return replace(graph, ops=(replace(graph.ops[0], **changes),))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"time_ns": 2**61}, "op 'op' of 'one' takes impossibly long"),
        ({"attributes": {"batch": 2**40, "m": 2**40, "n": 2**40, "k": 2**40}}, "takes impossibly long"),
        ({"weight": 2**61, "made": 2**61}, "does not fit on chip 'nnpi'"),
        ({"time_ns": -1}, "impossible time"),
        ({"weight": -1}, "impossible size"),
    ],
)
def test_numbers_that_no_network_has(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make_memory_problem(one_op(**changes), load_chip("nnpi"))


def test_times_that_add_up_to_too_much_are_told_of_the_graph() -> None:
    chip = chip_of(("A", 10, 2.0), ("B", 2**61, 1.0))
    with pytest.raises(InputError, match="'one' on chip 'small': the times add up"):
        assert make_memory_problem(one_op(weight=2**40), chip).core


def test_a_tensor_that_is_read_twice_by_an_op_moves_once() -> None:
    graph = sketch("make -> one=10 | kind=fill", "square one one -> two=10", kind="elementwise")
    problem = make_memory_problem(graph, load_chip("nnpi"))
    assert problem.use_bytes.tolist() == [10, 10, 10]


def test_a_lookup_moves_the_rows_it_reads_and_may_read_a_row_again() -> None:
    # 8 B of rows from a table of 4 KB, then from one of 4 B: the same two rows come from memory again and again.
    for table, is_table in ((4096, 1), (4, 0)):
        problem = make_memory_problem(one_op(kind="embedding", weight=table), load_chip("nnpi"))
        assert problem.use_bytes.tolist() == [8, 8]
        assert problem.is_table[0] == is_table


def test_graphs_of_views_and_inputs_have_nothing_to_map() -> None:
    with pytest.raises(InputError, match="'inputs' has inputs and views only"):
        make_memory_problem(sketch("x -> x=4", name="inputs", kind="input"), load_chip("nnpi"))


def test_one_op_dead_results_and_parts_that_are_not_joined_are_legal() -> None:
    problem = make_memory_problem(sketch("one -> one=8", "two -> two=8", kind="fill"), load_chip("nnpi"))
    assert (problem.first.tolist(), problem.last.tolist()) == ([0, 1], [0, 1])
    assert problem.evaluate_one(problem.all_slowest())[1] == 0


def test_over_a_compiler_that_takes_no_time_the_faster_map_still_has_more() -> None:
    # All in DRAM, 320 B are moved at 1 B in 10 ns: a reads 60 and writes 40, b reads 40 and 50 and writes 20, 2.1 us.
    # All in SRAM that takes a tenth of it, 210 ns. Over 1 ps: (1 / 210,000)**2 against (1 / 2,100,000)**2.
    problem = make_memory_problem(two_ops(), chip_of(("SRAM", 1000, 1e9), ("DRAM", 10**6, 1e8)))
    found = problem.evaluate(np.stack([np.zeros(problem.num_tensors, np.uint8), problem.all_slowest()]))
    assert found.latency_ps.tolist() == [210_000, 2_100_000]
    assert paper_rewards(problem, found, 0).tolist() == [(1 / 210_000) ** 2, (1 / 2_100_000) ** 2]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": np.array([-1, 1], np.int64)}, r"\[0, 2\^62\)"),
        ({"size": np.array([2**61, 2**61], np.int64)}, "add up|cannot hold"),
        ({"compute_ps": np.array([2**62], np.int64)}, r"\[0, 2\^62\)"),
        ({"inverse_rate": np.array([2, 1], np.int64)}, "fastest to the slowest"),
        ({"inverse_rate": np.array([0, 1], np.int64)}, "positive rate"),
        ({"first": np.array([1, 0], np.int32)}, "held from one op"),
        ({"use_tensor": np.array([0, 2], np.int32)}, "does not exist"),
        ({"use_begin": np.array([0, 1], np.int32)}, "use_begin"),
        ({"capacity": np.array([5, 1], np.int64)}, "slowest level cannot hold"),
        ({"is_prefetched": np.array([1, 0], np.uint8)}, "fastest level"),
        ({"first": np.array([0], np.int32)}, "every tensor needs"),
        ({"use_is_early": np.array([1], np.uint8)}, "whether it may come early"),
        ({"use_is_early": np.array([1, 1], np.uint8)}, "only weights come early"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused_by_the_core(change: dict[str, np.ndarray], named: str) -> None:
    arrays: dict[str, Any] = {
        "size": np.array([3, 4], np.int64),
        "first": np.array([0, 0], np.int32),
        "last": np.array([0, 0], np.int32),
        "is_weight": np.array([1, 0], np.uint8),
        "capacity": np.array([5, 100], np.int64),
        "latency_ps": np.zeros(2, np.int64),
        "inverse_rate": np.array([1, 2], np.int64),
        "is_prefetched": np.zeros(2, np.uint8),
        "overhead_ps": np.zeros(1, np.int64),
        "compute_ps": np.zeros(1, np.int64),
        "fixed_ps": np.zeros((1, 2), np.int64),
        "use_begin": np.array([0, 2], np.int32),
        "use_tensor": np.array([0, 1], np.int32),
        "use_bytes": np.array([3, 4], np.int64),
        "use_is_early": np.array([1, 0], np.uint8),
    }
    _core.LevelProblem(**arrays)
    with pytest.raises(ValueError, match=named):
        _core.LevelProblem(**{**arrays, **change})


def saved(path: Path) -> dict[str, object]:
    map_memory(random_graph(3), "nnpi", solver="density").save(path)
    document: dict[str, object] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("kind", "plan", "is not a memory map"),
        ("schema_version", 2, "schema_version 2"),
        ("latency_ps", -1, "'latency_ps'"),
        ("latency_ps", 1.5, "'latency_ps'"),
        ("status", "good", "status is 'good'"),
        ("chip", {}, "'chip.name' is missing"),
        ("surprise", 1, "'surprise'"),
    ],
)
def test_a_map_file_that_is_wrong(key: str, value: object, named: str, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({**saved(path), key: value}))
    with pytest.raises(InputError, match=named) as raised:
        read_map(path)
    assert "map.json" in str(raised.value)


def test_a_map_file_that_is_cut_off_or_points_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "map.json.gz"
    map_memory(random_graph(3), "nnpi", solver="density").save(path)
    whole = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(whole[:-200]))
    with pytest.raises(InputError, match="not valid JSON"):
        read_map(path)
    document = json.loads(whole)
    document["tensors"]["level"][0] = 7
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(InputError, match="lies in a level that chip 'nnpi' lacks"):
        read_map(path)


def test_a_map_file_with_anything_cut_out_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    saved(path)
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        begin, size = int(random.integers(0, len(whole))), int(random.integers(1, 40))
        path.write_bytes(whole[:begin] + bytes(random.integers(32, 126, size // 4, np.uint8)) + whole[begin + size :])
        # Whatever is no map is refused by this one error.
        with suppress(InputError):
            read_map(path)


def edited(document: dict[str, Any], change: str) -> dict[str, Any]:
    """The map with its last tensor missing, there twice, or in the place of the first."""
    tensors: dict[str, list[Any]] = document["tensors"]
    for column in tensors.values():
        if change == "missing":
            column.pop()
        elif change == "twice":
            column.append(column[-1])
        else:
            column[0] = column[-1]
    return document


@pytest.mark.parametrize("change", ["missing", "twice", "in place of another"])
def test_a_map_of_other_tensors_than_its_graph_is_refuted(change: str, tmp_path: Path) -> None:
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(edited(saved(path), change)))
    assert not load_map(path).check(random_graph(3)).facts.correct


def test_a_map_that_puts_too_much_into_a_level_is_refuted(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    chip = chip_of(("SRAM", 100, 1e9), ("DRAM", 10**6, 1e8))
    map_memory(two_ops(), chip, solver="density").save(path)
    document = json.loads(path.read_text())
    document["tensors"]["level"] = [0] * len(document["tensors"]["level"])
    path.write_text(json.dumps(document))
    problems = load_map(path).check(two_ops()).facts.problems
    assert any("into SRAM during op 0, which holds 100 B" in problem for problem in problems)


def test_a_bound_that_is_not_proven_is_no_bound() -> None:
    graph, chip = two_ops(), chip_of(("SRAM", 100, 1e8), ("DRAM", 10**6, 1e7), overhead_ns=1000)
    found = map_memory(graph, chip, solver="density")
    assert judgement(found, graph)[0].correct
    for lie in (
        {"bound_ps": found.bound_ps + 1},
        {"bound_ps": found.latency_ps, "bound_reason": "so I say"},
        {"status": "feasible" if found.status == "optimal" else "optimal"},
    ):
        assert not judgement(replace(found, **lie), graph)[0].correct
