"""show, explain, diff, check, export, inspect and devices."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Placewright, chain_graph

from placewright import load, plan
from placewright.costs.estimate import TimeSources
from placewright.importers import save_graph
from placewright.plans.file import write_plan
from placewright.support.quantities import format_time_ns


def test_show_prints_the_table_of_plan(placewright: Placewright, model: Path, saved: Path) -> None:
    shown = placewright("show", saved).out.splitlines()
    planned = placewright("plan", model, "-d", "2xp100", "--evaluations", "50").out.splitlines()
    assert [line for line in shown if "took" not in line] == [line for line in planned if "took" not in line]


def test_every_command_that_shows_times_says_what_they_rest_on(
    placewright: Placewright, model: Path, saved: Path
) -> None:
    basis = "predicted: times stated in the graph; launched by one host thread, added on top"
    planned = ["plan", model, "-d", "2xp100", "--evaluations", "1"]
    for command in (planned, ["show", saved], ["inspect", model], ["diff", saved, saved]):
        assert placewright(*command).out.splitlines()[1] == basis
    assert basis in placewright("explain", saved).out.splitlines()
    for command in (planned, ["show", saved], ["inspect", model]):
        assert json.loads(placewright(*command, "--json").out)["basis"] == basis


def test_explain_tells_peak_path_idle_time_and_gap(placewright: Placewright, saved: Path) -> None:
    text = placewright("explain", saved).out
    for part in ("peak of gpu0: ", "activations", "to spare", "critical path: ", "computing", "what each device does"):
        assert part in text
    assert "above the lower bound of" in text or "optimal" in text
    assert max(map(len, text.splitlines())) <= 100


def test_explain_says_how_far_a_device_is_from_fitting(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    placewright("plan", model, "-d", "2xp100", "--memory-limit", "1.5MiB", "--evaluations", "20", "-o", tmp_path / "p")
    text = placewright("explain", tmp_path / "p").out
    assert "over its limit of 1.50 MiB by " in text
    assert "Largest there: " in text
    assert "This plan would fit under a memory limit of 2MiB, which the devices have." in text


def test_a_plan_made_in_python_asks_for_its_model_as_the_command_takes_it(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    plan(chain_graph(30), "2xp100", evaluations=10).save(tmp_path / "p.json")
    outcome = placewright("explain", tmp_path / "p.json", "--op", "op3")
    assert outcome.code == 2
    assert "so say which graph it is for: explain PLAN --op NAME --model FILE, in Python " in outcome.err
    assert placewright("explain", tmp_path / "p.json", "--op", "op3", "--model", model).code == 0


def test_explain_takes_a_module(placewright: Placewright, saved: Path) -> None:
    # 30 ops of 200 us in two towers.
    assert placewright("explain", saved, "--op", "tower.1").out.splitlines()[0] == "tower.1: 15 ops, 3.00 ms"
    assert len(json.loads(placewright("explain", saved, "--op", "tower", "--json").out)["longest"]) == 8


def test_diff_of_a_plan_with_itself_finds_nothing(placewright: Placewright, saved: Path) -> None:
    text = placewright("diff", saved, saved).out
    assert "0 of 31 ops on another device; 0.0% of all pairs of ops in the other order" in text
    assert "0 removed (0 B), 0 added (0 B)" in text


def test_diff_names_what_moved(placewright: Placewright, model: Path, saved: Path, tmp_path: Path) -> None:
    one = ["-d", "2xp100", "--pin", "*=0", "-o", tmp_path / "one.json"]
    placewright("plan", model, *one)
    text = placewright("diff", tmp_path / "one.json", saved).out
    assert any(line.startswith("tower.*") and "gpu0  gpu1" in line for line in text.splitlines())
    assert "step time" in text


def test_check_uses_the_measured_times_the_plan_was_made_with(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "times.csv").write_text("op,device,time_us\nop*,*,7\n")
    placewright("plan", model, "-d", "2xp100", "--measured", tmp_path / "times.csv", "-o", tmp_path / "p.json")
    assert placewright("check", model, tmp_path / "p.json").code == 0
    (tmp_path / "times.csv").write_text("op,device,time_us\nop*,*,8\n")
    assert placewright("check", model, tmp_path / "p.json").code == 1


def test_check_does_not_let_a_plan_call_its_times_measured(placewright: Placewright, model: Path, saved: Path) -> None:
    plan = load(saved)
    write_plan(replace(plan, time_sources=TimeSources(stated=0, measured=30, roofline=0, guessed=0)), saved)
    outcome = placewright("check", model, saved)
    assert outcome.code == 1
    said = "0 stated, 30 measured, 0 roofline, 0 guessed, expected 30 stated, 0 measured, 0 roofline, 0 guessed"
    assert f"- the plan says that its times are {said}" in " ".join(outcome.out.split())


def test_check_lists_what_is_wrong_with_code_1(placewright: Placewright, model: Path, saved: Path) -> None:
    plan = load(saved)
    late = replace(plan.ops[-1], start_ns=plan.ops[-1].start_ns + 1, finish_ns=plan.ops[-1].finish_ns + 1)
    write_plan(replace(plan, ops=(*plan.ops[:-1], late)), saved)
    outcome = placewright("check", model, saved)
    assert outcome.code == 1
    assert f"- op '{late.name}' starts and finishes at " in outcome.out


def test_check_names_what_does_not_match_in_another_graph(
    placewright: Placewright, saved: Path, tmp_path: Path
) -> None:
    save_graph(chain_graph(32), tmp_path / "longer.json")
    outcome = placewright("check", tmp_path / "longer.json", saved)
    assert outcome.code == 2
    assert "2 ops of the graph are not in the plan: op30, op31" in outcome.err


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("perfetto", "plan.perfetto.json.gz"),
        ("csv", "plan.csv"),
        ("device-map", "plan.device-map.json"),
        ("memory-viz", "plan.memory-viz.pickle"),
        ("offsets", "plan.offsets.json"),
    ],
)
def test_export_writes_beside_the_plan(target: str, name: str, placewright: Placewright, saved: Path) -> None:
    outcome = placewright("export", saved, "--to", target)
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, str(saved.with_name(name)))
    assert (len(outcome.out.splitlines()) == 1) == (target != "device-map")
    assert saved.with_name(name).stat().st_size > 0


@pytest.mark.parametrize(
    ("target", "alignment", "said"),
    [("offsets", 3, "an alignment is a power of two, not 3"), ("csv", 64, "the target csv has no alignment")],
)
def test_an_alignment_is_a_power_of_two_and_of_offsets(
    target: str, alignment: int, said: str, placewright: Placewright, saved: Path
) -> None:
    outcome = placewright("export", saved, "--to", target, "--alignment", alignment)
    assert (outcome.code, outcome.err) == (2, f"placewright: error: {said}\n")
    assert list(saved.parent.glob("*.offsets.json")) == []
    assert placewright("export", saved, "--to", "offsets", "--alignment", 4096).code == 0
    written = json.loads(saved.with_name("plan.offsets.json").read_text())
    assert {buffer["offset"] % 4096 for device in written["devices"] for buffer in device["buffers"]} == {0}


def test_a_device_map_says_what_it_costs_if_the_model_is_there(
    placewright: Placewright, model: Path, saved: Path, tmp_path: Path
) -> None:
    """Two towers, one per device: the map is the plan's placement, one op at a time takes 6 ms, as one device does."""
    told = placewright("export", saved, "--to", "device-map").out.splitlines()
    step_time = format_time_ns(load(saved).metrics.step_time_ns)
    assert told[2].startswith(f"step time: plan {step_time}; this map {step_time} planned anew, 6.")
    assert told[2].endswith(" one op at a time as hooks run it; gpu0 (p100) alone 6.00 ms")
    assert placewright("export", saved, model, "--to", "device-map").out.splitlines() == told
    (moved := tmp_path / "elsewhere.json").write_bytes(model.read_bytes())
    model.unlink()
    outcome = placewright("export", saved, "--to", "device-map")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"placewright: error: cannot read '{model}': No such file or directory\n"
    assert placewright("export", saved, moved, "--to", "device-map").out.splitlines() == told


