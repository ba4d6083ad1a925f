"""Requirements that every method meets in another process, with other hashes and addresses."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from test_contract import middling_problem, solve

from placewright.methods.table import METHODS
from placewright.support.modules import load_extensions


def solutions(names: list[str]) -> dict[str, tuple[list[int], list[list[int]], int]]:
    """Return each method's devices, order and number of evaluations."""
    load_extensions()
    results = {name: solve(middling_problem(), name) for name in names}
    return {
        name: (result.solution.device_of.tolist(), result.solution.order.tolist(), result.evaluations)
        for name, result in results.items()
    }


def test_every_method_finds_the_same_in_another_process() -> None:
    names = list(METHODS)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        elsewhere = pool.submit(solutions, names)
        here = solutions(names)
        assert elsewhere.result() == here
