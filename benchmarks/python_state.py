"""Changes of Python state between two calls of a module: which ways then give what eager gives, refuse, or are wrong.

    python benchmarks/python_state.py OUT.jsonl --ways compile,fit,backend,dynamo     rows that there are are kept
    python benchmarks/python_state.py OUT.jsonl --ways compile --only 'held/*'
    python benchmarks/python_state.py OUT.jsonl --table                               of the rows that there are

The cases are those of state_changes.py. Each runs in a process of its own for each way: a call, the change,
another call, and where the change can be undone a third one after that. The same is done in eager, in evaluation mode
for `compile` and in training mode for the others. A verdict is about all calls of a case:

    right     values, and where there are gradients these, buffers, arguments and what forward wrote elsewhere are
              eager's, bit by bit or within 1e-6; an error where eager has one
    refused   an error where eager has none, and nothing wrong at another call
    wrong     another value than eager's
    void      eager's result, as far as this way gives it, is not changed by the change
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import importlib
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from state_changes import CASES, PREAMBLE, Built, build

import placewright

Outcome = Mapping[str, Any]
EFFECTS = ("buffers", "args", "probe")
# Parts of a call's outcome that are compared, by way.
COMPARED = {
    "compile": ("value", *EFFECTS),
    "fit": ("loss", "grads", *EFFECTS),
    "backend": ("value", "loss", "grads", *EFFECTS),
    "dynamo": ("value", "loss", "grads", *EFFECTS),
}
CALLS_INSIDE, TIMEOUT_S = 4, 90
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case in one way. call: the first that is wrong, or refused. wanted, found: of that call, shortened."""

    case: str
    way: str
    verdict: str
    call: int = 0
    message: str = ""
    wanted: str = ""
    found: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Outcomes of eager in one mode. unchanged: two calls without the change, which show what the change changes."""

    changed: Sequence[Outcome]
    unchanged: Sequence[Outcome]


# ------------------------------------------------------------------------------------------------ in the own process
def plain(value: Any) -> Any:
    """The value in JSON's types: a tensor as dtype, shape, whether it wants a gradient, and numbers."""
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            kept = value.detach().clone()
            numbers = (torch.view_as_real(kept) if kept.is_complex() else kept).tolist()
        return ["tensor", str(value.dtype), list(value.shape), value.requires_grad, numbers]
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(held) for held in value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return [type(value).__name__, str(value.dtype), value.tolist()]
    return [type(value).__name__, plain(vars(value))] if hasattr(value, "__dict__") else repr(value)


