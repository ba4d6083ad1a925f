"""Plans for ONNX models, run by ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_models import LIGHT, image, towers

import placewright
from placewright.execution.devices import available_cores

two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need two cores")


def unplanned(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime makes of a model by itself, without layouts of its own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@two_cores
def test_two_devices_return_what_one_session_returns_bit_by_bit(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    # Each tower on a device of its own: names are those of the optimised model, where a Relu is part of its Conv.
    pins = {"tower0.*": "cpu:0", "tower1.*": "cpu:1"}
    with placewright.compile_onnx(path, devices="cpu:0,cpu:1", pins=pins) as compiled:
        assert {compiled.plan.device_of[name] for name in compiled.plan.device_of if "tower1" in name} == {1}
        assert_same(compiled(image()), unplanned(path, image()))
        assert_same(compiled(image()), unplanned(path, image()))


@two_cores
def test_a_run_is_compared_with_its_plan_and_with_onnx_runtime(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    with placewright.compile_onnx(path, devices="cpu:0,cpu:1", pins={"tower1.*": "cpu:1"}) as compiled:
        found = compiled.compare(steps=2)
    facts = found.facts
    assert facts.ran_as_planned, facts.difference
    assert facts.same_outputs
    assert sum(device.num_ops for device in facts.devices) == len(compiled.plan.ops)
    assert min(facts.measured_ns, facts.one_device_measured_ns, facts.usual_one_device_ns, facts.usual_ns) > 0
    assert facts.parallel_ns is not None
    assert facts.parallel_ns > 0
    assert facts.measured_range_ns[0] <= facts.measured_ns <= facts.measured_range_ns[1]
    assert {op.name for op in facts.ops} == {op.name for op in compiled.plan.ops if op.kind != "input"}
    assert all(op.measured_start_ns < op.measured_finish_ns for op in facts.ops)
    assert "towers.onnx on cpu:0, cpu:1" in str(found)


@two_cores
def test_a_run_and_its_plan_are_compared_with_the_same_time_of_one_device(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    with placewright.compile_onnx(path, devices="cpu:0,cpu:1", evaluations=20) as compiled:
        facts = compiled.compare(steps=1).facts
    assert compiled.plan.one_device is not None
    assert compiled.plan.one_device.metrics.step_time_ns == facts.one_device_planned_ns
    assert facts.planned_speedup >= 1


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_a_light_model_runs_in_the_order_of_its_plan(name: str) -> None:
    with placewright.compile_onnx(
        LIGHT / f"{name}.onnx", devices="cpu:0", objective="peak-memory", evaluations=200
    ) as compiled:
        facts = compiled.compare(steps=1).facts
    assert facts.ran_as_planned, facts.difference
    assert facts.same_outputs


def test_loops_with_constants_in_loops_run(tmp_path: Path) -> None:
    # ONNX Runtime saves the constants of the inner body twice, as nodes and as initializers.
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4, 4] x) => (y) <int64 M = {3}> {
        h = Loop (M, , x) <body = b (int64 i, bool c, float[4, 4] s) => (bool d, float[4, 4] e) {
            d = Identity (c)  n = Constant <value = int64 {2}> ()
            e = Loop (n, , s) <body = f (int64 j, bool k, float[4, 4] r) => (bool l, float[4, 4] u) {
                l = Constant <value = bool {1}> ()  u = Tanh (r) }> }>
        y = Neg (h) }"""
    path, feeds = tmp_path / "loops.onnx", {"x": np.full((4, 4), 0.5, np.float32)}
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [4, 4]))
    onnx.save(model, path)
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=20) as compiled:
        assert_same(compiled(feeds), unplanned(path, feeds))
        assert "warnings" not in placewright.load_graph(path).metadata
        assert [op.kind for op in compiled.plan.ops if op.name == "h"] == ["control_flow"]
