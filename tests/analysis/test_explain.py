"""Explanations add up: peaks to their bytes, the path to the step time, a device's day to the step."""

from dataclasses import replace

from hypothesis import given, settings
from instances import graph_of, machine_of, problem_of
from plans import MIB, layered_plan, small_plan
from strategies import problems

from placewright.analysis.explain import Stretch, explain, explain_path, explain_peak
from placewright.analysis.idle import explain_idle
from placewright.analysis.module_pattern import layer_of_ops, module_of_parameter, module_pattern
from placewright.machine import Link
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


def plan_for(problem: Problem, solver: str = "auto") -> Plan:
    result = make_method(solver).solve(problem, SearchRun(Budget(evaluations=20)))
    return assemble_plan(problem, result, solver=solver, seconds=0.25)


def test_a_peak_is_explained_by_what_is_alive_when_the_step_begins_that_brings_it() -> None:
    # When d starts at 218,764 gpu0 holds the weights of a and b, b's result, c's copy and d's own result: 5 MiB.
    peak = explain_peak(small_plan(), 0)
    assert (peak.peak_bytes, peak.time_ns) == (5 * MIB, 218_764)
    assert peak.op is not None
    assert peak.op == small_plan().ops[3]
    assert {(group.module, group.kind, group.size_bytes) for group in peak.groups} == {
        ("a", "resident", MIB),
        ("b", "resident", MIB),
        ("decoder", "copy", MIB),
        ("encoder.second", "tensor", MIB),
        ("head", "tensor", MIB),
    }
    assert (peak.bytes_of("resident"), peak.bytes_of("copy"), peak.bytes_of("workspace")) == (2 * MIB, MIB, 0)


def test_a_device_over_its_limit_says_by_how_much_and_how_long() -> None:
    # gpu0 holds more than 4 MiB only while d runs: 10,000 ns, by 1 MiB.
    plan = small_plan()
    peak = explain_peak(replace(plan, memory_limits_bytes=(4 * MIB, None)), 0)
    assert (peak.missing_bytes, peak.over_limit_ns) == (MIB, 10_000)


def test_a_device_that_only_holds_residents_has_no_step_that_brings_its_peak() -> None:
    problem = problem_of(graph_of({"a": ("", 8)}), machine_of(2))
    peak = explain_peak(plan_for(problem, "input-order"), 1)
    assert (peak.peak_bytes, peak.op, peak.groups) == (0, None, ())


def test_the_critical_path_is_taken_apart_by_layer_and_place() -> None:
    # a (10 us on gpu0), its MiB to gpu1 (89,382 ns), c (30 us), its MiB back, d (10 us): b is not on the path.
    path = explain_path(small_plan())
    assert (path.compute_ns, path.transfer_ns, path.waiting_ns) == (50_000, 2 * 89_382, 0)
    assert (path.num_steps, path.num_device_changes) == (5, 2)
    assert path.stretches[2] == Stretch(
        what="compute", module="decoder", device=1, destination=-1, num_steps=1, time_ns=30_000
    )


def test_idle_time_goes_to_transfers_to_the_others_and_to_the_end() -> None:
    # gpu0 computes a and b until 30,000 and d from 218,764 on. The transfer it awaits takes the last 89,382 ns of that
    # wait; the 99,382 ns before it gpu1 was not done. gpu1 awaits a (10,000) and its transfer, and is done at 129,382.
    first, second = explain_idle(small_plan())
    assert (first.busy_ns, first.transfer_ns, first.others_ns, first.end_ns) == (40_000, 89_382, 99_382, 0)
    assert (second.busy_ns, second.transfer_ns, second.others_ns, second.end_ns) == (30_000, 89_382, 10_000, 99_382)
    assert first.waits_on == ((1, 188_764),)


