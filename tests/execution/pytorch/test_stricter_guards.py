"""Changes of Python state that PyTorch's guards do not see: a call after one gives what eager gives then.

One case of each kind; `benchmarks/python_state.py` has all of them.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import placewright

pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")
ONE: dict[str, Any] = {"devices": "cpu:0", "solver": "list"}
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
#: What forward changes outside of the module, which comparing it with eager must not change once more.
ONCE = (
    *("inside/counter", "inside/counter_global", "inside/counter_closure", "inside/counter_default", "inside/printed"),
    *("inside/list_of_tensors", "inside/dict_of_tensors", "inside/moving_mean"),
    *("inside/random", "inside/numpy_random", "inside/torch_generator"),
)
REFUSED = "inside/counter_of_class"
SEEN = (
    "held/list_in_tuple/float",
    *("class/descriptor_get_patched", "class/base_attribute_shadowed", "class/metaclass_attribute"),
    *("class/metaclass_iter", "class/class_getitem", "class/bases_replaced", "class/module_call_patched"),
    *("container/ordered_dict_order", "container/dict_keys_order", "container/dict_subclass_missing"),
    *("container/chain_map_shadowed", "container/dataclass_default", "container/thread_local_subclass"),
    *("container/minus_zero", "container/random_state"),
    *("function/attribute_through_self", "function/try_attribute", "function/method_of_held_class"),
    *("outside/builtin_shadowed", "outside/builtin_hidden_by_global", "outside/sys_modules_replaced"),
    *("outside/environ", "outside/getenv", "outside/numpy_attribute", "outside/tensor_method_patched"),
)


def verdicts(tmp_path: Path, ways: str, *names: str) -> dict[tuple[str, str], str]:
    """Run cases in processes of their own and return their verdicts by case and way."""
    script, rows = BENCHMARKS / "python_state.py", tmp_path / "rows.jsonl"
    command = [sys.executable, str(script), str(rows), "--ways", ways, "--only", *names]
    subprocess.run(command, check=True, capture_output=True)
    return {(row["case"], row["way"]): row["verdict"] for row in map(json.loads, rows.read_text().splitlines())}


@pytest.mark.heavy
def test_changes_are_seen(tmp_path: Path) -> None:
    found = verdicts(tmp_path, "compile", *SEEN, REFUSED)
    assert found == {**{(name, "compile"): "right" for name in SEEN}, (REFUSED, "compile"): "refused"}


@pytest.mark.heavy
def test_nothing_is_done_twice_in_inference_or_training(tmp_path: Path) -> None:
    ways = ("compile", "fit")
    assert verdicts(tmp_path, ",".join(ways), *ONCE) == {(name, way): "right" for name in ONCE for way in ways}


class Counted(torch.nn.Sequential):
    seen = 0


def test_nothing_is_captured_anew_where_nothing_has_changed() -> None:
    module = Counted(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    x = torch.rand(3, 4)
    with placewright.compile(module, x, training=True, **ONE) as step:
        before = step.plans
        for _ in range(5):
            step(x)
            Counted.seen += 1  # An attribute that no code reads.
        assert step.plans[0] is before[0]


def test_draws_that_nothing_reads_leave_the_generator_as_in_eager() -> None:
    class Drawing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.rand(3)
            torch.nn.functional.dropout(x, 0.5, True)
            torch.zeros(2).uniform_()
            return x * 2

    module, x = Drawing().eval(), torch.rand(4)
    torch.manual_seed(0)
    module(x)
    wanted = torch.get_rng_state()
    with placewright.compile(module, x, **ONE) as planned:
        torch.manual_seed(0)
        planned(x)
    assert torch.equal(torch.get_rng_state(), wanted)


def test_what_the_loss_does_not_reach_has_no_gradient() -> None:
    class Beside(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.kept = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = self.kept(x)
            return self.used(x).sum()

    module = Beside()
    with placewright.compile(module, torch.rand(2, 4), training=True, **ONE) as step:
        step(torch.rand(2, 4))
    assert module.used.weight.grad is not None
    assert module.kept.weight.grad is None
