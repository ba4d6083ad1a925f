"""The text of the page, before any browser draws it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from plans import MIB, Node, layered_plan, machine_of, plan_of, small_plan
from runs import slow_run

from placewright.analysis.critical_path import critical_path, runs_of, shares_of
from placewright.analysis.outcome import bound_words
from placewright.bounds.bound import BoundReason
from placewright.costs.estimate import TimeSources
from placewright.machine import Link
from placewright.plans.record import BaselineOutcome, MemoryCurve, OneDevice, ScheduledOp
from placewright.report import html_of, write_report
from placewright.report.columns import columns
from placewright.report.markup import element, escaped
from placewright.support.errors import InputError


def text_of(page: str) -> str:
    """The page's text without script, style and tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))


def name_of(step: object) -> str:
    return step.name if isinstance(step, ScheduledOp) else step.tensor  # type: ignore[attr-defined]


# --- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_stands_beside_the_plan() -> None:
    plan = small_plan()
    page = html_of(plan, slow_run(plan))
    text = text_of(page)
    # 228.764 us as planned, and twice that in the run; the one convolution takes 30 us.
    for told in ("Planned and measured", "229 us planned", "458 us measured, +100.0%", "conv130.0 us60.0 us+100.0%",
                 "1.50 times as fast as one of the devices; planned 2.00",
                 "they took 458 us to 1.14 ms"):  # fmt: skip
        assert told in text, told
    assert "Planned and measured" not in text_of(html_of(plan))
    assert columns(plan, slow_run(plan))["run"] == {
        "end": 2 * 228_764,
        "position": [op.position for op in plan.ops],
        "start": [2 * op.start_ns for op in plan.ops],
        "duration": [2 * (op.finish_ns - op.start_ns) for op in plan.ops],
    }