def test_blocking_transfers_take_time_of_both_devices() -> None:
    # a (5 ns) on d0, a transfer of 4 bytes at 1 byte per ns, b (7 ns) on d1: each takes part in 4 ns of transfer.
    link = Link(bandwidth_bytes_per_s=1e9)
    problem = problem_of(graph_of({"a": ("", 4), "b": ("a", 0)}), machine_of(2, link, "blocking"), [5, 7])
    plan = plan_for(replace(problem, constraints=replace(problem.constraints, pins=(("a", "0"), ("b", "1")))))
    first, second = explain_idle(plan)
    assert (first.busy_ns, first.transfer_ns, first.others_ns, first.end_ns) == (5, 4, 0, 7)
    assert (second.busy_ns, second.transfer_ns, second.others_ns, second.end_ns) == (7, 4, 5, 0)


def test_the_gap_to_a_bound_by_work_is_what_devices_wait_on_average() -> None:
    # 70,000 ns of work on two devices bound the step at 35,000; it takes 228,764. The two idle 188,764 and 198,764:
    # for transfers 89,382 each, for one another 99,382 and 10,000, at the end 0 and 99,382.
    gap = explain(small_plan()).gap
    assert gap is not None
    assert (gap.value, gap.bound) == (228_764, 35_000)
    assert gap.parts == (
        ("devices wait for transfers", 89_382),
        ("devices wait for one another", 54_691),
        ("devices have nothing left to do at the end", 49_691),
    )


def test_causes_that_do_not_explain_the_bound_are_left_out() -> None:
    # Transfers take 178,764 ns of the critical path; of a gap of 228,764 - 100,000 they would be 139%.
    plan = replace(small_plan(), lower_bound=100_000, bound_reason="critical path")
    gap = explain(plan).gap
    assert gap is not None
    assert (gap.value - gap.bound, gap.parts) == (128_764, ())


def test_a_plan_that_does_not_fit_has_no_gap() -> None:
    assert explain(replace(small_plan(), status="infeasible")).gap is None


@settings(max_examples=100)
@given(problem=problems())
def test_every_explanation_adds_up(problem: Problem) -> None:
    plan = plan_for(problem)
    found, step = explain(plan), plan.metrics.step_time_ns
    for peak in found.peaks:
        assert sum(group.size_bytes for group in peak.groups) == peak.peak_bytes == plan.metrics.peak_bytes[peak.device]
    path = found.path
    finishes = [step.finish_ns for step in plan.ops] + [transfer.finish_ns for transfer in plan.transfers]
    assert path.compute_ns + path.transfer_ns + path.waiting_ns + path.launching_ns == max(finishes, default=0)
    assert sum(stretch.time_ns for stretch in path.stretches) == path.compute_ns + path.transfer_ns
    for device in found.idle:
        idle = device.transfer_ns + device.others_ns + device.launch_ns + device.end_ns
        assert device.busy_ns + idle == step
        assert min(device.transfer_ns, device.others_ns, device.launch_ns) >= 0
    assert (found.gap is None) == (plan.status == "infeasible")
    if found.gap is not None and found.gap.parts:
        assert sum(amount for _, amount in found.gap.parts) == found.gap.value - found.gap.bound
        assert min(amount for _, amount in found.gap.parts) > 0


def test_repeated_layers_are_one_group() -> None:
    groups = explain_peak(layered_plan(400, 2), 0).groups
    assert any(group.num_buffers > 1 and group.module.startswith("tower0.layer.*.") for group in groups)
    assert len({(group.module, group.kind) for group in groups}) == len(groups)


def test_numbers_between_dots_are_layers_and_without_a_module_an_op_stands_for_itself() -> None:
    assert module_pattern("encoder.layer.11.grid_35.0") == "encoder.layer.*.grid_35.*"
    first, *rest = small_plan().ops
    assert layer_of_ops([replace(first, module=""), *rest])["a"] == "a"


def test_where_no_op_has_a_module_kinds_stand_for_ops() -> None:
    ops = [replace(op, module="") for op in small_plan().ops]
    assert layer_of_ops(ops) == {"a": "matmul", "b": "matmul", "c": "conv", "d": "reduction"}


def test_a_parameter_belongs_to_the_longest_module_its_name_begins_with() -> None:
    modules = {"", "encoder.0", "encoder.0.dense"}
    assert module_of_parameter("encoder.0.dense.weight.exp_avg", modules) == "encoder.0.dense"
    assert module_of_parameter("pooler.weight", modules) == "pooler"
    assert module_of_parameter("conv1_w", modules) == "conv1_w"
