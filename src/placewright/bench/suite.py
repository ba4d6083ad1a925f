"""A suite: graphs, a machine and an objective, as a small TOML file states them (docs/formats.md)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from placewright.bench.paper import check_column
from placewright.bench.rows import Header
from placewright.datasets.headroom import PAPER_MACHINE
from placewright.datasets.problem_set import PAPER_CONTROL, ProblemSet
from placewright.importers.sources import load_graphs
from placewright.learning.protocols import Policy
from placewright.learning.shipped import find_policy
from placewright.machines import load_machine
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError, parser_message, shown
from placewright.support.fields import Fields, placing, required
from placewright.support.files import read_text

#: The paper has 99; the labels of many more would not fit into memory.
_MAX_COPIES = 1_000
#: Of a number below 2**62.
_MAX_DIGITS = 18


@dataclass(frozen=True, kw_only=True, eq=False)
class Suite(ProblemSet):
    """Problems to measure methods on.

    optima: by label, objectives somebody proved optimal; the rows hold them as bounds.
    paper: the column of the paper's table 1 this suite stands beside.
    policies: for the methods that one guides, each takes the one with its network; else the one that is shipped.
    """

    optima: Mapping[str, int] = field(default_factory=dict)
    paper: str = ""
    policies: tuple[Policy, ...] = ()

    @property
    def digest(self) -> str:
        """Of everything that decides what the rows mean but their seeds, solvers and policies; rows of guided methods
        say which policy it was, and `bench run` does not mix two."""
        facts = [*self.facts, *([dict(self.optima)] if self.optima else [])]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def header_of(suite: Suite) -> Header:
    """What results of this suite start with, made now and here."""
    return Header(
        suite=suite.name,
        digest=suite.digest,
        num_graphs=len(suite.graphs),
        copies=suite.copies,
        machine=suite.machine.name,
        objective=suite.objective,
        control=suite.control,
        paper=suite.paper,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=_processor(),
    )


def _processor() -> str:
    """The model of this machine's processor as Linux names it, elsewhere its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def read_suite(path: str | Path, devices: str | None = None, dims: Mapping[str, int] | None = None) -> Suite:
    """The suite of a TOML file, or of graphs that `load_graphs` takes, with sizes of their open dimensions, which get
    the paper's machine unless `devices` names another.

    Raises InputError naming the file and what is wrong with it.
    """
    path = Path(path)
    if path.suffix != ".toml":
        graphs = load_graphs(path, dims=dims)
        return Suite(
            name=graphs.name.split(".")[0] or "graphs", graphs=graphs, machine=load_machine(devices or PAPER_MACHINE)
        )
    if devices is not None:
        raise InputError(f"'{shown(path)}' is a suite, which says its own devices, so --devices cannot")
    if dims:
        raise InputError(f"--dim is for a graph or a folder of graphs, and '{shown(path)}' is a suite")
    try:
        table = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{shown(path)}': {parser_message(error)}") from error
    with placing(f"'{shown(path)}'"):
        return _suite(Fields(table), path)


def _suite(fields: Fields, path: Path) -> Suite:
    graphs = required("graphs", fields.text("graphs"))
    optima, policies = fields.text("optima"), fields.text("policies") or ""
    suite = Suite(
        name=path.stem,
        graphs=load_graphs(graphs if graphs.startswith("example:") else path.parent / graphs),
        machine=load_machine(fields.text("devices") or PAPER_MACHINE),
        objective=cast(Objective, fields.choice("objective", ("step-time", "peak-memory")) or "step-time"),
        control=cast(ControlMode, fields.choice("control", ("order", "transfer", "signal")) or PAPER_CONTROL),
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
    """By label the optimum, of a CSV file with the columns graph and optimum. Raises InputError naming the line."""
    lines = csv.DictReader(io.StringIO(read_text(path)))
    optima: dict[str, int] = {}
    for line in lines:
        graph, optimum = line.get("graph"), line.get("optimum")
        if not graph or not (optimum or "").isdecimal() or len(optimum or "") > _MAX_DIGITS or graph in optima:
            raise InputError(f"'{shown(path)}', line {lines.line_num}: not a graph, named once, and its optimum")
        optima[graph] = int(optimum or "")
    return optima


def _check_labels(labels: Sequence[str]) -> None:
    """Raises InputError where a graph is named like a noisy copy of another one, as their rows would be mixed up."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise InputError(f"a graph and a noisy copy of another would both be named '{shown(label)}'")
        seen.add(label)
