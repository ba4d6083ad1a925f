"""Bytes moved by single ops."""

from typing import Any

import pytest

from placewright.costs.traffic import count_bytes
from placewright.graph import Op, Tensor
from placewright.importers.builder import tensor_bytes


def bytes_moved(kind: str, inputs: list[int], outputs: list[int], **attributes: Any) -> int:
    """Inputs and outputs by their sizes."""
    tensors = [Tensor(name=f"t{i}", size_bytes=size) for i, size in enumerate(inputs + outputs)]
    return count_bytes(Op(name="op", kind=kind, attributes=attributes), tensors[: len(inputs)], tensors[len(inputs) :])


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "expected"),
    [
        ("elementwise", [100, 10], [100], 210),
        ("conv", [100, 36], [80], 216),
        ("view", [100], [100], 0),
        ("input", [], [100], 0),
        ("fill", [100], [50], 50),  # zeros_like reads nothing
        ("embedding", [1_000_000, 8], [400], 400 + 400 + 8),  # rows read, rows written, indices
        ("embedding", [60, 8], [400], 400 + 60 + 8),  # a table smaller than the result is read once
        ("gather", [1000, 8], [100], 100 + 100 + 8),
        ("copy", [1000], [10], 20),  # a slice
        ("copy", [30, 70], [100], 200),  # a concatenation
        ("embedding_backward", [400, 8], [1_000_000], 400 + 8 + 1_000_000 + 2 * 400),
        ("other", [100], [50], 150),
    ],
)
def test_bytes_are_what_the_op_touches(kind: str, inputs: list[int], outputs: list[int], expected: int) -> None:
    assert bytes_moved(kind, inputs, outputs) == expected


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "expected"),
    [
        ("copy", [(100, "float32")], (100, "float16"), 400 + 200),  # a cast reads all of what it makes narrower
        ("copy", [(100, "float32")], (100, "int8"), 400 + 100),
        ("copy", [(100, "float16")], (100, "float32"), 200 + 400),
        ("copy", [(1000, "float32")], (10, "float16"), 40 + 20),  # of a slice it reads the slice
        ("gather", [(1000, "float32"), (10, "int64")], (10, "float32"), 40 + 80 + 40),
        ("gather", [(10, "float32"), (1000, "int64"), (1000, "float32")], (10, "float32"), 40 + 8000 + 4000 + 40),
        ("embedding", [(1000, "float16"), (8, "int64"), (500, "float32")], (64, "float32"), 128 + 64 + 256 + 256),
    ],
)
def test_what_is_selected_counts_by_elements_and_what_is_put_there_in_whole(
    kind: str, inputs: list[tuple[int, str]], output: tuple[int, str], expected: int
) -> None:
    tensors = [
        Tensor(name=f"t{i}", size_bytes=tensor_bytes((length,), dtype), shape=(length,), dtype=dtype)
        for i, (length, dtype) in enumerate([*inputs, output])
    ]
    assert count_bytes(Op(name="op", kind=kind), tensors[:-1], tensors[-1:]) == expected


def test_adam_reads_four_tensors_and_writes_three() -> None:
    assert bytes_moved("optimizer", [100] * 4, [100] * 3, function="adam") == 700
    # an importer may leave out that the moments are written in place
    assert bytes_moved("optimizer", [100] * 4, [100], function="adam") == 700
    assert bytes_moved("optimizer", [100] * 4, [], function="adamw") == 700


def test_sgd_reads_two_tensors_and_writes_one() -> None:
    assert bytes_moved("optimizer", [100] * 2, [100], function="sgd") == 300
