"""A suite of placements: graphs, a machine and an objective, read from a small TOML file (docs/formats.md)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from placewright.importers.graph_set import GraphSet, joined
from placewright.importers.sources import load_graphs
from placewright.lab.bench.code_version import code_of
from placewright.lab.bench.paper import check_column
from placewright.lab.bench.plan_rows import method_of, plan_row, policy_of
from placewright.lab.bench.protocol import Run
from placewright.lab.bench.rows import Header, Row, now, processor
from placewright.lab.datasets.problem_set import DEFAULT_CONTROL, PAPER_MACHINE, ProblemSet
from placewright.machines import load_machine
from placewright.methods.policies import Policy
from placewright.methods.policy_file import find_policy
from placewright.problem import Problem
from placewright.problem.objective import ControlMode, Objective
from placewright.search.constructive.baseline import Baseline
from placewright.support.errors import InputError, parser_message, shown
from placewright.support.fields import Fields, placing, required
from placewright.support.files import read_text

#: The paper has 99; the labels of many more would not fit into memory.
_MAX_COPIES = 1_000
#: Digits of a number below 2**62.
_MAX_DIGITS = 18


@dataclass(frozen=True, kw_only=True, eq=False)
class Suite(ProblemSet):
    """Problems to measure methods on.

    optima: by label, objectives that have been proved optimal; the rows hold them as bounds.
    paper: the column of the paper's table 1 that this suite is compared with.
    policies: for guided methods, each of which takes the one with its network; else the shipped one.
    """

    optima: Mapping[str, int] = field(default_factory=dict)
    paper: str = ""
    policies: tuple[Policy, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of everything that decides what the rows mean, except their seeds, solvers and policies; rows of
        guided methods name their policy, and `bench run` does not mix two."""
        facts = [*self.facts, *([dict(self.optima)] if self.optima else [])]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def header(self) -> Header:
        return Header(
            suite=self.name,
            digest=self.digest,
            num_graphs=len(self.graphs),
            copies=self.copies,
            machine=self.machine.name,
            objective=self.objective,
            control=self.control,
            paper=self.paper,
            started=now(),
            processor=processor(),
        )

    def is_limited(self, solver: str) -> bool:
        return not isinstance(method_of(solver, self.policies), Baseline)

    def policy_of(self, solver: str) -> Policy | None:
        return policy_of(solver, self.policies)

    def code_of(self, solver: str) -> str:
        return code_of(solver, self.policies)

    def problem_at(self, index: int) -> Problem:
        problem = self.problem(self.graph(index))
        assert problem.core.num_ops > 0  # The core's problem is made here, so that no method's time includes it.
        return problem

    def row(self, problem: Problem, label: str, run: Run) -> Row:
        return plan_row(problem, label, run, self.policies, self.optima.get(label, 0))


def read_suite(path: str | Path, devices: str | None = None, dims: Mapping[str, int] | None = None) -> Suite:
    """Read the suite of a TOML file, or make one of graphs that `load_graphs` takes, with sizes for their open
    dimensions, on the paper's machine unless `devices` names another.

    Raises InputError naming the file and what is wrong with it.
    """
    path = Path(path)
    if path.suffix == ".toml":
        table = suite_table(path, devices, dims)
        with placing(f"'{shown(path)}'"):
            return _suite(Fields(table), path)
    graphs = load_graphs(path, dims=dims)
    return Suite(
        name=graphs.name.split(".")[0] or "graphs", graphs=graphs, machine=load_machine(devices or PAPER_MACHINE)
    )


def suite_table(path: Path, devices: str | None, dims: Mapping[str, int] | None) -> dict[str, Any]:
    """Read the table of a TOML file. Raises InputError where it cannot be read, or where `devices` or `dims` are
    given."""
    if devices is not None:
        raise InputError(f"'{shown(path)}' is a suite, which says its own devices, so --devices cannot")
    if dims:
        raise InputError(f"--dim is for a graph or a folder of graphs, and '{shown(path)}' is a suite")
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{shown(path)}': {parser_message(error)}") from error


def suite_graphs(fields: Fields, folder: Path) -> GraphSet:
    """Load the graphs that the key `graphs` names: one source or several, relative to the suite's folder."""
    named = required("graphs", fields.take("graphs"))
    sources = named if isinstance(named, list) else [named]
    if not sources or not all(isinstance(source, str) and source for source in sources):
        raise InputError(f"graphs must be a non-empty text or a list of them, not {shown(repr(named))}")
    found = [load_graphs(source if source.startswith("example:") else folder / source) for source in sources]
    return found[0] if len(found) == 1 else joined(found)


def _suite(fields: Fields, path: Path) -> Suite:
    optima, policies = fields.text("optima"), fields.text("policies") or ""
    suite = Suite(
        name=path.stem,
        graphs=suite_graphs(fields, path.parent),
        machine=load_machine(fields.text("devices") or PAPER_MACHINE),
        objective=cast(Objective, fields.choice("objective", get_args(Objective)) or "step-time"),
        control=cast(ControlMode, fields.choice("control", get_args(ControlMode)) or DEFAULT_CONTROL),
        memory_limit_bytes=fields.size_bytes("memory_limit"),
        memory_share=fields.number("memory_share"),
        optima={} if optima is None else _read_optima(path.parent / optima),
        copies=fields.integer("copies") or 0,
        paper=fields.text("paper") or "",
        policies=tuple(find_policy(name.strip(), path.parent) for name in policies.split(",") if name.strip()),
    )
    fields.finish()
    check_column(suite.paper)
    if not 0 <= suite.copies <= _MAX_COPIES:
        raise InputError(f"copies is {shown(suite.copies)}; it must be a whole number from 0 to {_MAX_COPIES:,}")
    if suite.memory_share is not None and not 0 < suite.memory_share <= 1:
        raise InputError(f"memory_share is {shown(suite.memory_share)}; it must be a number above 0, and at most 1")
    _check_labels(suite.labels)
    if unknown := sorted(suite.optima.keys() - set(suite.labels)):
        raise InputError(f"optima names '{shown(unknown[0])}', which is not among the instances")
    return suite


def _read_optima(path: Path) -> dict[str, int]:
    """Read the optima by label from a CSV file with the columns graph and optimum. Raises InputError naming the
    line."""
    lines = csv.DictReader(io.StringIO(read_text(path)))
    optima: dict[str, int] = {}
    for line in lines:
        graph, optimum = line.get("graph"), line.get("optimum")
        if not graph or not (optimum or "").isdecimal() or len(optimum or "") > _MAX_DIGITS or graph in optima:
            raise InputError(f"'{shown(path)}', line {lines.line_num}: not a graph, named once, and its optimum")
        optima[graph] = int(optimum or "")
    return optima


def _check_labels(labels: Sequence[str]) -> None:
    """Raise InputError where a graph is named like a noisy copy of another one, as their rows would be mixed up."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise InputError(f"a graph and a noisy copy of another would both be named '{shown(label)}'")
        seen.add(label)
