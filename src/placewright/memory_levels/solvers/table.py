"""The solvers of memory problems by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from placewright.learning.egrl.policy import MapPolicy
from placewright.learning.egrl.solvers import MapLearner, ZeroShot
from placewright.learning.protocols import Policy
from placewright.memory_levels.compilers import COMPILERS
from placewright.memory_levels.problem import MemoryProblem
from placewright.memory_levels.run import MapSolver
from placewright.memory_levels.solvers.alike import Alike
from placewright.memory_levels.solvers.annealing import LevelAnnealing, moves_per_second
from placewright.memory_levels.solvers.auto import Auto
from placewright.memory_levels.solvers.compiler import Compiler
from placewright.memory_levels.solvers.exact import Exact, has_scipy
from placewright.memory_levels.solvers.greedy import DensityGreedy, MarginalGreedy
from placewright.memory_levels.solvers.greedy_dp import GreedyDp
from placewright.memory_levels.solvers.local_search import LevelLocalSearch
from placewright.memory_levels.solvers.random_maps import RandomMaps
from placewright.support.errors import InputError, shown
from placewright.support.suggestion import did_you_mean

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
    MapLearner(name="ea"),
    MapLearner(name="pg"),
    MapLearner(name="egrl"),
    *(Compiler(name=name) for name in COMPILERS),
)
MAP_SOLVERS: Mapping[str, MapSolver] = MappingProxyType({solver.name: solver for solver in _SOLVERS})
#: Those that a trained policy is given to. The first does nothing without one.
_OF_POLICY: Mapping[str, Callable[[MapPolicy], MapSolver]] = MappingProxyType(
    {
        "zero-shot": lambda policy: ZeroShot(policy=policy),
        "egrl": lambda policy: MapLearner(name="egrl", policy=policy),
    }
)
#: As many maps as the EGRL paper's agents see, for solvers that score no moves.
_MAPS = 4000


def default_map_evaluations(solver: str, problem: MemoryProblem) -> int:
    """The budget of a solver where none is given: about a second's worth of moves, for those that score moves."""
    return min(500_000, moves_per_second(problem)) if solver in ("auto", "annealing", "marginal") else _MAPS


def make_map_solver(name: str, policy: Policy | None = None) -> MapSolver:
    """The solver of that name, with a trained policy where one is given.

    Raises InputError that suggests the nearest name, and where solver and policy do not go together."""
    if name not in MAP_SOLVERS and name not in _OF_POLICY:
        raise InputError(f"unknown solver '{shown(name)}'{did_you_mean(name, [*MAP_SOLVERS, *_OF_POLICY])}")
    if policy is not None:
        return _with_policy(name, policy)
    if name not in MAP_SOLVERS:
        raise InputError(f"solver '{name}' needs a trained policy of EGRL")
    has_scipy()  # Imported now, where it takes nothing of the solver's time.
    return MAP_SOLVERS[name]


def _with_policy(name: str, policy: Policy) -> MapSolver:
    if name not in _OF_POLICY:
        raise InputError(f"solver '{name}' takes no policy; {' and '.join(_OF_POLICY)} do")
    if not isinstance(policy, MapPolicy):
        raise InputError(
            f"policy '{shown(policy.name)}' is one of {policy.family}, which makes no maps; those of egrl do"
        )
    return _OF_POLICY[name](policy)
