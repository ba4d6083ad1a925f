"""Facts about a graph before it is planned, and what differs between two plans."""

import random
from dataclasses import replace
from itertools import permutations

import pytest
from instances import graph_of, machine_of, problem_of
from plans import small_plan

from placewright.analysis.comparison import MovedOps, TransferChange, compare
from placewright.analysis.inspection import inspect_graph
from placewright.graph import Graph, Op, Tensor
from placewright.importers import load_graph
from placewright.machine import Device, Link, Machine
from placewright.machines import load_machine
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.terminal.diff_tables import diff_tables
from placewright.terminal.inspect_tables import inspect_tables
from placewright.terminal.tables import drawn

MIB = 2**20


def product(name: str, *, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Op:
    """A product of two 512 x 512 matrices: 2 * 512**3 = 268,435,456 operations."""
    attributes = {"batch": 1, "m": 512, "n": 512, "k": 512}
    return Op(name=name, kind="matmul", inputs=inputs, outputs=outputs, attributes=attributes)


def matrix(name: str, **rest: object) -> Tensor:
    return Tensor(name=name, size_bytes=MIB, shape=(512, 512), dtype="float32", **rest)  # type: ignore[arg-type]


@pytest.fixture
def graph() -> Graph:
    """x -> first -> second -> third, each with a weight of 1 MiB; third also reads x. A view follows."""
    weights = [matrix(f"w{i}", role="parameter") for i in range(3)]
    activations = [matrix("x"), matrix("a"), matrix("b"), matrix("c"), matrix("v", alias_of=6, is_output=True)]
    return Graph(
        name="three",
        ops=(
            Op(name="x", kind="input", outputs=(3,)),
            product("first", inputs=(3, 0), outputs=(4,)),
            product("second", inputs=(4, 1), outputs=(5,)),
            product("third", inputs=(5, 2, 3), outputs=(6,)),
            Op(name="view", kind="view", inputs=(6,), outputs=(7,)),
        ),
        tensors=(*weights, *activations),
    )


def test_ops_tensors_and_bytes_are_counted(graph: Graph) -> None:
    found = inspect_graph(graph, load_machine("2xp100"))
    assert (found.num_ops, found.num_scheduled_ops, found.num_tensors) == (5, 4, 8)
    assert (found.num_parameters, found.parameter_bytes) == (3 * 512 * 512, 3 * MIB)
    assert (found.activation_bytes, found.output_bytes, found.constant_bytes) == (4 * MIB, MIB, 0)
    assert found.flops == 3 * 2 * 512**3


def test_times_are_those_of_the_fastest_device_whichever_is_named_first(graph: Graph) -> None:
    """Against the CPU's time an H100 would be dozens of times faster, and so would "several devices"."""
    first, last = (inspect_graph(graph, load_machine(machine)) for machine in ("cpu+h100", "h100+cpu"))
    assert (first.device_kind, first.work_ns, first.kinds) == ("h100", last.work_ns, last.kinds)
    assert first.work_ns == first.critical_path_ns


def test_kinds_are_listed_by_time_and_add_up(graph: Graph) -> None:
    found = inspect_graph(graph, load_machine("2xp100"))
    assert [(kind.kind, kind.num_ops) for kind in found.kinds] == [("matmul", 3), ("input", 1), ("view", 1)]
    assert sum(kind.time_ns for kind in found.kinds) == found.work_ns
    # A chain leaves nothing to do in parallel.
    assert found.critical_path_ns == found.work_ns


def test_launches_of_one_host_thread_bound_what_several_devices_gain(graph: Graph) -> None:
    # Three products, each launched in 5 us; the view and the input take no time and are not launched.
    assert inspect_graph(graph, load_machine("2xp100")).launch_ns == 15_000
    for machine in ("2xp100@graphs", "2xp100@device-threads", "cpu"):
        assert inspect_graph(graph, load_machine(machine)).launch_ns == 0
    found = inspect_graph(load_graph("example:gnmt-train"), load_machine("4xh100"))
    # Twice the critical path at least, and less than the work: the launches are the floor.
    assert 2 * found.critical_path_ns < found.launch_ns < found.work_ns
    text = drawn(inspect_tables(found), roomy=True)
    assert f"so at most {found.work_ns / found.launch_ns:.2f} times faster on several" in text


def test_peaks_are_those_of_one_device_without_its_limit(graph: Graph) -> None:
    # Weights 3 MiB throughout; x lives until third. In third: x, b, c: 3 MiB more. first: x, a; second: x, a, b.
    small = replace(load_machine("p100").devices[0], memory_bytes=MIB)
    found = inspect_graph(graph, replace(load_machine("p100"), devices=(small,)))
    assert found.input_order_peak_bytes == 6 * MIB
    # Bound: third can only run when first and second have, and holds just this: the captured order is the best.
    assert found.one_device_bound_bytes == 6 * MIB
    assert (found.fits[0].name, found.fits[0].verdict, found.fits[0].missing_bytes) == ("p100", "no", 5 * MIB)


def test_between_the_bound_and_the_input_order_it_may_fit() -> None:
    # Captured: a and b (8 MiB each) are held together while c makes its 1. Bound: c after d, 8 + 1 + 1.
    crossed = graph_of({"a": ("", 8 * MIB), "b": ("", 8 * MIB), "c": ("a", MIB), "d": ("b", MIB), "e": ("c d", 0)})
    device = replace(load_machine("p100").devices[0], memory_bytes=12 * MIB)
    found = inspect_graph(crossed, replace(load_machine("p100"), devices=(device,)))
    assert (found.one_device_bound_bytes, found.input_order_peak_bytes) == (10 * MIB, 17 * MIB)
    assert found.fits[0].verdict == "maybe"
    assert {fit.verdict for fit in found.fits[1:]} == {"fits"}


def test_a_device_that_cannot_hold_the_step_is_not_the_one_whose_times_are_shown(graph: Graph) -> None:
    fast, slow = load_machine("h100+p100").devices
    machine = replace(load_machine("h100+p100"), devices=(replace(fast, memory_bytes=5 * MIB), slow))
    found = inspect_graph(graph, machine)
    assert [(fit.name, fit.verdict) for fit in found.fits[:2]] == [("h100", "no"), ("p100", "fits")]
    assert (found.device_kind, found.work_ns) == ("p100", found.fits[1].work_ns)
    assert found.fits[0].work_ns == inspect_graph(graph, load_machine("h100")).work_ns < found.work_ns
    assert all(fit.work_ns is None for fit in found.fits[2:])
    rows = [line.split() for line in drawn(inspect_tables(found), roomy=True).splitlines()]
    assert [row[0] for row in rows if row[-3:] == ["does", "not", "fit"]] == ["h100"]


def test_unequal_devices_of_one_kind_are_shown_by_name(graph: Graph) -> None:
    """Shown as one kind, they had the memory of the last of them."""
    devices = load_machine("2xp100").devices
    machine = replace(load_machine("2xp100"), devices=(replace(devices[0], memory_bytes=MIB), devices[1]))
    found = inspect_graph(graph, machine)
    own = [(fit.name, fit.available_bytes, fit.verdict) for fit in found.fits if fit.in_machine]
    assert own == [("gpu0", MIB, "no"), ("gpu1", devices[1].memory_bytes, "fits")]
    assert found.device_kind == "gpu1"


def test_a_machine_of_several_devices_shares_the_parameters_in_its_bound(graph: Graph) -> None:
    # Spread over four devices 4 MiB are 1 MiB each; third alone holds 4 MiB, so that is the bound.
    found = inspect_graph(graph, load_machine("4xp100"))
    assert found.machine_bound_bytes == 4 * MIB


def test_an_op_without_formula_is_named(graph: Graph) -> None:
    strange = replace(graph.ops[2], kind="other", attributes={})
    found = inspect_graph(replace(graph, ops=(*graph.ops[:2], strange, *graph.ops[3:])), load_machine("p100"))
    assert found.without_formula == ("second",)


def test_a_device_without_limit_fits_anything(graph: Graph) -> None:
    times = tuple(replace(op, time_ns=1) for op in graph.ops)
    machine = Machine(name="m", devices=(Device(name="d", kind="any"),), links=load_machine("p100").links)
    assert inspect_graph(replace(graph, ops=times), machine).fits[0].verdict == "fits"


def diamond(**pins: str) -> Plan:
    """a -> b and c -> d on two devices, placed by hand; 5 ns each."""
    graph = graph_of({"a": ("", 8), "b": ("a", 8), "c": ("a", 8), "d": ("b c", 8)})
    problem = problem_of(graph, machine_of(2), 5)
    return solved(replace(problem, constraints=replace(problem.constraints, pins=tuple(pins.items()))))


def solved(problem: Problem) -> Plan:
    result = make_method("list").solve(problem, SearchRun())
    return assemble_plan(problem, result, solver="list", seconds=0.1)


def test_ops_on_other_devices_are_grouped_with_their_time() -> None:
    found = compare(diamond(a="0", b="0", c="0", d="0"), diamond(a="0", b="1", c="0", d="0"))
    assert (found.num_ops, found.num_moved) == (4, 1)
    assert found.moved == (MovedOps(module="other", source="d0", destination="d1", num_ops=1, time_ns=5),)
    # a must reach d1 and b come back: two transfers of 8 bytes.
    assert found.transfers_added == TransferChange(num_transfers=2, size_bytes=16)
    assert found.transfers_kept == found.transfers_removed == TransferChange(num_transfers=0, size_bytes=0)


def test_plans_that_only_swap_equal_devices_are_the_same_plan() -> None:
    one, other = diamond(a="0", b="1", c="0", d="0"), diamond(a="1", b="0", c="1", d="1")
    found = compare(one, other)
    assert (found.num_moved, found.renamed) == (0, (("d0", "d1"), ("d1", "d0")))
    assert found.transfers_kept == TransferChange(num_transfers=2, size_bytes=16)
    assert found.transfers_added == found.transfers_removed == TransferChange(num_transfers=0, size_bytes=0)
    text = drawn(diff_tables(one, other, found))
    assert "equal devices of the second plan are renamed: d0 counts as d1, d1 counts as d0" in text
    # Three of four ops stay with their names, so nothing is renamed.
    assert compare(one, diamond(a="0", b="1", c="0", d="1")).renamed == ()


def test_devices_that_differ_in_limits_or_links_keep_their_names() -> None:
    one, other = diamond(a="0", b="1", c="0", d="0"), diamond(a="1", b="0", c="1", d="1")
    limited = replace(one, memory_limits_bytes=(None, 100)), replace(other, memory_limits_bytes=(None, 100))
    assert (compare(*limited).num_moved, compare(*limited).renamed) == (4, ())
    slow, fast = Link(latency_ns=9), Link()
    machine = replace(one.machine, links=((fast, slow), (fast, fast)))  # d0 sends slowly, d1 does not
    uneven = replace(one, machine=machine), replace(other, machine=machine)
    assert (compare(*uneven).num_moved, compare(*uneven).renamed) == (4, ())


def test_no_renaming_of_many_equal_devices_keeps_more_ops() -> None:
    # Against all 720 renamings of six devices, on plans that share little.
    places = random.Random(3)
    plan = solved(problem_of(graph_of({f"op{i}": ("", 8) for i in range(24)}), machine_of(6), 5))
    one, other = (
        replace(plan, ops=tuple(replace(op, device=places.randrange(6)) for op in plan.ops)) for _ in range(2)
    )
    place = one.device_of
    most = max(sum(place[op.name] == names[op.device] for op in other.ops) for names in permutations(range(6)))
    assert compare(one, other).num_moved == 24 - most


def test_the_order_distance_is_the_share_of_pairs_that_changed_places() -> None:
    # Of the six pairs of a, b, c, d only (b, c) may change places.
    plan = diamond(a="0", b="0", c="0", d="0")
    first, second, third, fourth = plan.ops
    swapped = replace(plan, ops=(first, third, second, fourth))
    assert compare(plan, swapped).order_distance == pytest.approx(1 / 6)
    assert compare(plan, plan).order_distance == 0
    assert compare(plan, replace(plan, ops=plan.ops[::-1])).order_distance == 1


def test_plans_for_different_graphs_are_not_compared() -> None:
    plan = small_plan()
    other = replace(plan, graph_fingerprint="1" * 64)
    with pytest.raises(InputError, match="different graphs: both are named 'layered network' and have the same ops"):
        compare(plan, other)
    with pytest.raises(InputError, match="different graphs: 'layered network' and 'x'"):
        compare(plan, replace(other, graph_name="x"))
    fewer = replace(other, ops=plan.ops[:3])
    with pytest.raises(InputError, match="only the first has op 'd'"):
        compare(plan, fewer)
