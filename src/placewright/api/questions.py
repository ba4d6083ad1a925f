"""Questions that Python code can ask about a plan or a graph; the answers are those of the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from placewright.analysis.outcome import gain_words
from placewright.graph import Graph
from placewright.plans.record import Plan as PlanRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

    from placewright.analysis.comparison import Comparison
    from placewright.analysis.explain import Explanation
    from placewright.analysis.op_explanation import ModuleExplanation, OpExplanation
    from placewright.execution.comparison import RunComparison

Facts = TypeVar("Facts")
#: Texts on how to name the model of a plan, as `recorded_graph` takes them.
_CHECK = "check {file} PLAN, in Python check({graph})"
_EXPLAIN_OP = "explain PLAN --op NAME --model {file}, in Python explain_op(name, {graph})"


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Generic[Facts]):
    """The answer to a question; printed, it shows the tables.

    Attributes
    ----------
    facts
        A record with the values, as `--json` prints them.
    text
        The tables that the command prints.
    """

    facts: Facts
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Show the tables in a notebook, as one output whose lines are not broken."""
        return f'<pre style="white-space:pre;overflow-x:auto">{escape(self.text)}</pre>'


def answer(facts: Facts, parts: Iterable[RenderableType | None]) -> Answer[Facts]:
    """The facts as an answer, with their tables drawn."""
    from placewright.terminal.tables import drawn

    # Outside of a terminal nothing is cut: its reader has no fixed width.
    return Answer(facts, drawn(parts, roomy=not sys.stdout.isatty()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check: whether the simulation of a plan agrees with its claims.

    Attributes
    ----------
    correct
        Whether all of them agree.
    problems
        The disagreements, one sentence each.
    unchecked
        Claims of the plan that the check does not repeat: a lower bound that a search proved. All other bounds are
        computed anew.
    """

    correct: bool
    problems: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


class Plan(PlanRecord):
    """A plan that answers questions, as `placewright.plan` and `placewright.load` return it."""

    @classmethod
    def of(cls, plan: PlanRecord) -> Plan:
        """Make a plan that answers questions from the record of one.

        Parameters
        ----------
        plan
            The record of a plan.
        """
        return cls(**{field.name: getattr(plan, field.name) for field in fields(plan)})

    def __repr__(self) -> str:
        gain = gain_words(self)
        return f"{super().__repr__()[:-1]}{f'; {gain}' if gain else ''})"

    @property
    def speedup(self) -> float | None:
        """The step time on the best single device divided by that of this plan.

        None where no order that was tried keeps the limits on a single device, so that there is nothing to compare
        with: `one_device` says what the best of them would take, and by how much it exceeds the limits.
        """
        single = self.one_device
        if single is None or single.metrics.bytes_over_limit or not self.step_time_ns:
            return None
        return single.metrics.step_time_ns / self.step_time_ns

    def save(self, path: str | Path) -> None:
        """Write the plan, as `placewright.save` does.

        Parameters
        ----------
        path
            The file, gzipped when its name ends in .gz.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        from placewright.plans.file import write_plan

        write_plan(self, path)

    def write_report(self, path: str | Path, *, run: RunComparison | None = None) -> None:
        """Write the report of the plan: one HTML file that loads nothing over the network.

        Parameters
        ----------
        path
            The file.
        run
            The facts of `Compiled.compare` for this plan: the page then shows planned and measured times on one axis.

        Raises
        ------
        InputError
            When the file cannot be written, or the run is one of another plan.
        """
        from placewright.report import write_report

        write_report(self, path, run=run)

    def explain_op(
        self, name: str, model: Graph | str | Path | None = None
    ) -> Answer[OpExplanation | ModuleExplanation]:
        """Explain why an op, or all of a module, runs where it does, and what each other device would cost.

        Parameters
        ----------
        name
            The name of an op, a view or a tensor, or the path of a module. For an op that runs again, the purpose of
            that is explained.
        model
            As `check` takes it.

        Raises
        ------
        InputError
            For an unknown name, and where `check` raises it.
        """
        from placewright.terminal.op_tables import op_tables

        found = why_there(self, name, model)
        return answer(found, op_tables(self, found))

    def explain(self) -> Answer[Explanation]:
        """Explain why the plan takes the memory and the time it takes."""
        from placewright.analysis.explain import explain
        from placewright.terminal.explain_tables import explain_tables

        found = explain(self)
        return answer(found, explain_tables(self, found))

    def diff(self, other: PlanRecord) -> Answer[Comparison]:
        """Compare this plan with another one for the same graph.

        Parameters
        ----------
        other
            The second plan; the differences lead from this plan to that one.

        Raises
        ------
        InputError
            When the plans are for different graphs.
        """
        from placewright.analysis.comparison import compare
        from placewright.terminal.diff_tables import diff_tables

        found = compare(self, other)
        return answer(found, diff_tables(self, other, found))

    def check(self, model: Graph | str | Path | None = None) -> Answer[Check]:
        """Simulate the plan anew with a slow, independent simulator.

        Parameters
        ----------
        model
            The graph that the plan is for, or its file; None for the file that the plan was made from. Python code is
            not run because a plan names it: pass "net.py:build" here.

        Raises
        ------
        InputError
            Where the plan is for another graph, or names no file.
        """
        from placewright.terminal.check_table import check_table

        found = judge(self, model)
        return answer(found, check_table(self, found.problems, found.unchecked))

    def _repr_html_(self) -> str:
        """Show the head of the report, its timeline in small, and its table of devices in a notebook."""
        from placewright.report.notebook import notebook_html

        return notebook_html(self)


def judge(
    plan: PlanRecord,
    model: Graph | str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    measured: Path | None = None,
    name: str = "the plan",
) -> Check:
    """Simulate a plan anew.

    Parameters
    ----------
    plan
        The plan to check.
    model
        Its graph, or the file of it; None for what the plan was made from.
    dims, measured
        Open dimensions of the file, and the file of op times; by default those that the plan was made with.
    name
        The name of the plan in errors.

    Raises
    ------
    InputError
        Where the plan is for another graph, or names no file.
    """
    from placewright.costs import estimate_costs
    from placewright.plans.provenance import find_graph, recorded_times
    from placewright.verification.checker import check_plan
    from placewright.verification.evidence import unchecked

    graph = find_graph(plan, model, dims=dims, measured=measured, name=name, asked=_CHECK)
    costs = estimate_costs(graph, plan.machine, measured or recorded_times(plan))
    problems = check_plan(plan, graph, costs.time_ns, costs.origin)
    return Check(correct=not problems, problems=tuple(problems), unchecked=tuple(unchecked(plan)))


def why_there(
    plan: PlanRecord, op: str, model: Graph | str | Path | None = None, *, name: str = "the plan"
) -> OpExplanation | ModuleExplanation:
    """Explain why an op or a module of a plan runs where it does. model, name: as in `judge`, with its errors."""
    from placewright.analysis.op_explanation import ModuleExplanation, explain_op
    from placewright.analysis.rerun_explanation import explain_reruns
    from placewright.costs import estimate_costs
    from placewright.plans.provenance import find_graph, recorded_times
    from placewright.rematerialization.reruns import of_runs, rewritten
    from placewright.verification.order import require_order

    graph = find_graph(plan, model, name=name, asked=_EXPLAIN_OP)
    found = rewritten(graph, plan.reruns, plan.moves, plan.device_of)
    require_order(plan, found.graph, name=name)
    costs = estimate_costs(graph, plan.machine, recorded_times(plan))
    explained = explain_op(
        plan, found.graph, of_runs(costs.time_ns, found.op_of, plan.machine.num_devices), _maker(found.graph, op)
    )
    if isinstance(explained, ModuleExplanation):
        return explained
    return replace(explained, reruns=explain_reruns(plan, graph, costs.time_ns, explained.op.name))


def _maker(graph: Graph, name: str) -> str:
    """The op that makes a tensor of this name, where no op has the name; else the name itself."""
    if any(op.name == name for op in graph.ops):
        return name
    makers = (graph.producer_of[index] for index, tensor in enumerate(graph.tensors) if tensor.name == name)
    return next((graph.ops[maker].name for maker in makers if maker >= 0), name)
