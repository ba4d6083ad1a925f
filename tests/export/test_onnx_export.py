"""The plan's ONNX model, its nodes in plan order, each with its device: loaded by onnx and run by ONNX Runtime."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_models import LIGHT, executed, image, planned_names, towers

import placewright
from placewright import InputError
from placewright.cli import run


def devices_in(model: Any) -> dict[str, tuple[str, int]]:
    """Return the annotation of each node and the device of its configuration."""
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


def test_what_onnx_runtime_optimised_is_planned_and_run_in_plan_order(tmp_path: Path) -> None:
    """Nodes that ONNX Runtime fuses are fused before the plan is made, as docs/tutorials/onnx.md has it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    path = towers(tmp_path / "towers.onnx")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    plan = placewright.plan(tmp_path / "fused.onnx", "cpu", objective="peak-memory", evaluations=50)
    placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")
    assert {node.op_type for node in onnx.load(tmp_path / "planned.onnx").graph.node} == {"FusedConv", "Concat"}
    ran, outputs = executed(tmp_path / "planned.onnx", image(), tmp_path)
    assert ran == planned_names(plan)
    np.testing.assert_allclose(outputs["scores"], executed(path, image(), tmp_path)[1]["scores"], rtol=1e-5, atol=1e-6)


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
    with pytest.raises(InputError, match=r"the plan is not a plan for '.*other.onnx': .*op"):
        placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx", graph=other)
    assert not (tmp_path / "planned.onnx").exists()


def test_a_plan_that_cannot_run_on_its_model_is_refused(tmp_path: Path) -> None:
    plan = placewright.plan(towers(tmp_path / "towers.onnx"), "2xp100", evaluations=5)
    fewer = replace(plan, ops=plan.ops[:-1])
    with pytest.raises(InputError, match=r"the plan does not fit its graph: op '.*' is scheduled 0 times, not once"):
        placewright.export_plan(fewer, "onnx", tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_no_output_replaces_the_weights_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, weights, plan = towers(tmp_path / "towers.onnx"), tmp_path / "weights.bin", tmp_path / "plan.json"
    onnx.save(onnx.load(path), path, save_as_external_data=True, location=weights.name, size_threshold=0)
    before = weights.read_bytes()
    assert run(["plan", str(path), "-d", "1xv100", "-o", str(plan), "-q"]) == 0
    for command in (["plan", str(path), "-d", "1xv100"], ["export", str(plan), str(path), "--to", "onnx"]):
        assert run([*command, "-o", str(weights)]) == 2
        assert "would overwrite" in capsys.readouterr().err
    assert weights.read_bytes() == before
    assert run(["export", str(plan), str(path), "--to", "onnx"]) == 0
    assert (tmp_path / "plan.planned.onnx").exists()
