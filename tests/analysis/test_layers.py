"""The device of each layer: what one would write down to apply a plan by hand."""

from __future__ import annotations

from plans import Node, machine_of, plan_of

from placewright.analysis.layers import place_layers
from placewright.plans.record import Plan


def plan_with(*places: tuple[str, int], machine_size: int = 2, time_ns: int = 1_000) -> Plan:
    """Ops of 1 us, (module, device) each."""
    nodes = [
        Node(name=f"op{i}", module=module, device=device, time_ns=time_ns) for i, (module, device) in enumerate(places)
    ]
    return plan_of(nodes, machine_of(machine_size))


def rows(plan: Plan) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(row.name, row.device, row.time_ns) for row in place_layers(plan)]


def test_successive_layers_on_one_device_are_one_row() -> None:
    plan = plan_with(*((f"encoder.layer.{i}.attention", i // 3) for i in range(6)))
    assert rows(plan) == [("encoder.layer.0-2", 0, (3_000, 0)), ("encoder.layer.3-5", 1, (0, 3_000))]


def test_a_layer_whose_time_is_divided_belongs_to_no_device() -> None:
    """Layer 0: 1 of 2 us on each; layer 1: 10 of 11 us, which is more than nine tenths, on gpu1."""
    plan = plan_with(("l.0.q", 0), ("l.0.k", 1), ("l.1.q", 0), *[("l.1.k", 1)] * 10)
    assert rows(plan) == [("l.0", -1, (1_000, 1_000)), ("l.1", 1, (1_000, 10_000))]


def test_layers_stand_in_the_order_in_which_they_run_and_by_number() -> None:
    """The mask of the head is filled first of all; the middle of the head's three ops is its last but one."""
    plan = plan_with(
        ("head.out.mask", 1), ("words", 0), ("layer.10", 0), ("layer.9", 0), ("head.out", 1), ("head.out.bias", 1)
    )
    assert [name for name, _, _ in rows(plan)] == ["words", "layer.9-10", "head.out"]


def test_layers_that_change_their_device_too_often_are_one_row() -> None:
    plan = plan_with(*((f"layer.{i}", i % 2) for i in range(20)))
    assert rows(plan) == [("layer.0-19", -1, (10_000, 10_000))]


def test_numbers_at_the_beginning_and_ops_without_time_or_module() -> None:
    plan = plan_with(("0", 0), ("1", 0), ("", 1), time_ns=0)
    (row,) = place_layers(plan)
    assert (row.name, row.device, row.num_ops, row.time_ns) == ("0-1", 0, (2, 0), (0, 0))
