"""The plan's ONNX model, its nodes in plan order, each with its device: loaded by onnx and run by ONNX Runtime."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_models import LIGHT, image, towers

import placewright
from placewright import InputError
from placewright.plans.record import Plan


def executed(path: Path, feeds: dict[str, Any], folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Names of the nodes that ran, in order, and the outputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    # Without a GPU its rule is skipped, and its nodes fall back to the CPU.
    options.add_session_config_entry("session.layer_assignment_settings", "cpu(=cpu:0); gpu(=gpu0)")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, feeds), strict=True))
    events = json.loads(Path(session.end_profiling()).read_text())
    ran = sorted((event for event in events if event["cat"] == "Node"), key=lambda event: event["ts"])
    return [event["name"].removesuffix("_kernel_time") for event in ran], outputs


def planned_names(plan: Plan) -> list[str]:
    in_turn = sorted(plan.ops, key=lambda op: (op.start_ns, op.position))
    return [op.name for op in in_turn if op.kind != "input"]


def devices_in(model: Any) -> dict[str, tuple[str, int]]:
    """Of each node: what its annotation says, and its configuration."""
    found = {}
    for node in model.graph.node:
        annotation = {entry.key: entry.value for entry in node.metadata_props}["layer_ann"]
        (configuration,) = node.device_configurations
        assert [spec.tensor_name for spec in configuration.sharding_spec] == list(node.output)
        found[node.name] = annotation, *{index for spec in configuration.sharding_spec for index in spec.device}
    return found


def test_a_plan_of_the_file_is_run_in_its_order(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx", num_towers=3)
    plan = placewright.plan(path, "2xv100", pins={"tower1*": "gpu1"}, objective="peak-memory", evaluations=300)
    placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")
    onnx.checker.check_model(tmp_path / "planned.onnx", full_check=True)
    ran, outputs = executed(tmp_path / "planned.onnx", image(), tmp_path)
    assert ran == planned_names(plan)
    np.testing.assert_array_equal(outputs["scores"], executed(path, image(), tmp_path)[1]["scores"])


def test_every_node_names_its_device_twice(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    plan = placewright.plan(path, "2xv100", pins={"tower1*": "gpu1"}, evaluations=50)
    placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx", graph=path)
    model = onnx.load(tmp_path / "planned.onnx")
    assert model.ir_version >= 11
    (configuration,) = model.configuration
    assert list(configuration.device) == [device.name for device in plan.machine.devices]
    found = devices_in(model)
    for op in plan.ops:
        if op.kind != "input":
            assert found[op.name] == (configuration.device[op.device], op.device)


def test_the_exported_model_imports_as_the_same_graph_in_plan_order(tmp_path: Path) -> None:
    path = LIGHT / "light_squeezenet.onnx"
    plan = placewright.plan(path, "2xv100", evaluations=50)
    placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")
    graph = placewright.load_graph(tmp_path / "planned.onnx")
    assert [op.name for op in graph.ops if op.kind not in ("input", "view")] == planned_names(plan)


def test_a_plan_of_the_optimised_model_holds_that_with_its_weights(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=50) as compiled:
        plan, wanted = compiled.plan, compiled(image())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    placewright.export_plan(plan, "onnx", elsewhere / "planned.onnx", graph=path)
    assert [file.name for file in elsewhere.iterdir()] == ["planned.onnx"]
    model = onnx.load(elsewhere / "planned.onnx")
    assert {node.op_type for node in model.graph.node} == {"FusedConv", "Concat"}
    ran, outputs = executed(elsewhere / "planned.onnx", image(), tmp_path)
    assert ran == planned_names(plan)
    np.testing.assert_allclose(outputs["scores"], wanted["scores"], rtol=1e-5, atol=1e-6)


def test_weights_in_files_of_their_own_stay_where_they_are(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    plan = placewright.plan(path, "cpu", evaluations=50)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(InputError, match=r"'.*towers.onnx' has weights in files beside it, so the export must be .*"):
        placewright.export_plan(plan, "onnx", tmp_path / "elsewhere" / "planned.onnx")
    assert not any((tmp_path / "elsewhere").iterdir())
    placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")
    ran, outputs = executed(tmp_path / "planned.onnx", image(), tmp_path)
    assert ran == planned_names(plan)
    np.testing.assert_array_equal(outputs["scores"], executed(path, image(), tmp_path)[1]["scores"])


def test_a_plan_whose_file_is_not_known_asks_for_it(tmp_path: Path) -> None:
    graph = placewright.load_graph(towers(tmp_path / "towers.onnx"))
    plan = placewright.plan(graph, "cpu", evaluations=50)
    with pytest.raises(InputError, match="so name that: export PLAN FILE --to onnx"):
        placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")


def test_another_model_is_refused_and_nothing_written(tmp_path: Path) -> None:
    plan = placewright.plan(towers(tmp_path / "towers.onnx"), "cpu", evaluations=50)
    other = towers(tmp_path / "other.onnx", depth=1)
    with pytest.raises(InputError, match=r"the plan is not for '.*other.onnx'"):
        placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx", graph=other)
    assert not (tmp_path / "planned.onnx").exists()


def test_a_plan_that_cannot_run_on_its_model_is_refused(tmp_path: Path) -> None:
    plan = placewright.plan(towers(tmp_path / "towers.onnx"), "2xp100", evaluations=5)
    fewer = replace(plan, ops=plan.ops[:-1])
    with pytest.raises(InputError, match=r"the plan does not fit its graph: op '.*' is scheduled 0 times, not once"):
        placewright.export_plan(fewer, "onnx", tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