def test_split_points_are_written_with_what_they_cost(placewright: Placewright, saved: Path, tmp_path: Path) -> None:
    """A chain of two layers, one per device; the two towers of the other plan have no layer after the other."""
    chain = chain_graph(4)
    layers = tuple(replace(op, module=f"layer.{index // 2}") for index, op in enumerate(chain.ops))
    save_graph(replace(chain, ops=layers), tmp_path / "chain.json")
    pins = ["--pin", "layer.0=gpu0", "--pin", "layer.1=gpu1"]
    placewright("plan", tmp_path / "chain.json", "-d", "2xp100", *pins, "-o", tmp_path / "p.json")
    told = placewright("export", tmp_path / "p.json", "--to", "pipelining").out.splitlines()
    assert told[0] == str(tmp_path / "p.pipelining.json")
    assert told[3].startswith("slowest stage: ")
    assert json.loads((tmp_path / "p.pipelining.json").read_text())["split_before"] == ["layer.1"]
    refused = placewright("export", saved, "--to", "pipelining")
    assert (refused.code, refused.out) == (2, "")
    assert "split points need module paths" in refused.err


def test_a_device_map_of_another_model_is_refused(placewright: Placewright, saved: Path, tmp_path: Path) -> None:
    save_graph(chain_graph(32), tmp_path / "longer.json")
    outcome = placewright("export", saved, tmp_path / "longer.json", "--to", "device-map")
    assert (outcome.code, outcome.out) == (2, "")
    assert not saved.with_name("plan.device-map.json").exists()


