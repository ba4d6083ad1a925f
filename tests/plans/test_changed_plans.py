"""A plan file whose values contradict each other or its graph is refused or answered by every command."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from changed_plans import changed

import placewright
from placewright.analysis.explain import explain
from placewright.api.questions import judge, why_there
from placewright.export import TARGETS, told_of_export, write_export
from placewright.graph import Graph
from placewright.importers import save_graph
from placewright.importers.builder import GraphBuilder
from placewright.plans.file import read_plan
from placewright.report import html_of
from placewright.support.errors import InputError
from placewright.terminal.check_table import check_table
from placewright.terminal.explain_tables import explain_tables
from placewright.terminal.op_tables import op_tables
from placewright.terminal.plan_summary import plan_summary
from placewright.terminal.plan_table import plan_table

MACHINES = ("2xp100", "3xh100", "2xideal/free")


def random_graph(source: random.Random) -> Graph:
    """Some ops with parameters, an update in place, views, control edges, workspaces, and tensors of no bytes."""
    graph = GraphBuilder("changed")
    made = [graph.add_tensor("x", size_bytes=1000)]
    graph.add_op("x", "input", outputs=[made[0]])
    for number in range(source.randint(4, 8)):
        reads = source.sample(made, min(len(made), source.randint(1, 2)))
        if source.random() < 0.5:
            reads.append(graph.add_tensor(f"m.{number}.w", size_bytes=source.choice((0, 4000)), role="parameter"))
        out = graph.add_tensor(f"t{number}", size_bytes=source.choice((0, 10, 10**5)), is_output=source.random() < 0.2)
        graph.add_op(
            f"o{number}",
            source.choice(("matmul", "elementwise")),
            inputs=reads,
            outputs=[out],
            controls=[source.randrange(len(graph.ops))] if source.random() < 0.3 else [],
            time_ns=source.choice((0, 5, 200_000)),
            module=source.choice(("", "m", f"m.{number % 3}")),
            workspace_bytes=source.choice((0, 300)),
        )
        made.append(out)
        if source.random() < 0.3:
            made.append(graph.add_tensor(f"v{number}", size_bytes=10, alias_of=out))
            graph.add_op(f"view{number}", "view", inputs=[out], outputs=[made[-1]])
    weight = graph.add_tensor("m.w", size_bytes=10, role="parameter")
    graph.add_op(
        "o9",
        "optimizer",
        inputs=[weight],
        outputs=[graph.add_tensor("m.w2", size_bytes=10, alias_of=weight)],
        time_ns=7,
    )
    return graph.build()


def documents(source: random.Random, count: int) -> Iterator[tuple[str, Any]]:
    """Graph files in the current folder, and the JSON of plans that were made from them."""
    for number in range(count):
        save_graph(random_graph(source), model := f"g{number}.json")
        placewright.plan(
            model,
            MACHINES[number % 3],
            evaluations=20,
            objective=("step-time", "peak-memory")[number % 2],
            control=source.choice(("signal", "transfer", "order")),
            pins={"o0": 0} if number % 4 == 0 else None,
            memory_limit="150kB" if number % 5 == 0 else None,
        ).save("plan.json")
        yield model, json.loads(Path("plan.json").read_text())


def checked(plan: placewright.Plan, model: str) -> object:
    found = judge(plan, model)
    return list(check_table(plan, found.problems, found.unchecked))


def questions(plan: placewright.Plan, model: str, source: random.Random) -> Iterator[Callable[[], object]]:
    """Yield, as functions, what every command asks of a plan."""
    yield lambda: plan_table(plan)
    yield lambda: json.dumps(plan_summary(plan))
    yield lambda: list(explain_tables(plan, explain(plan)))
    yield lambda: html_of(plan)
    yield lambda: plan.diff(plan)
    yield lambda: checked(plan, model)
    for given in (None, model):
        op = source.choice(("o0", "o1", "o9", "m", "x", "view1"))
        yield lambda op=op, given=given: list(op_tables(plan, why_there(plan, op, given)))  # type: ignore[misc]
        for target in TARGETS:
            yield lambda target=target, given=given: told_of_export(plan, target, given)  # type: ignore[misc]
            yield lambda target=target, given=given: write_export(plan, target, "out", graph=given)  # type: ignore[misc]


def ask_about_changed_plans(count: int, seed: int) -> int:
    """Ask every command about changed plans; return how many plans could be read."""
    source, read = random.Random(seed), 0
    originals = list(documents(source, 10))
    for _ in range(count):
        model, document = source.choice(originals)
        Path("changed.json").write_text(json.dumps(changed(document, source)))
        plan, refused = answer_of(lambda: read_plan("changed.json"))
        if refused:
            assert "'changed.json'" in refused
            continue
        read += 1
        for ask in questions(placewright.Plan.of(plan), model, source):
            answer_of(ask)
    return read


def answer_of(ask: Callable[[], Any]) -> tuple[Any, str]:
    """Return the answer, or the one sentence that refuses it."""
    try:
        return ask(), ""
    except InputError as error:
        sentence = str(error)
    assert sentence.isprintable()
    return None, sentence


def test_a_changed_plan_is_refused_or_answered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask_about_changed_plans(100, seed=1) > 30


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_changed_plans_are(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask_about_changed_plans(500, seed=seed) > 150
