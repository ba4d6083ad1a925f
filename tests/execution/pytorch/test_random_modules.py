"""Random modules as planned: what they do in eager, or a refusal that changes nothing; never another error."""

import pytest
from random_modules import Case
from random_network.runs import EagerRaises, Refused, quickly, run

from placewright.execution.devices import available_cores

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
#: Seeds of a test.
MANY = 50


def check(first: int) -> None:
    """At least half of the modules that run at all must run as planned: refusing everything would be no test."""
    counts = {"equal": 0, "refused": 0}
    with quickly():
        for seed in range(first, first + MANY):
            try:
                assert run(Case(seed)) == [], seed
                counts["equal"] += 1
            except Refused:
                counts["refused"] += 1
            except EagerRaises:
                continue  # The module itself raises.
    assert counts["equal"] > counts["refused"]


@pytest.mark.parametrize("first", range(0, 200, MANY))
def test_random_modules_run_as_in_eager(first: int) -> None:
    check(first)


@pytest.mark.long
@pytest.mark.parametrize("first", range(200, 10_200, MANY))
def test_many_random_modules_run_as_in_eager(first: int) -> None:
    check(first)