def test_export_writes_where_it_is_told(placewright: Placewright, saved: Path, tmp_path: Path) -> None:
    assert placewright("export", saved, "--to", "perfetto", "-o", tmp_path / "t.json.gz").code == 0
    assert json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]


def test_inspect_shows_counts_kinds_and_where_it_fits(placewright: Placewright, model: Path) -> None:
    text = placewright("inspect", model).out
    assert text.startswith("towers: 31 ops, 31 of them to schedule\n")
    for part in ("critical path 3.00 ms", "6.00 ms on one h100", "peak memory", "one device is enough: "):
        assert part in text


def test_inspect_names_the_devices_that_are_too_small(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text('[[devices]]\npreset = "p100"\nmemory = "1MiB"\nkind = "tiny"\n')
    text = placewright("inspect", model, "-d", tmp_path / "small.toml").out
    assert "too small alone" in text
    assert "tiny" in text


def test_of_many_devices_that_are_too_small_inspect_names_the_machines_own_and_the_largest(
    placewright: Placewright,
) -> None:
    text = placewright("inspect", "example:llama-3-8b-train", "-d", "t4").out
    rows = text[text.index("too small alone") :].splitlines()
    assert len(rows) == 1 + 1 + 5 + 1
    assert rows[1].startswith("t4 ")
    assert rows[-1].startswith("and ")
    sizes = [float(row.split()[1]) for row in rows[2:-1]]
    assert sizes == sorted(sizes)


def test_devices_are_listed_shown_and_detected(placewright: Placewright, tmp_path: Path) -> None:
    listed = placewright("devices", "list").out
    assert all(name in listed for name in ("k80", "h100", "rtx4090", "mi300x", "bf16", "nvlink4", "pcie3", "100g"))
    shown = placewright("devices", "show", "cpu+2xk80").out
    assert "cpu+2xk80: 3 devices" in shown
    assert "cpu0 -> gpu0 and 5 other directions" in shown


def test_a_machine_that_was_written_can_be_planned_for(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    assert placewright("devices", "show", "2xt4", "-o", tmp_path / "m.json").code == 0
    placewright("plan", model, "-d", tmp_path / "m.json", "--evaluations", "20", "-o", tmp_path / "p.json")
    assert [device.kind for device in load(tmp_path / "p.json").machine.devices] == ["t4", "t4"]


def test_an_idle_device_holds_nothing_and_gets_no_table(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    placewright("plan", model, "-d", "2xp100", "--pin", "*=0", "-o", tmp_path / "one.json")
    text = placewright("explain", tmp_path / "one.json").out
    assert "peak of gpu1: nothing is held\n" in text
    assert text.count("alive then") == 1


def test_examples_are_listed_with_what_they_are(placewright: Placewright) -> None:
    rows = {line.split()[0]: line for line in placewright("examples").out.splitlines() if line}
    assert "torch, training, adam" in rows["bert-base-train"]
    assert "2,287" in rows["bert-base-train"]
    assert "float32[1, 3, 224, 224]" in rows["resnet50-onnx"]
    assert json.loads(placewright("examples", "--json").out)["examples"]["resnet50-onnx"]["num_ops"] == 177


def test_inspect_shows_inputs_and_speaks_of_optimizer_state_only_where_there_is_some(placewright: Placewright) -> None:
    inference = placewright("inspect", "example:resnet50-onnx").out
    assert "float32[1, 3, 224, 224]" in inference
    assert "optimizer" not in inference
    training = placewright("inspect", "example:inception-v3-train").out
    assert "27.2 M, 104 MiB; gradients 104 MiB; optimizer states 207 MiB" in training
