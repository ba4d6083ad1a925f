"""Arguments of plan() are checked where they enter, and whatever passes can be saved and read back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placewright

BAD: list[dict[str, Any]] = [
    {"seed": 1.5},
    {"seed": True},
    {"seed": -1},
    {"seed": "0"},
    {"threads": 0},
    {"threads": 1.5},
    {"evaluations": 0},
    {"evaluations": "5"},
    {"time_limit": 0},
    {"time_limit": []},
    {"time_limit": float("nan")},
    {"memory_limit": -1},
    {"memory_limit": 1.5},
    {"memory_limit": float("nan")},
    {"memory_limit": b"1GB"},
    {"memory_limit": 2**62},
    {"pins": "a=0"},
    {"pins": [("a", 0)]},
    {"pins": {5: 0}},
    {"colocate": ["a", "b"]},
    {"colocate": [[]]},
    {"colocate": [["a"]]},
    {"colocate": [[1, 2]]},
    {"devices": None},
    {"devices": 5},
]


def plan_with(**arguments: Any) -> placewright.Plan:
    return placewright.plan(**{"model": "example:resnet50-onnx", "devices": "2xp100", "evaluations": 20, **arguments})


@pytest.mark.parametrize("arguments", BAD, ids=str)
def test_a_wrong_argument_is_named(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(placewright.InputError, match=name.replace("_", "[ _]")):
        plan_with(**arguments)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    plan = plan_with(seed=np.int64(3), memory_limit=np.int64(2**33), time_limit=np.float32(5), threads=np.int8(1))
    placewright.save(plan, tmp_path / "plan.json")
    assert placewright.load(tmp_path / "plan.json") == plan


def test_a_time_limit_alone_is_used_up() -> None:
    # The default budget would end after 5,000 evaluations, in about 0.1 s.
    plan = plan_with(model="example:inception-v3", evaluations=None, time_limit="600ms")
    assert plan.stopped_because == "time"
    assert plan.evaluations > 500
