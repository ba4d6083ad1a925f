"""Arithmetic on shapes, compared with ONNX's own reference evaluator."""

from typing import Any

import numpy as np
import pytest

from placewright.importers.onnx.values import _RULES, MAX_ELEMENTS, evaluate

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
INTS = np.array([[3, -7, 2], [5, 4, -1]], dtype=np.int64)
OTHER = np.array([[2, 2, -3], [1, 4, 5]], dtype=np.int64)
FLOATS = np.array([[0.5, 2.25], [9.0, 4.0]], dtype=np.float32)
BOOLS = np.array([[True, False, True], [False, False, True]])


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


Case = tuple[str, list[np.ndarray], dict[str, Any], int]
CASES: list[Case] = [
    *((name, [INTS], {}, 17) for name in ("Abs", "Identity", "Neg", "Transpose", "ReduceMax", "ReduceMin")),
    *((name, [INTS, OTHER], {}, 17) for name in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")),
    *((name, [INTS, OTHER], {}, 17) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *((name, [FLOATS], {}, 17) for name in ("Ceil", "Floor", "Sqrt")),
    *((name, [BOOLS, ~BOOLS[::-1]], {}, 17) for name in ("And", "Or")),
    ("Not", [BOOLS], {}, 17),
    ("Div", [FLOATS, FLOATS[::-1]], {}, 17),
    ("Mod", [FLOATS, FLOATS[::-1]], {"fmod": 1}, 17),
    ("Mod", [INTS, OTHER], {"fmod": 1}, 17),
    ("Pow", [FLOATS, FLOATS], {}, 17),
    ("Where", [BOOLS, INTS, OTHER], {}, 17),
    ("Cast", [FLOATS], {"to": 7}, 17),
    ("Cast", [INTS], {"to": 1}, 17),
    ("Concat", [INTS, OTHER], {"axis": -1}, 17),
    ("ConstantOfShape", [int64(2, 3)], {}, 17),
    ("Expand", [int64(1, 2), int64(3, 1)], {}, 17),
    ("Gather", [INTS, int64(1, -1)], {"axis": 1}, 17),
    ("Gather", [INTS, np.array(1)], {}, 17),
    ("Range", [np.array(2), np.array(9), np.array(3)], {}, 17),
    ("Range", [np.array(2), np.array(-4), np.array(-2)], {}, 17),
    ("Range", [np.array(7), np.array(-2), np.array(-3)], {}, 17),
    ("Range", [np.array(0, np.float32), np.array(0.6, np.float32), np.array(0.1, np.float32)], {}, 17),
    ("ReduceProd", [INTS], {"keepdims": 0}, 17),
    ("ReduceProd", [INTS], {"axes": [1]}, 17),
    ("ReduceProd", [np.array([3, 2], np.int32)], {"keepdims": 0}, 17),
    ("ReduceSum", [np.array([1, 2], np.int32)], {}, 17),
    ("ReduceSum", [int64(1, 2)], {"noop_with_empty_axes": 1}, 17),
    ("ReduceSum", [INTS, int64(0)], {"keepdims": 0}, 17),
    ("ReduceSum", [INTS, np.array([], dtype=np.int64)], {"noop_with_empty_axes": 1}, 17),
    ("Reshape", [INTS, int64(3, -1)], {}, 17),
    ("Reshape", [INTS, int64(0, 1, 3)], {}, 17),
    ("Slice", [INTS, int64(1), int64(2**63 - 1), int64(1)], {}, 17),
    ("Slice", [INTS, int64(-1, 0), int64(-(2**31), 2), int64(1, 0), int64(-1, 1)], {}, 17),
    ("Slice", [INTS], {"starts": [0], "ends": [-1], "axes": [1]}, 9),
    ("Squeeze", [INTS[:1], int64(0)], {}, 17),
    ("Squeeze", [INTS[:1]], {}, 17),
    ("Squeeze", [INTS[:1]], {"axes": [0]}, 11),
    ("Transpose", [INTS.reshape(2, 3, 1)], {"perm": [2, 0, 1]}, 17),
    ("Unsqueeze", [INTS, int64(0, -1)], {}, 17),
    ("Unsqueeze", [INTS], {"axes": [1]}, 11),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_values_are_those_of_the_reference_evaluator(case: Any) -> None:
    op_type, inputs, attributes, version = case
    from onnx.reference import ReferenceEvaluator

    names = [f"i{place}" for place in range(len(inputs))]
    types = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
    ]
    node = onnx.helper.make_node(op_type, names, ["out"], **attributes)
    graph = onnx.helper.make_graph([node], "g", types, [onnx.helper.make_empty_tensor_value_info("out")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
    expected = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))[0]
    value = evaluate(op_type, inputs, attributes)
    assert value is not None
    assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(("start", "end", "step", "expected"), [(-9, -8, -1, [0]), (9, -9, -2, [4, 2, 0])])
def test_a_slice_that_begins_beyond_an_end_is_what_onnx_runtime_makes(
    start: int, end: int, step: int, expected: list[int]
) -> None:
    value = evaluate("Slice", [np.arange(5), int64(start), int64(end), int64(0), int64(step)], {})
    assert value is not None
    assert value.tolist() == expected


def test_every_rule_is_compared() -> None:
    assert {case[0] for case in CASES} == set(_RULES)


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("Conv", [INTS, INTS]),
        ("Add", [INTS, np.zeros(7)]),
        ("Add", [INTS, None]),
        ("Where", [BOOLS, INTS, None]),
        ("Squeeze", [None]),
        ("Gather", [INTS, int64(99)]),
        ("Concat", [INTS, INTS]),
        ("Reshape", [INTS, int64(7)]),
        ("Range", [np.array(0), np.array(10**6), np.array(1)]),
    ],
)
def test_what_cannot_be_computed_has_no_value(op_type: Any, inputs: Any) -> None:
    assert evaluate(op_type, inputs, {}) is None


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("ConstantOfShape", [int64(2**40, 2**40)]),
        ("Expand", [INTS, int64(2**40, 1, 1)]),
        ("Range", [np.array(0), np.array(2**60), np.array(1)]),
        ("Add", [np.zeros((MAX_ELEMENTS, 1)), np.zeros((1, MAX_ELEMENTS))]),
    ],
)
def test_nothing_large_is_ever_computed(op_type: Any, inputs: Any) -> None:
    assert evaluate(op_type, inputs, {}) is None
