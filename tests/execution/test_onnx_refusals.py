"""What ONNX Runtime is not asked to run: each ends in one sentence, and nothing hangs."""

import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import image, towers, write

import placewright
from placewright import InputError, MissingExtraError
from placewright.execution.devices import available_cores

ONE: dict[str, Any] = {"devices": "cpu:0", "evaluations": 50}


def test_a_plan_for_another_model_says_what_differs(tmp_path: Path) -> None:
    other = placewright.plan(towers(tmp_path / "other.onnx", depth=2), "cpu")
    path = towers(tmp_path / "towers.onnx", depth=3)
    sentence = "the plan is not for '.*towers.onnx', neither as the file has it nor as ONNX Runtime optimises it: .*op"
    with pytest.raises(InputError, match=sentence):
        placewright.compile_onnx(path, devices="cpu:0", plan=other)


def test_a_model_changed_after_planning_is_another_one(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    with placewright.compile_onnx(path, devices="cpu:0") as compiled:
        plan = compiled.plan
    towers(path, size=20)
    with pytest.raises(InputError, match=r"differ: .*output bytes"):
        placewright.compile_onnx(path, devices="cpu:0", plan=plan)


def test_a_plan_for_other_devices_is_refused(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    plan = placewright.plan(path, "2xv100")
    with pytest.raises(InputError, match="the plan is for 2 devices, and devices names 1"):
        placewright.compile_onnx(path, devices="cpu:0", plan=plan)


@pytest.mark.parametrize(
    ("feeds", "sentence"),
    [
        ({}, "the input 'image' of '.*towers.onnx' is not given"),
        (image() | {"mask": np.ones(1)}, "'.*towers.onnx' has no input 'mask'; it has image"),
        (
            image(8),
            r"is float32 of shape \[1, 3, 16, 16\] in the plan, and was given as float32 of shape \[1, 3, 8, 8\]",
        ),
        ({"image": np.zeros((1, 3, 16, 16))}, "and was given as float64"),
    ],
)
def test_feeds_that_the_plan_is_not_for_are_refused_and_later_ones_run(
    tmp_path: Path, feeds: dict[str, Any], sentence: str
) -> None:
    with placewright.compile_onnx(towers(tmp_path / "towers.onnx"), **ONE) as compiled:
        with pytest.raises(InputError, match=sentence):
            compiled(feeds)
        assert compiled(image())["scores"].shape == (1, 16, 16, 16)


def test_an_operator_without_a_kernel_is_named(tmp_path: Path) -> None:
    # bfloat16 convolutions are of the standard, and the CPU has none.
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "narrow")],
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, None)],
        [helper.make_tensor("w", TensorProto.BFLOAT16, [1, 1, 1, 1], [1.0])],
    )
    path = tmp_path / "narrow.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    with pytest.raises(
        InputError, match=r"ONNX Runtime cannot run '.*narrow.onnx': .*Conv\(22\) node with name 'narrow'"
    ):
        placewright.compile_onnx(path, devices="cpu:0")


def test_an_op_that_fails_stops_all_devices_and_names_itself(tmp_path: Path) -> None:
    # Rows 0 and 1 exist; the other tower goes on until it is told to stop.
    table = helper.make_tensor("table", TensorProto.FLOAT, [2, 4], list(range(8)))
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], "index", to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["rows"], "rows"),
        helper.make_node("Exp", ["x"], ["e"], "e"),
        helper.make_node("ReduceSum", ["e"], ["sum"], "sum", keepdims=0),
        helper.make_node("Mul", ["rows", "sum"], ["y"], "y"),
    ]
    path = write(tmp_path / "gather.onnx", nodes, [("x", [3])], ["y"], [table])
    fine, wrong = np.array([0, 1, 1], np.float32), np.array([0, 1, 7], np.float32)
    devices = "cpu:0,cpu:1" if len(available_cores()) > 1 else "cpu:0"
    before = threading.active_count()
    with placewright.compile_onnx(path, devices=devices, feeds={"x": fine}, evaluations=50) as compiled:
        with pytest.raises(InputError, match=r"ONNX Runtime cannot run '.*gather.onnx': .*Gather node. Name:'rows'.*"):
            compiled({"x": wrong})
        assert compiled({"x": fine})["y"].shape == (3, 4)
    assert threading.active_count() == before


def test_without_onnx_runtime_its_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else found(name))
    with pytest.raises(
        MissingExtraError, match=r"running an ONNX model needs onnxruntime: .*placewright\[onnxruntime\]"
    ):
        placewright.compile_onnx(towers(tmp_path / "towers.onnx"), devices="cpu:0")


def test_an_export_of_an_optimised_model_without_onnx_runtime_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = towers(tmp_path / "towers.onnx")
    with placewright.compile_onnx(path, **ONE) as compiled:
        plan = compiled.plan
    # As if importing it failed.
    monkeypatch.setitem(sys.modules, "placewright.execution.onnx_runtime.optimised", None)
    with pytest.raises(MissingExtraError, match=r"placewright\[onnxruntime\]"):
        placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx", graph=path)
    assert not (tmp_path / "planned.onnx").exists()


def test_weights_that_are_not_where_the_model_says_are_named(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"ONNX Runtime cannot run '.*towers.onnx': .*weights.bin"):
        placewright.compile_onnx(path, devices="cpu:0")


def test_inputs_that_no_random_numbers_fit_must_be_given(tmp_path: Path) -> None:
    nodes = [helper.make_node("Equal", ["x", "x"], ["y"], "y")]
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, None)],
    )
    path = tmp_path / "text.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8), path)
    with pytest.raises(InputError, match=r"the input 'x' of '.*text.onnx' is string, so it must be given"):
        placewright.compile_onnx(path, devices="cpu:0")


def test_an_output_that_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    text = "g (float[2] x) => (float[2] y, seq(float[2]) c) { y = Relu (x)  c = SequenceConstruct (x, y) }"
    path = tmp_path / "list.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text), path)
    with pytest.raises(InputError, match=r"the output 'c' of '.*list.onnx' is no tensor"):
        placewright.compile_onnx(path, devices="cpu:0")
