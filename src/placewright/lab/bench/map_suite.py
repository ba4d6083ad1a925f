"""A suite of maps: networks and the chip whose memory levels hold their tensors (docs/formats.md)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from placewright.importers.graph_set import GraphSet
from placewright.lab.bench.map_code import code_of_map_solver
from placewright.lab.bench.measure import LATENCY
from placewright.lab.bench.protocol import Run, WrongPlanError, row_of
from placewright.lab.bench.rows import Header, Row, now, processor
from placewright.lab.bench.suite import suite_graphs
from placewright.lab.memory_levels.assemble import assemble_map
from placewright.lab.memory_levels.checker import check_map
from placewright.lab.memory_levels.chip import Chip
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.solvers.compiler import Compiler
from placewright.lab.memory_levels.solvers.greedy import DensityGreedy
from placewright.lab.memory_levels.solvers.table import make_map_solver
from placewright.search.run.search_run import SearchRun
from placewright.support.fields import Fields, placing, required

#: Solvers that make one map, without a seed and whatever the limit.
_ONE_MAP = (Compiler, DensityGreedy)
#: Fields of a chip that change no map: its name and where its numbers come from.
_WORDS = ("name", "description", "source", "assumptions")


@dataclass(frozen=True, kw_only=True, eq=False)
class MapSuite:
    """Networks to map to the memory levels of one chip. No policy guides its solvers."""

    name: str
    graphs: GraphSet
    chip: Chip

    @property
    def labels(self) -> list[str]:
        return list(self.graphs.labels)

    @cached_property
    def digest(self) -> str:
        """A digest of everything that decides what the rows mean, except their seeds and solvers."""
        chip = {key: value for key, value in asdict(self.chip).items() if key not in _WORDS}
        return hashlib.sha256(json.dumps([self.graphs.digest, LATENCY, chip]).encode()).hexdigest()[:16]

    def header(self) -> Header:
        return Header(
            suite=self.name,
            digest=self.digest,
            num_graphs=len(self.graphs),
            copies=0,
            machine=self.chip.name,
            objective=LATENCY,
            control="",
            paper="",
            started=now(),
            processor=processor(),
        )

    def is_limited(self, solver: str) -> bool:
        return not isinstance(make_map_solver(solver), _ONE_MAP)

    def policy_of(self, solver: str) -> None:
        make_map_solver(solver)

    def code_of(self, solver: str) -> str:
        return code_of_map_solver(solver)

    def problem_at(self, index: int) -> MemoryProblem:
        problem = make_memory_problem(self.graphs[index], self.chip)
        assert problem.core.num_ops > 0  # The core's problem is made here, so that no solver's time includes it.
        return problem

    def row(self, problem: MemoryProblem, label: str, run: Run) -> Row:
        solver = make_map_solver(run.solver)
        began = time.process_time()
        result = solver.solve(problem, SearchRun(run.budget, seed=run.seed))
        seconds = time.process_time() - began
        found = assemble_map(problem, result, solver=run.solver, seconds=seconds)
        if complaints := check_map(found, problem.graph):
            raise WrongPlanError("; ".join(complaints[:3]))
        return row_of(
            found,
            label,
            run,
            objective=found.latency_ps,
            step_time_ns=-(-found.latency_ps // 1000),
            peak_memory_bytes=max(map(sum, zip(*found.bytes_in_use, strict=True))),
            bytes_over_limit=0,
            bound=found.bound_ps,
            trained="",
        )


def map_suite_of(table: Mapping[str, Any], path: Path) -> MapSuite:
    """Read the suite of a TOML file that names a chip. Raises InputError naming the file and what is wrong with it."""
    with placing(f"'{path}'"):
        fields = Fields(table)
        chip = required("chip", fields.text("chip"))
        suite = MapSuite(
            name=path.stem,
            graphs=suite_graphs(fields, path.parent),
            chip=load_chip(path.parent / chip if chip.endswith(".toml") else chip),
        )
        fields.finish()
        return suite
