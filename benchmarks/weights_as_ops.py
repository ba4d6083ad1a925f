"""How methods fare where every weight is an op, as in TensorFlow 1: `python benchmarks/weights_as_ops.py [PART ...]`.

The networks of suites/real-*.toml, or those whose names hold a PART, without their optimizers: each parameter becomes
an op of kind `input` that takes no time and shares a device with the op that makes its gradient, else with its first
reader. One that no other op reads stays resident there. Step time in percent of one device's, for each machine: of
some baselines, and of `auto` with --evaluations.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from placewright.graph import Graph, Op
from placewright.lab.bench.suite import read_suite
from placewright.methods.table import METHODS
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints
from placewright.search.auto import Auto
from placewright.search.run.budget import Budget
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun

SUITES = [
    Path(__file__).parent / "suites" / f"{name}.toml"
    for name in ("real-nvlink-2", "real-nvlink-4", "real-pcie-2", "real-pcie-4")
]
BASELINES = ("list", "etf", "segment-fill", "cluster-list", "cluster-partition")


def with_weights_as_ops(graph: Graph) -> tuple[Graph, Constraints]:
    """The graph without its optimizer and with an op for each weight; and the groups these share with others."""
    kept = [index for index, op in enumerate(graph.ops) if op.phase != "optimizer"]
    readers: dict[int, list[int]] = {}
    for index in kept:
        for tensor in {graph.base_of[t] for t in graph.ops[index].inputs} if graph.ops[index].kind != "view" else ():
            readers.setdefault(tensor, []).append(index)
    home = {t: own[0] for t, own in readers.items() if graph.tensors[t].role == "parameter"} | _gradients(graph)
    weights = [tensor for tensor in sorted(home) if set(readers.get(tensor, ())) - {home[tensor]}]
    names = {tensor: f"weight.{graph.tensors[tensor].name}" for tensor in weights}
    ops = [Op(name=names[tensor], kind="input", outputs=(tensor,), time_ns=0) for tensor in weights]
    position = {old: len(weights) + new for new, old in enumerate(kept)}
    for index in kept:
        controls = tuple(position[control] for control in graph.ops[index].controls if control in position)
        ops.append(replace(graph.ops[index], controls=controls))
    groups = tuple((names[tensor], graph.ops[home[tensor]].name) for tensor in weights)
    return _graph(graph, ops), Constraints(colocations=groups)


def _gradients(graph: Graph) -> dict[int, int]:
    """By weight that an optimizer updates, the op that makes its gradient."""
    home: dict[int, int] = {}
    for op in graph.ops:
        if op.phase == "optimizer":
            read = [graph.producer_of[graph.base_of[tensor]] for tensor in op.inputs]
            made = [before for before in read if before >= 0 and graph.ops[before].phase != "optimizer"]
            home.update({graph.base_of[tensor]: made[0] for tensor in op.outputs if made})
    return home


def _graph(graph: Graph, ops: list[Op]) -> Graph:
    """Of these ops and the tensors they use."""
    used = sorted({graph.base_of[t] for op in ops for t in (*op.inputs, *op.outputs)} | _named(ops))
    number = {old: new for new, old in enumerate(used)}
    made = {tensor for op in ops for tensor in op.outputs}
    tensors = []
    for old in used:
        tensor = graph.tensors[old]
        alias = number[tensor.alias_of] if tensor.alias_of is not None else None
        tensors.append(replace(tensor, alias_of=alias, role="activation" if old in made else tensor.role))
    renumbered = tuple(
        replace(op, inputs=tuple(number[t] for t in op.inputs), outputs=tuple(number[t] for t in op.outputs))
        for op in ops
    )
    return Graph(name=graph.name, ops=renumbered, tensors=tuple(tensors))


def _named(ops: list[Op]) -> set[int]:
    return {tensor for op in ops for tensor in (*op.inputs, *op.outputs)}


def percentages(problem: Problem, evaluations: int) -> dict[str, float]:
    """By method, the step time in percent of one device's."""
    one = METHODS["single-device"].solve(problem, SearchRun()).metrics.step_time_ns
    methods: dict[str, Method] = {name: METHODS[name] for name in BASELINES} | {"auto": Auto()}
    budgets = {"auto": Budget(evaluations=evaluations)}
    return {
        name: 100 * method.solve(problem, SearchRun(budgets.get(name, Budget()))).metrics.step_time_ns / one
        for name, method in methods.items()
    }


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", metavar="PART", help="of a network's name")
    options.add_argument("--suites", type=Path, nargs="+", default=SUITES)
    options.add_argument("--evaluations", type=int, default=5000)
    return options


def main() -> None:
    arguments = parser().parse_args()
    parts = arguments.parts
    for path in arguments.suites:
        suite, name = read_suite(path), path.stem
        rows: list[dict[str, float]] = []
        for index, label in enumerate(suite.labels):
            if parts and not any(part in label for part in parts):
                continue
            graph, constraints = with_weights_as_ops(suite.graph(index))
            problem = make_problem(graph, suite.machine, control=suite.control, constraints=constraints)
            rows.append(percentages(problem, arguments.evaluations))
            print(f"{name} {label}: " + ", ".join(f"{m} {value:.1f}" for m, value in rows[-1].items()), flush=True)
        mean = {method: float(np.mean([row[method] for row in rows])) for method in rows[0]}
        print(f"{name}, mean of {len(rows)}: " + ", ".join(f"{m} {v:.1f}" for m, v in mean.items()), flush=True)


if __name__ == "__main__":
    main()