def default_loss(output: Any) -> torch.Tensor:
    if hasattr(output, "loss"):
        return output.loss
    if isinstance(output, torch.Tensor) and output.ndim == 0:
        return output
    leaves = torch.utils._pytree.tree_leaves(output)
    means = [leaf.mean() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return sum(means[1:], means[0])


def is_inference(way: str) -> bool:
    return way == "compile" or way.startswith("eager evaluation")


def prepared(way: str, built: Built) -> Callable[..., Any]:
    module, args = built.module, built.args
    module.train(not is_inference(way))
    if way == "compile":
        return placewright.compile(module, args, devices="cpu:0", solver="list")
    if way == "fit":
        return placewright.fit(module, args, "1GiB", evaluations=20)
    if way == "backend":
        return torch.compile(module, backend="placewright", options={"devices": "cpu:0"})  # type: ignore[no-any-return]
    return torch.compile(module, backend="eager") if way == "dynamo" else module  # type: ignore[no-any-return]


def called(way: str, built: Built, function: Callable[..., Any]) -> Outcome:
    """The outcome of one call, with gradients in training mode."""
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    output = function(*built.args)
    if way == "fit":
        found["loss"] = plain(output.detach())
    else:
        found["value"] = plain(output)
    if way != "fit" and not is_inference(way):
        loss = default_loss(output)
        if loss.requires_grad:
            loss.backward()
        found["loss"] = plain(loss.detach())
    if not is_inference(way):
        # Once for a parameter that the module holds twice.
        found["grads"] = {name: plain(p.grad) for name, p in built.module.named_parameters()}
        for p in built.module.parameters():
            p.grad = None
    found["buffers"] = {name: plain(buffer) for name, buffer in built.module.named_buffers()}
    found["args"], found["probe"] = plain(built.args), plain(built.probe())
    return found


def first_line(error: BaseException) -> str:
    """The error's type and first line; the cause's, if PyTorch wraps what a backend raises."""
    inner = getattr(error, "inner_exception", None)
    told = error if inner is None else inner
    lines = [line for line in str(told).splitlines() if line.strip()]
    return f"{type(told).__name__}: {lines[0] if lines else ''}"[:400]


def outcomes(name: str, way: str) -> list[Outcome]:
    """Outcomes of all calls of a case. An error in making the function is the first call's, and the only outcome.

    "eager training unchanged" is two calls without the change between them.
    """
    built = build(name)
    changes: list[Callable[[], None] | None] = [None, built.change, *([] if built.undo is None else [built.undo])]
    if CASES[name].is_inside:
        changes = [None] * CALLS_INSIDE
    if way.endswith("unchanged"):
        changes = [None, None]
    found: list[Outcome] = []
    try:
        function = prepared(way, built)
    except Exception as error:
        return [{"error": first_line(error)}]
    for change in changes:
        if change is not None:
            change()
        try:
            found.append(called(way, built, function))
        except Exception as error:
            found.append({"error": first_line(error)})
    return found


def child(name: str, way: str, to: Any) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.argv = ["own"]
    # Bound before a case patches what they need.
    dumps, send, leave = json.JSONEncoder(default=repr).encode, to.send_bytes, os._exit
    try:
        found = outcomes(name, way)
    except BaseException as error:
        found = [{"broken": first_line(error)}]
    send(dumps(found).encode())
    leave(0)


# ------------------------------------------------------------------------------------------------------- in the parent
def warm_up() -> None:
    """Import here what the ways import when they are first used, so that no case has to."""

    def names(to: Any) -> None:
        for way in COMPARED:
            with contextlib.suppress(Exception):
                outcomes("part/parameter_written", way)
                sys.modules.pop("users_file", None)
        to.send_bytes("\n".join(sys.modules).encode())
        os._exit(0)

    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=names, args=(there,))
    process.start()
    there.close()
    exec(PREAMBLE, {})
    for name in here.recv_bytes().decode().splitlines():
        if name.startswith(("torch.", "placewright.", "sympy.", "networkx.")):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    process.join()


def run(name: str, way: str) -> list[Outcome]:
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=child, args=(name, way, there))
    process.start()
    there.close()
    try:
        if not here.poll(TIMEOUT_S):
            return [{"broken": f"no answer in {TIMEOUT_S} s"}]
        return json.loads(here.recv_bytes())  # type: ignore[no-any-return]
    except EOFError:
        return [{"broken": "the process ended"}]
    finally:
        process.kill()
        process.join()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


def equal(a: Outcome, b: Outcome, compared: Sequence[str]) -> bool:
    """True if both raise, or both give the same."""
    if "error" in a or "error" in b:
        return "error" in a and "error" in b
    return all(same(a.get(part), b.get(part)) for part in compared)


def differs(a: Outcome, b: Outcome, compared: Sequence[str]) -> str:
    parts = {part: a.get(part) for part in compared if not same(a.get(part), b.get(part))}
    return json.dumps(a if "error" in a or "error" in b else parts)[:400]