def test_a_run_of_another_plan_is_refused() -> None:
    other = layered_plan(20, 2)
    with pytest.raises(InputError, match="and not of this plan"):
        html_of(small_plan(), slow_run(other))


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_report_is_one_file_that_names_nothing_to_load(tmp_path: Path) -> None:
    write_report(small_plan(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w+", page) == []
    assert re.findall(r"<link\b[^>]*>|\bsrc=|@import|url\(", page) == ['<link rel="icon" href="data:,">']
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_ten_thousand_ops_stay_within_a_few_megabytes() -> None:
    assert len(html_of(layered_plan(10_000, 4))) < 4 * 10**6


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        write_report(small_plan(), tmp_path / "missing" / "report.html")


def test_the_embedded_columns_are_the_plans() -> None:
    plan = layered_plan(100, 2)
    page = html_of(plan)
    embedded = re.search(r'id="plan-data">(.*?)</script>', page, flags=re.DOTALL)
    assert embedded is not None
    data = json.loads(embedded.group(1))
    assert data == json.loads(json.dumps(columns(plan)))
    assert data["ops"]["name"] == [op.name for op in plan.ops]
    kinds = [data["ops"]["kind"]["table"][at] for at in data["ops"]["kind"]["at"]]
    assert kinds == [op.kind for op in plan.ops]
    for device, curve in enumerate(plan.memory_curves):
        differences = data["curves"][device]["bytes"]
        assert max(sum(differences[: i + 1]) for i in range(len(differences))) == max(curve.bytes_in_use)


def test_names_cannot_end_the_script_or_open_an_element() -> None:
    name = "</script><b onclick='x'>&\"\u2028"
    page = html_of(plan_of([Node(name=name, module=name)], machine_of(1), graph_name=name))
    assert page.count("</script>") == 2
    assert "<b onclick" not in page


# --- what it says ----------------------------------------------------------------------------------------------------


def test_the_head_tells_the_objective_against_one_device_the_best_baseline_and_the_captured_order_and_the_gap() -> None:
    """228,764 ns; etf at 109% is best among those that fit; the captured order at 205%, gpu1 alone at twice the time;
    bound 70,000 / 2 = 35,000 ns: 1 - 1 / 1.09 = 8.3%, 1 - 1 / 2.05 = 51.2%; gap 228,764 / 35,000 - 1 = 553.6%."""
    plan = small_plan()
    alone = replace(plan.metrics, step_time_ns=2 * plan.metrics.step_time_ns)
    one = OneDevice(device=1, order="input-order", num_elsewhere=0, metrics=alone)
    text = text_of(html_of(replace(plan, one_device=one)))
    for told in (
        "229 us",
        "8.3% less than etf, the best baseline (249 us)",
        "50.0% less than gpu1 (p100), captured order, alone (458 us)",
        "51.2% less than gpu0 (p100), captured order, as named (469 us)",
    ):
        assert told in text
    assert "Gap 553.6%: at most 84.7% less." in text


def test_the_head_says_that_times_are_predicted_and_from_what() -> None:
    told = "predicted; the plan does not say whether times were measured"
    assert told in text_of(html_of(small_plan()))
    sources = TimeSources(stated=4, measured=0, roofline=0, guessed=0)
    assert "predicted: times stated in the graph" in text_of(html_of(small_plan(time_sources=sources)))


@pytest.mark.parametrize(
    ("name", "model", "title"),
    [
        ("BertForMaskedLM", "nets/bert.onnx", "BertForMaskedLM"),
        ("main_graph", "nets/bert.large.onnx", "bert"),
        ("Sequential", None, "unnamed network (Sequential)"),
    ],
)
def test_the_title_is_no_class_of_a_framework(name: str, model: str | None, title: str) -> None:
    page = html_of(small_plan(graph_name=name, configuration={"model": model}))
    assert f"<h1>{title} <" in page
    assert f"<title>{title} on 2xp100</title>" in page
    assert f"<dt>graph</dt><dd>{name}</dd>" in page


def test_a_single_device_says_nothing_of_what_is_moved() -> None:
    assert "Moved between devices" in html_of(small_plan())
    alone = plan_of([replace(node, device=0) for node in small_plan_nodes()], machine_of(1))
    assert "Moved between devices" not in html_of(alone)


def test_a_plan_for_peak_memory_leads_with_memory() -> None:
    plan = replace(small_plan(), objective="peak-memory", lower_bound=4 * MIB)
    text = text_of(html_of(plan))
    assert text.index("Peak memory 5.00 MiB".replace(" 5", "5")) < text.index("Step time229 us")
    assert "Gap 25.0%: at most 20.0% less." in text
    assert text.index("Alive at the peak") < text.index("Timeline")


def test_a_plan_for_peak_memory_opens_with_memory_before_and_after() -> None:
    """8 MiB in the captured order, 5 MiB in the plan: 37.5% less."""
    before = MemoryCurve(time_ns=(0, 10, 20), bytes_in_use=(0, 8 * MIB, 0))
    plan = small_plan(objective="peak-memory", input_order_memory=before)
    text = text_of(html_of(plan))
    assert "before: captured order on one device, at most 8.00 MiB" in text
    assert "after: this plan, on its fullest device, at most 5.00 MiB (37.5% less)" in text
    assert text.index("before and after") < text.index("Alive at the peak") < text.index("Devices")
    assert "before and after" not in text_of(html_of(small_plan()))


def test_where_the_time_goes_adds_up_over_the_devices() -> None:
    """Computing takes 70,000 of 2 x 228,764 ns. gpu0 waits for a transfer (c's: 89,382 ns) and before it for c
    (99,382); gpu1 waits for a (10,000) and its transfer (89,382) and has nothing left to do for 99,382."""
    text = text_of(html_of(small_plan()))
    told = "computing 15.3%waiting for transfers 39.1%waiting for other ops 23.9%nothing left to do 21.7%"
    assert f"Where the time goes{told}" in text


def test_who_found_the_plan_is_said_at_the_bottom() -> None:
    text = text_of(html_of(small_plan()))
    assert text.count("brkga") == 1
    assert "found bybrkga, 5,000 evaluations in 840 ms" in text
    assert text.index("found by") > text.index("Biggest tensors")


@pytest.mark.parametrize("reason", get_args(BoundReason))
def test_the_bound_is_a_sentence_and_its_name_a_tooltip(reason: BoundReason) -> None:
    page = html_of(small_plan(bound_reason=reason))
    claim, why = bound_words(small_plan(bound_reason=reason))
    assert claim == "No plan can be faster than"
    assert f"No plan can be faster than35.0 us{why[0].upper()}{why[1:]}." in text_of(page)
    assert f'title="lower bound: {reason}"' in page
    assert "nothing is proven" in text_of(html_of(small_plan(bound_reason=reason, lower_bound=0)))


def test_a_wide_gap_is_said_to_be_the_bounds_own_where_it_counts_no_transfers() -> None:
    said = "much of the gap may be its own"
    assert said in text_of(html_of(small_plan()))
    assert said not in text_of(html_of(small_plan(bound_reason="critical path with shared work and transfers")))
    assert said not in text_of(html_of(small_plan(lower_bound=round(small_plan().step_time_ns / 1.04))))
    free = replace(small_plan().machine, links=((Link(),) * 2,) * 2)
    assert said not in text_of(html_of(replace(small_plan(), machine=free)))


def test_what_does_not_fit_is_compared_by_what_is_missing_and_what_fits_not_by_time() -> None:
    """1 MiB over against etf's 0, then against 3 MiB; then a plan that fits against the 3 MiB."""
    plan = plan_of(small_plan_nodes(), machine_of(2, 4 * MIB))
    (etf,) = (baseline for baseline in plan.baselines if baseline.name == "etf")
    assert "does not fit, unlike etf" in text_of(html_of(replace(plan, baselines=(etf,))))
    assert etf.metrics is not None
    over = replace(etf, metrics=replace(etf.metrics, bytes_over_limit=3 * MIB))
    told = text_of(html_of(replace(plan, baselines=(over,))))
    assert "Over the memory limits1.00 MiBetf, the best baseline: 3.00 MiB" in told
    assert "fits, unlike etf" in text_of(html_of(small_plan(baselines=(over,))))


def test_a_plan_that_does_not_fit_says_what_is_needed_available_and_missing() -> None:
    """gpu0 peaks at 5 MiB, gpu1 at 3 MiB, with 4 MiB each: 1 MiB is missing on gpu0 alone."""
    nodes = small_plan_nodes()
    text = text_of(html_of(plan_of(nodes, machine_of(2, 4 * MIB))))
    assert "This plan does not fit: 1.00 MiB over the limit in all." in text
    assert "gpu05.00 MiB4.00 MiB1.00 MiB" in text
    assert "gpu13.00 MiB4.00 MiB" not in text


def test_a_plan_that_does_not_fit_says_what_is_proven_and_nothing_of_gaps() -> None:
    plan = plan_of(small_plan_nodes(), machine_of(2, 4 * MIB))
    proven = replace(
        plan,
        status="infeasible",
        stopped_because="infeasible",
        memory_floor_bytes=6 * MIB,
        lower_bound=plan.metrics.step_time_ns,
    )
    text = text_of(html_of(proven))
    assert "It is proven that no plan can fit: every plan needs at least 6.00 MiB on its fullest device." in text
    assert "optimal" not in text
    assert not re.search(r"\bgap\b", text)
    assert "Whether another one fits is not known" in text_of(html_of(replace(proven, stopped_because="evaluations")))


def test_a_plan_that_does_not_fit_says_what_fills_the_device_and_what_would_help() -> None:
    """gpu0's 5 MiB: the outputs of b, c (a copy) and d, and two weights; the weights of 3 MiB fit into 2 x 4 MiB."""
    text = text_of(html_of(plan_of(small_plan_nodes(), machine_of(2, 4 * MIB))))
    assert "At its peak gpu0 holds 2.00 MiB of tensors between ops, 2.00 MiB of parameters and constants and" in text
    assert "Devices of 5.00 MiB or more would hold this plan, such as rtx5060ti" in text
    assert "A smaller batch shrinks most of the 3.00 MiB beside parameters and constants." in text


def test_what_does_not_fit_shows_memory_before_time() -> None:
    text = text_of(html_of(plan_of(small_plan_nodes(), machine_of(2, 4 * MIB))))
    assert text.index("Over the memory limits") < text.index("Step time")
    assert text.index("Alive at the peak") < text.index("Timeline of the closest plan, which does not fit")


def test_options_that_were_given_are_listed_in_words() -> None:
    asked = {"model": "m.onnx", "dims": {}, "memory_limit": 2**30, "pins": {"op0": "1"}, "evaluations": 5000}
    text = text_of(html_of(replace(small_plan(), configuration=asked)))
    assert "optionsmodel m.onnx; memory limit 1.00 GiB; pins op0 = 1; evaluations 5,000" in text


def small_plan_nodes() -> list[Node]:
    """The nodes of plans.small_plan."""
    return [
        Node(name="a", parameter_bytes=MIB, device=0),
        Node(name="b", inputs=(0,), time_ns=20_000, parameter_bytes=MIB, device=0),
        Node(name="c", inputs=(0,), time_ns=30_000, parameter_bytes=MIB, device=1),
        Node(name="d", inputs=(1, 2), device=0),
    ]


def test_baselines_that_do_not_fit_are_hatched_and_those_without_answer_say_why() -> None:
    page = html_of(small_plan())
    assert page.count('class="fill hatched"') == 2
    assert "needs one device" in page
    assert "220 us, 300 MiB over the limit" in page


def test_orders_of_one_device_that_come_to_the_same_are_one_bar() -> None:
    """Both leave gpu1 idle and move nothing; a third that moves something is a bar of its own."""
    metrics = replace(small_plan().metrics, step_time_ns=400_000, busy_ns=(400_000, 0), num_transfers=0)
    outcomes = [BaselineOutcome(name=name, metrics=metrics, seconds=0.01) for name in ("input-order", "dfs")]
    moving = BaselineOutcome(name="etf", metrics=replace(metrics, num_transfers=2), seconds=0.01)
    text = text_of(html_of(small_plan(baselines=(*outcomes, moving))))
    assert "all on one deviceinput-order, dfs400 us, +74.9%" in text
    assert "etf400 us, +74.9%" in text


def test_bars_of_a_plan_that_does_not_fit_are_bytes_over_the_limits() -> None:
    plan = plan_of(small_plan_nodes(), machine_of(2, 4 * MIB))
    assert "this plan1.00 MiB" in text_of(html_of(plan))
    assert "reverse-greedy20.0 MiB, 20x" in text_of(html_of(plan))


def test_layers_have_their_share_of_time_on_each_device() -> None:
    """b and c are one layer of 50 us, 20 on gpu0 and 30 on gpu1; a and d have 10 us each on gpu0: 20 of 70 us stay."""
    modules = ("stem.0", "body.1.left", "body.1.right", "stem.1")
    nodes = [replace(node, module=module) for node, module in zip(small_plan_nodes(), modules, strict=True)]
    page = html_of(plan_of(nodes, machine_of(2, 16 * MIB)))
    text = text_of(page)
    assert "29% of the computing time is in layers that stay on one device" in text
    assert "stem.0-1220.0 us28.6%100%–" in text
    assert "body.1250.0 us71.4%40%60%" in text


def test_without_modules_or_with_one_device_there_is_no_table_of_layers() -> None:
    assert "Layers by device" not in html_of(plan_of(small_plan_nodes(), machine_of(2, 16 * MIB)))
    nodes = [replace(node, module="m.0", device=0) for node in small_plan_nodes()]
    assert "Layers by device" not in html_of(plan_of(nodes, machine_of(2, 16 * MIB)))


def test_of_many_devices_a_layer_names_those_with_most_of_its_time() -> None:
    """Nine ops of one layer of 1 us, op i on device i, and one more on gpu4: 2 of 10 us there."""
    nodes = [Node(name=f"op{i}", module="layer.0", device=i, time_ns=1_000) for i in range(9)]
    nodes.append(Node(name="more", module="layer.0", device=4, time_ns=1_000))
    assert "gpu4 20%, gpu0 10%, gpu1 10% and 6 more" in text_of(html_of(plan_of(nodes, machine_of(9))))


def test_devices_have_load_peak_limit_and_headroom() -> None:
    """gpu0 computes 40 of 228.8 us and leaves 11 of its 16 MiB."""
    text = text_of(html_of(small_plan()))
    assert "gpu0 p100340.0 us17.5%5.00 MiB31.2%16.0 MiB11.0 MiB" in text


def test_of_a_limit_of_nothing_there_is_no_share() -> None:
    text = text_of(html_of(small_plan(memory_limits_bytes=(0, 16 * MIB))))
    assert "gpu0 p100340.0 us17.5%5.00 MiB–0 B5.00 MiB over" in text


def test_memory_over_time_beside_an_order_that_held_nothing_has_no_share() -> None:
    before = MemoryCurve(time_ns=(0,), bytes_in_use=(0,))
    text = text_of(html_of(small_plan(objective="peak-memory", input_order_memory=before)))
    assert "on its fullest device, at most 5.00 MiB (more)" in text


# --- the critical path -----------------------------------------------------------------------------------------------


def test_the_critical_path_follows_what_each_step_waited_for() -> None:
    path = critical_path(small_plan())
    assert [name_of(step) for step in path] == ["a", "a:0", "c", "c:0", "d"]


def test_the_shares_of_the_critical_path_add_up_to_the_step_time() -> None:
    """Compute 10 + 30 + 10 us, transfers 2 x 89,382 ns, no waiting: 228,764 ns."""
    shares = shares_of(runs_of(critical_path(small_plan())))
    assert shares == {"compute": 50_000, "transfer": 178_764, "waiting": 0, "launching": 0}
    plan = layered_plan(2_000, 4)
    assert sum(shares_of(runs_of(critical_path(plan))).values()) == plan.metrics.step_time_ns


def test_a_gap_between_steps_is_a_run_of_waiting() -> None:
    """d is made to start 1,000 ns after what it waited for, as when a signal crosses a link."""
    plan = small_plan()
    late = replace(plan.ops[3], start_ns=plan.ops[3].start_ns + 1_000, finish_ns=plan.ops[3].finish_ns + 1_000)
    runs = runs_of(critical_path(replace(plan, ops=(*plan.ops[:3], late))))
    assert [run.what for run in runs] == ["compute", "transfer", "compute", "transfer", "waiting", "compute"]
    assert runs[4].busy_ns == 1_000


def test_successive_ops_of_one_device_are_one_run() -> None:
    nodes = [Node(name=f"op{i}", inputs=(i - 1,) if i else ()) for i in range(5)]
    (run,) = runs_of(critical_path(plan_of(nodes, machine_of(1))))
    assert (len(run.steps), run.busy_ns) == (5, 50_000)


def test_a_plan_without_steps_waiting_for_each_other_has_a_path_of_one() -> None:
    plan = plan_of([Node(name="x", time_ns=5), Node(name="y", time_ns=7, device=1)], machine_of(2))
    assert [name_of(step) for step in critical_path(plan)] == ["y"]


# --- markup ----------------------------------------------------------------------------------------------------------


def test_text_is_escaped_once_and_markup_never_again() -> None:
    inner = element("b", "<&>", title="\"'")
    assert inner == '<b title="&quot;&#x27;">&lt;&amp;&gt;</b>'
    assert element("p", inner) == f"<p>{inner}</p>"
    assert escaped("a\x00b") == "a\ufffdb"
