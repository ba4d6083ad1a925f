"""The solvers of memory problems by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import MapSolver
from placewright.lab.memory_levels.solvers.alike import Alike
from placewright.lab.memory_levels.solvers.annealing import LevelAnnealing, moves_per_second
from placewright.lab.memory_levels.solvers.auto import Auto
from placewright.lab.memory_levels.solvers.compiler import Compiler
from placewright.lab.memory_levels.solvers.exact import Exact, has_scipy
from placewright.lab.memory_levels.solvers.greedy import DensityGreedy, GreedyDp, MarginalGreedy
from placewright.lab.memory_levels.solvers.local_search import LevelLocalSearch
from placewright.lab.memory_levels.solvers.random_maps import RandomMaps
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.modules import lacking, load_extensions

_SOLVERS: tuple[MapSolver, ...] = (
    Auto(),
    Exact(),
    LevelAnnealing(),
    MarginalGreedy(),
    DensityGreedy(),
    Alike(),
    LevelLocalSearch(),
    GreedyDp(),
    RandomMaps(),
    *(Compiler(name=name) for name in COMPILERS),
)
#: Extensions add their own solvers.
MAP_SOLVERS: dict[str, MapSolver] = {solver.name: solver for solver in _SOLVERS}
#: Solvers made with a trained policy; an extension adds them. They raise InputError for one of another
#: kind. Those not in MAP_SOLVERS need a policy.
MAP_SOLVERS_OF_POLICIES: dict[str, Callable[[Any], MapSolver]] = {}
#: As many maps as the EGRL paper's agents try, for solvers that score no moves.
_MAPS = 4000


def default_map_evaluations(solver: str, problem: MemoryProblem) -> int:
    """Return the default budget of a solver: about a second's worth of moves, for those that score moves."""
    return min(500_000, moves_per_second(problem)) if solver in ("auto", "annealing", "marginal") else _MAPS


def make_map_solver(name: str, policy: object | None = None) -> MapSolver:
    """Return the solver of that name, with a trained policy if one is given.

    Raises InputError that suggests the nearest name, and where solver and policy do not fit together.
    """
    if name not in MAP_SOLVERS or policy is not None:
        load_extensions()
    if name not in MAP_SOLVERS and name not in MAP_SOLVERS_OF_POLICIES:
        raise InputError(
            f"unknown solver '{shown(name)}'{did_you_mean(name, [*MAP_SOLVERS, *MAP_SOLVERS_OF_POLICIES])}{lacking()}"
        )
    if policy is not None:
        if name not in MAP_SOLVERS_OF_POLICIES:
            raise InputError(f"solver '{name}' takes no policy; {' and '.join(MAP_SOLVERS_OF_POLICIES)} do")
        return MAP_SOLVERS_OF_POLICIES[name](policy)
    if name not in MAP_SOLVERS:
        raise InputError(f"solver '{name}' needs a trained policy of EGRL")
    has_scipy()  # Imported now, so that no solver's time includes it.
    return MAP_SOLVERS[name]