def judged(name: str, way: str, truth: Truth, found: Sequence[Outcome]) -> Row:
    compared, wanted = COMPARED[way], truth.changed
    if "broken" in found[0]:
        return Row(case=name, way=way, verdict="wrong", message=found[0]["broken"])
    if not CASES[name].is_inside and equal(wanted[1], truth.unchanged[1], compared):
        return Row(case=name, way=way, verdict="void")
    refused: Row | None = None
    for call, (a, b) in enumerate(zip(wanted, found, strict=False), 1):
        if equal(a, b, compared):
            continue
        if "error" in b:
            refused = refused or Row(case=name, way=way, verdict="refused", call=call, message=b["error"])
        else:
            told, instead = differs(a, b, compared), differs(b, a, compared)
            return Row(case=name, way=way, verdict="wrong", call=call, wanted=told, found=instead)
    return refused or Row(case=name, way=way, verdict="right")


def is_valid(name: str, truths: Sequence[Truth]) -> bool:
    """True if eager runs the first call in both modes, and in one of them the change alters the second call's outcome.
    Cases that change state in forward need only the former."""
    if any("broken" in truth.changed[0] or "error" in truth.changed[0] for truth in truths):
        return False
    every = ("value", "loss", "grads", *EFFECTS)
    return CASES[name].is_inside or any(not equal(t.changed[1], t.unchanged[1], every) for t in truths)


def rows_of(name: str, ways: Sequence[str]) -> list[Row]:
    evaluation, training = (
        Truth(changed=run(name, mode), unchanged=run(name, f"{mode} unchanged"))
        for mode in ("eager evaluation", "eager training")
    )
    if not is_valid(name, (evaluation, training)):
        return [Row(case=name, way="eager", verdict="invalid", message=json.dumps(evaluation.changed)[:400])]
    rows = []
    for way in ways:
        start = time.perf_counter()
        found = run(name, way)
        row = judged(name, way, evaluation if way == "compile" else training, found)
        rows.append(Row(**{**asdict(row), "seconds": round(time.perf_counter() - start, 3)}))
    return rows


# --------------------------------------------------------------------------------------------------------- the report
def read_rows(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(rows: Sequence[Row]) -> None:
    verdicts = ("right", "refused", "wrong", "void")
    print(f"{'way':10}" + "".join(f"{verdict:>9}" for verdict in verdicts) + f"{'seconds':>9}")
    for way in COMPARED:
        own = [row for row in rows if row.way == way]
        counts = collections.Counter(row.verdict for row in own)
        if own:
            seconds = sum(row.seconds for row in own)
            print(f"{way:10}" + "".join(f"{counts[verdict]:9}" for verdict in verdicts) + f"{seconds:9.0f}")
    for way in COMPARED:
        wrong = [row for row in rows if row.way == way and row.verdict == "wrong"]
        if wrong:
            print(f"\nwrong with {way}: {len(wrong)}")
        for row in wrong:
            print(f"  {row.case}, call {row.call}: {row.message or f'{row.wanted[:90]} but {row.found[:90]}'}")
    invalid = [row for row in rows if row.verdict == "invalid"]
    for row in invalid:
        print(f"invalid: {row.case}: {row.message[:300]}")
    assert not invalid, f"{len(invalid)} cases do not run in eager, or their change changes nothing there"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--ways", default=",".join(COMPARED))
    options.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="of cases")
    options.add_argument("--table", action="store_true")
    return options


def main() -> None:
    options = parser().parse_args()
    ways = options.ways.split(",")
    assert set(ways) <= set(COMPARED), f"ways are {', '.join(COMPARED)}"
    done = {(row.case, row.way) for row in read_rows(options.out) if row.verdict != "invalid"}
    asked = [name for name in CASES if any(fnmatch.fnmatch(name, glob) for glob in options.only)]
    names = [] if options.table else asked
    with tempfile.TemporaryDirectory() as folder, options.out.open("a") as out:
        tempfile.tempdir = folder
        if names:
            warm_up()
        for name in names:
            missing = [way for way in ways if (name, way) not in done]
            for row in rows_of(name, missing) if missing else ():
                out.write(json.dumps(asdict(row)) + "\n")
                out.flush()
    latest = {(row.case, row.way): row for row in read_rows(options.out) if row.case in asked}
    print_table(list(latest.values()))


if __name__ == "__main__":
    main()
