"""Methods from outside the package: known by their names like any other; wrong ones are refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from instances import graph_of, machine_of, problem_of
from strategies import problems

import placewright
from placewright.methods import table as registry
from placewright.methods.plugins import load_plugins, solve
from placewright.methods.table import METHODS, make_method, method_summaries, register_method
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun
from placewright.support import modules as extensions
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


@pytest.fixture(autouse=True)
def _only_built_in() -> Iterator[None]:
    """Forget what a test registers."""
    yield
    for name in set(METHODS) - set(registry.ENTRIES):
        del METHODS[name]


@dataclass(frozen=True, kw_only=True)
class LastDevice(Baseline):
    name: str = "last-device"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        num_ops, last = len(problem.lowered.graph_op), problem.machine.num_devices - 1
        yield Candidate(
            name=self.name, device_of=np.full(num_ops, last, np.int32), order=np.arange(num_ops, dtype=np.int32)
        )


def test_a_registered_method_plans_by_its_name() -> None:
    assert register_method(LastDevice()) == LastDevice()
    plan = placewright.plan("example:resnet50-onnx", "3xp100", solver="last-device")
    assert set(plan.device_of.values()) == {2}
    assert plan.found_by == "last-device"


def test_a_class_can_be_registered_by_decorating_it() -> None:
    assert placewright.register_method(LastDevice) is LastDevice
    assert make_method("last-device") == LastDevice()


def test_registering_again_replaces_as_a_notebook_does() -> None:
    first, second = LastDevice(), LastDevice()
    register_method(first)
    register_method(second)
    assert METHODS["last-device"] is second


class FirstDevice(Baseline):
    """Has no settings, so it is no dataclass."""

    name = "first-device"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        num_ops = len(problem.lowered.graph_op)
        yield Candidate(name=self.name, device_of=np.zeros(num_ops, np.int32), order=np.arange(num_ops, dtype=np.int32))


def test_a_baseline_may_have_its_name_as_an_attribute_of_the_class() -> None:
    placewright.register_method(FirstDevice)
    plan = placewright.plan("example:resnet50-onnx", "2xp100", solver="first-device")
    assert (set(plan.device_of.values()), plan.found_by) == ({0}, "first-device")
    with pytest.raises(InputError, match="solver 'first-device' has no settings, so none is 'price'"):
        placewright.plan("example:resnet50-onnx", "2xp100", solver="first-device", settings={"price": 1})


class Nameless:
    def solve(self) -> None: ...


class Unsolving:
    name = "unsolving"


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        (LastDevice(name="etf"), "placewright has a method 'etf' of its own; give yours another name"),
        (LastDevice(name="a,b"), "a method's name is 'a,b'; it must be letters, digits"),
        (LastDevice(name=""), "a method's name is ''; it must be"),
        (Nameless(), "a method's name is None; it must be"),
        (Unsolving(), "method 'unsolving' has no 'solve'"),
    ],
    ids=["taken", "letters", "empty", "nameless", "unsolving"],
)
def test_what_is_no_method_is_not_registered(method: object, complaint: str) -> None:
    before = dict(METHODS)
    with pytest.raises(InputError, match=complaint):
        register_method(method)
    assert before == METHODS


def test_the_example_is_a_method_and_about_30_lines() -> None:
    load_plugins([EXAMPLE])
    assert len(EXAMPLE.read_text().splitlines()) <= 40
    plan = placewright.plan("example:inception-v3", "2xp100", solver="near-inputs")
    assert plan.check().facts.correct
    assert len(set(plan.device_of.values())) == 2


@given(problems())
@settings(max_examples=40)
def test_the_examples_plans_are_right_under_any_constraints(problem: Problem) -> None:
    load_plugins([EXAMPLE])
    result = METHODS["near-inputs"].solve(problem, SearchRun())
    plan = assemble_plan(problem, result, solver="near-inputs", seconds=0.0)
    assert check_plan(plan, problem.graph, problem.time_ns) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1\n", "'mine.py' registers no method; it should call placewright.register_method"),
        ("x = (\n", r"'mine.py' failed: SyntaxError: .* \(mine.py:1\)"),
        ("import placewright\n\n1 / 0\n", r"'mine.py' failed: ZeroDivisionError: division by zero \(mine.py:3\)"),
        ("import nowhere\n", r"'mine.py' failed: ModuleNotFoundError: No module named 'nowhere' \(mine.py:1\)"),
        ("import sys\nsys.exit()\n", r"'mine.py' failed: SystemExit: no message \(mine.py:2\)"),
        ("import placewright\nplacewright.register_method(5)\n", "'mine.py': a method's name is None"),
    ],
)
def test_a_wrong_plugin_is_one_sentence(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(text)
    with pytest.raises(InputError, match=f"plugin {complaint}") as error:
        load_plugins(["mine.py"])
    assert "\n" not in str(error.value)


def test_a_plugin_that_is_not_there_or_no_python_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read plugin '.*nowhere.py': No such file"):
        load_plugins([tmp_path / "nowhere.py"])
    with pytest.raises(InputError, match=r"'mine.txt' is no Python file"):
        load_plugins(["mine.txt"])


class Wrong:
    """A method that returns the answer of the given function."""

    name = "wrong"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def solve(self, problem: Problem, run: SearchRun) -> Any:
        return self.answer(problem)


def wrong_order(problem: Problem) -> Any:
    found = METHODS["input-order"].solve(problem, SearchRun())
    found.solution.order[:] = found.solution.order[::-1].copy()
    return found


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda problem: 1 // 0, r"method 'wrong' failed: ZeroDivisionError: .* \(test_plugins.py:\d+\)"),
        (lambda problem: sys.exit(0), r"method 'wrong' failed: SystemExit: 0 \(test_plugins.py:\d+\)"),
        (lambda problem: None, "method 'wrong' returned NoneType, not a Result"),
        (wrong_order, "method 'wrong' made an invalid solution: op 1 runs before an input is on its device"),
    ],
)
def test_what_a_method_does_wrong_is_one_sentence(answer: Any, complaint: str) -> None:
    problem = problem_of(graph_of({"a": ("", 1), "b": ("a", 1)}), machine_of(1))
    method = register_method(Wrong(answer))
    with pytest.raises(InputError, match=complaint):
        solve(method, problem, SearchRun())


def test_a_method_cannot_report_what_it_did_not_reach() -> None:
    problem = problem_of(graph_of({"a": ("", 1), "b": ("a", 1)}), machine_of(1), 5)

    def boasting(problem: Problem) -> Any:
        from dataclasses import replace

        found = METHODS["input-order"].solve(problem, SearchRun())
        return replace(found, metrics=replace(found.metrics, step_time_ns=1))

    # Two ops of 5 ns, one after the other.
    assert solve(register_method(Wrong(boasting)), problem, SearchRun()).metrics.step_time_ns == 10


class FewDraws:
    """Draws a device for each op, a few times; no base class, no dataclass."""

    name = "few-draws"

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        random = np.random.default_rng(run.seed)
        ops = np.arange(problem.core.num_ops, dtype=np.int32)
        while (reason := run.reason_to_stop()) is None:
            device_of = random.integers(problem.machine.num_devices, size=len(ops), dtype=np.int32)
            order = problem.core.with_transfers(device_of, ops, early=True)
            run.offer(problem, Solution(device_of=device_of, order=order), self.name)
        return run.result(problem, self.name, stopped_because=reason)


def test_a_method_without_a_base_class_asks_its_run() -> None:
    # Two ops of 5 ns are best on a device each; 30 draws find that.
    problem = problem_of(graph_of({"a": ("", 1), "b": ("", 1)}), machine_of(2), 5)
    register_method(FewDraws)
    run = SearchRun(Budget(evaluations=30), seed=1)
    result = solve(make_method("few-draws"), problem, run)
    assert (result.metrics.step_time_ns, result.evaluations, result.stopped_because) == (5, 30, "evaluations")
    assert [point.best for point in result.trace] in ([5], [10, 5])


def package(folder: Path, target: str, name: str = "last-device") -> None:
    """An installed package with an entry point, as pip leaves it."""
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[placewright.methods]\n{name} = {target}\n")


def test_a_method_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, f"{__name__}:LastDevice")
    assert __name__ in sys.modules
    with pytest.raises(InputError, match="there is no solver 'last-device'"):
        make_method("last-device")
    monkeypatch.syspath_prepend(tmp_path)
    assert make_method("last-device") == LastDevice()


@pytest.mark.parametrize(
    ("target", "name", "complaint"),
    [
        ("nowhere:X", "last-device", r"entry point 'last-device' \(nowhere:X\) failed: ModuleNotFoundError"),
        (f"{__name__}:LastDevice", "first", r"entry point 'first' .* has a method of another name"),
        (f"{__name__}:Unsolving", "unsolving", r"entry point 'unsolving' .*: method 'unsolving' has no 'solve'"),
    ],
)
def test_a_wrong_entry_point_is_named(
    target: str, name: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, target, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=complaint):
        make_method(name)


def test_an_extension_that_cannot_be_imported_concerns_only_names_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("import nonesuch_of_all")
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_text("Name: broken\nVersion: 1\n")
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_text("[placewright.extensions]\nbad = broken\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extensions, "_complaints", None)
    assert register_method(LastDevice()) == LastDevice()
    assert make_method("etf").name == "etf"
    with pytest.raises(InputError, match=r"no solver 'etv'.*; entry point 'bad' \(broken\) failed: .*nonesuch_of_all"):
        make_method("etv")
    found, complaints = method_summaries()
    assert {"auto", "regal"} <= {method.name for method in found}
    assert len(complaints) == 1
