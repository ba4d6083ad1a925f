"""Random modules as planned: what they do in eager, or a refusal that changes nothing; never another error.

Through the backend of `torch.compile` they do what they do through PyTorch's own "aot_eager".
"""

from collections.abc import Callable
from typing import Any

import pytest
from random_modules import Case
from random_network.runs import EagerRaises, Refused, quickly, run, run_backend

from placewright.execution.devices import available_cores

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
#: Number of seeds of a test.
MANY = 20
#: Seeds whose modules differ from eager in a way that cannot be mended, and why.
OTHERWISE = {
    21: "last bits of an LSTM",
    24: "torch.autograd.grad in the forward of a training step, whose refusal leaves random numbers drawn",
}
#: Seeds of trainings with a part of each kind; most kinds occur in no module of the first seeds.
CHOSEN = {
    "autograd function": 1156,
    "autograd function in place": 345,
    "checkpoint": 514,
    "reentrant checkpoint": 531,
    "weight normalization": 3917,
    "spectral normalization": 933,
    "frozen statistics": 164,
    "LSTM of two layers with dropout": 788,
    "GRU in both directions": 292,
    "enable_grad and autograd.grad": 598,
    "saved_tensors_hooks": 251,
    "vmap": 958,
    "func.grad": 793,
    "jacrev": 595,
    "jvp": 651,
    "list of a tensor that is written to": 754,
    "forward hook": 1200,
    "hook before forward": 347,
    "backward hook": 611,
    "hook of a gradient": 924,
    "hook of an accumulated gradient": 582,
    "forward hook that comes between steps": 40,
    "hook of a gradient that comes between steps": 244,
}
#: Number of seeds of a test of the backend, which captures most modules anew at every step.
FEW = 5


def check(first: int, many: int = MANY, differing: Callable[[Case], list[str]] = run) -> None:
    """Check that more modules run as planned than are refused: refusing everything would be no test."""
    counts = {"equal": 0, "refused": 0}
    with quickly():
        for seed in range(first, first + many):
            if differing is run and seed in OTHERWISE:
                continue
            try:
                assert differing(Case(seed)) == [], seed
                counts["equal"] += 1
            except Refused:
                counts["refused"] += 1
            except EagerRaises:
                continue  # The module itself raises.
    assert counts["equal"] > counts["refused"]


def firsts(often: int, every: int, of: int) -> list[Any]:
    """Return the first seeds of `often` tests for each run, and of the long tests up to seed `every`."""
    long = (pytest.param(first, marks=pytest.mark.long) for first in range(often * of, every, of))
    return [*range(0, often * of, of), *long]


@pytest.mark.parametrize("first", firsts(1, 10_200, MANY))
def test_random_modules_run_as_in_eager(first: int) -> None:
    check(first)


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_training_with_each_of_some_kinds_is_that_of_eager(kind: str) -> None:
    with quickly():
        assert run(Case(CHOSEN[kind])) == []


@pytest.mark.parametrize("first", firsts(1, 3_030, FEW))
def test_random_modules_run_through_the_backend_as_through_pytorchs_own(first: int) -> None:
    check(first, FEW, run_backend)
