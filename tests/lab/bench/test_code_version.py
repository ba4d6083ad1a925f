"""A method's code is a digest of what it does: the same while it does the same, another when it does something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from lab.learning.networks import SMALL, random_policy

from placewright.lab.bench.code_version import code_of
from placewright.lab.peers.brkga import Brkga
from placewright.methods.table import METHODS, register_method
from placewright.problem import Problem
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


@dataclass(frozen=True)
class Own:
    """BRKGA with a population of that size; a population of 0 raises ZeroDivisionError."""

    population: int
    name: str = "own"

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        if not self.population:
            raise ZeroDivisionError("in the method")
        return replace(Brkga(population=self.population).solve(problem, run), method="own")


@pytest.fixture
def registry() -> Iterator[None]:
    yield
    METHODS.pop("own", None)


def code_with(population: int) -> str:
    register_method(Own(population))
    return code_of("own")


@pytest.mark.usefixtures("registry")
def test_a_code_is_of_what_a_method_decides_and_not_of_how_it_is_written() -> None:
    assert code_with(100) == code_of("brkga")  # other sources, same plans
    assert code_with(99) != code_of("brkga")
    assert len({code_with(0), code_with(100), code_of("etf"), code_of("heft"), code_of("brkga-lazy")}) == 5


def test_a_code_is_the_same_every_time() -> None:
    assert code_of("auto") == code_of("auto")


def test_a_policy_is_part_of_the_code_of_what_it_guides() -> None:
    one, other = (random_policy(SMALL, seed=seed, name="mine") for seed in (0, 1))
    assert code_of("regal", [one]) == code_of("regal", [one])
    assert code_of("regal", [one]) != code_of("regal", [other])


def test_a_solver_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there is no solver 'brkgaa'"):
        code_of("brkgaa")
