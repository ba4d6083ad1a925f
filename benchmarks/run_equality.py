"""Networks of libraries as planned, compared bit by bit with the modules themselves.

    python benchmarks/run_equality.py --count 200                  so many networks, drawn with --seed
    python benchmarks/run_equality.py --networks timm_resnet10t    these
    python benchmarks/run_equality.py --count 200 --table          the table of the rows that there are

Each network is run by `placewright.compile` and by the backend of `torch.compile`, on one device and on two, in
inference, in training with SGD called by hand and (`placewright.compile`) with a planned Adam: three steps, each with
other inputs. What is compared with the module in eager: outputs and losses, gradients, parameters, buffers, attributes
of the module, the generator of random numbers. Every network is a process of its own with a time limit, every
comparison a line of the file of rows, which a later call takes up. A device has a core, and eager one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
from equality_networks import NotRunnableError, Runnable, drawn, loss_of, named, runnable
from equality_records import DifferenceError, Record, check, record

import placewright
from placewright.lab.datasets.libraries.listing import LIBRARIES
from placewright.support.errors import InputError

STEPS, SEED = 3, 7
DEVICES = ("cpu:0", "cpu:0,cpu:1")
WAYS = {"compile": ("inference", "sgd", "adam"), "backend": ("inference", "sgd")}
#: Plans are found quickly, and use both devices: only equality counts.
PLANNING = {"solver": "random-placement", "seed": 1, "evaluations": 30}
#: Verdicts, from good to bad.
EQUAL, LAST_BITS, REFUSED, DIFFERENT, CRASH = "equal", "last bits", "refused", "different", "crash"
OUT_OF_TIME = "out of time"
#: Of a network, not of a way to run it.
SKIPPED = "not runnable"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A way to run a network. mode: inference, or who makes the optimizer's step of a training step."""

    way: str
    mode: str
    devices: str


CASES = [Case(way=way, mode=mode, devices=each) for each in DEVICES for way, modes in WAYS.items() for mode in modes]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a case. detail: the sentence of a refusal, or the first tensor that differs, and by how much."""

    network: str
    way: str
    mode: str
    devices: str
    verdict: str
    detail: str
    seconds: float

    @property
    def library(self) -> str:
        return next((library for library in LIBRARIES if self.network.startswith(f"{library}_")), "")


def steps_of(call: Callable[..., Any], module: Any, optimizer: Any, network: Runnable, mode: str) -> Iterator[Record]:
    """Three steps of something that is called like the module. call: returns the output, or in training the loss with
    its gradients in place."""
    torch.manual_seed(SEED)
    for args, kwargs in network.batches:
        with torch.set_grad_enabled(mode != "inference"):
            output = call(*args, **kwargs)
        gradients = {}
        if mode == "sgd":
            named = module.named_parameters()
            gradients = {f"gradient of {name}": each.grad for name, each in named if each.grad is not None}
            gradients = {name: gradient.clone() for name, gradient in gradients.items()}
            optimizer.step()
            optimizer.zero_grad()
        yield record(module, output, gradients)


def eager(module: Any, optimizer: Any, mode: str) -> Callable[..., Any]:
    """The module itself; with Adam the whole step."""

    def step(*args: Any, **kwargs: Any) -> Any:
        loss = loss_of(module(*args, **kwargs))
        loss.backward()
        if mode == "adam":
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return module if mode == "inference" else step


def made(case: Case, module: Any, optimizer: Any, network: Runnable, profile: Path, backend: str) -> Callable[..., Any]:
    """The module as planned. backend: of torch.compile, where the way is that."""
    if case.way == "backend":
        torch._dynamo.reset()
        options = {"devices": case.devices, **PLANNING} if backend == "placewright" else None
        return eager(torch.compile(module, backend=backend, options=options), optimizer, case.mode)
    args, kwargs = network.batches[0]
    given: dict[str, Any] = dict(PLANNING)
    if case.mode != "inference":
        given |= {"training": True, "loss": loss_of, "optimizer": optimizer if case.mode == "adam" else None}
    before = torch.get_rng_state()
    compiled = placewright.compile(module, args, kwargs=kwargs, devices=case.devices, profile=profile, **given)
    if not torch.equal(before, torch.get_rng_state()):
        raise DifferenceError("compiling draws from the generator of random numbers")
    return compiled


def prepared(network: Runnable, mode: str) -> tuple[Any, Any]:
    """A copy of the module in that mode, and its optimizer."""
    module = copy.deepcopy(network.module).train(mode != "inference")
    if mode == "inference":
        return module, None
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if mode == "adam":
        return module, torch.optim.Adam(parameters, lr=1e-3)
    return module, torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def compare(case: Case, network: Runnable, wanted: Sequence[Record], profile: Path, backend: str) -> None:
    """Raises DifferenceError, or whatever compiling and running raise."""
    module, optimizer = prepared(network, case.mode)
    call = made(case, module, optimizer, network, profile, backend)
    with contextlib.ExitStack() as stack:
        if case.way == "compile":
            stack.callback(call.close)  # type: ignore[attr-defined]
        for number, (found, expected) in enumerate(
            zip(steps_of(call, module, optimizer, network, case.mode), wanted, strict=True), start=1
        ):
            check(found, expected, f"step {number}: ")


def judged(case: Case, network: Runnable, wanted: Sequence[Record], profile: Path, backend: str) -> tuple[str, str]:
    """Verdict and detail."""
    try:
        compare(case, network, wanted, profile, backend)
    except DifferenceError as difference:
        return (LAST_BITS if difference.is_small else DIFFERENT), str(difference)
    except Exception as error:
        sources = [error, error.__cause__, getattr(error, "inner_exception", None)]
        refusal = next((each for each in sources if isinstance(each, InputError)), None)
        if refusal is not None:
            return REFUSED, str(refusal)
        return CRASH, f"{type(error).__name__}: {str(error).strip()[:400]}"
    return EQUAL, ""


def rows_of(label: str, cases: Sequence[Case], seed: int) -> Iterator[Row]:
    """The rows of a network, each as soon as it is there."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    began = time.monotonic()

    def row(case: Case, verdict: str, detail: str) -> Row:
        nonlocal began
        seconds, began = round(time.monotonic() - began, 1), time.monotonic()
        return Row(network=label, **asdict(case), verdict=verdict, detail=detail, seconds=seconds)

    try:
        network = runnable(named(label), seed, STEPS)
    except NotRunnableError as error:
        yield row(Case(way="", mode="", devices=""), SKIPPED, str(error))
        return
    with tempfile.TemporaryDirectory() as folder:
        for mode in dict.fromkeys(case.mode for case in cases):
            wanted = [*steps_of(*eager_of(network, mode), network, mode)]
            for case in (case for case in cases if case.mode == mode):
                # A device alone would have all cores, and other last bits.
                one = {cores[os.getpid() % len(cores)]}
                os.sched_setaffinity(0, cores if "," in case.devices else one)
                verdict, detail = judged(case, network, wanted, Path(folder), "placewright")
                if case.way == "backend" and verdict not in (EQUAL, REFUSED):
                    plain = judged(case, network, wanted, Path(folder), "aot_eager")
                    detail += f" [PyTorch's aot_eager: {': '.join(filter(None, plain))[:300]}]"
                if verdict in (LAST_BITS, DIFFERENT) and (why := varies(network, mode, wanted)):
                    verdict, detail = SKIPPED, f"eager itself: {why}"
                yield row(case, verdict, detail)


def varies(network: Runnable, mode: str, wanted: Sequence[Record]) -> str:
    """What differs from one run of the module itself to the next; empty where nothing does."""
    try:
        for found, expected in zip(steps_of(*eager_of(network, mode), network, mode), wanted, strict=True):
            check(found, expected, "")
    except DifferenceError as difference:
        return str(difference)
    return ""


def eager_of(network: Runnable, mode: str) -> tuple[Callable[..., Any], Any, Any]:
    module, optimizer = prepared(network, mode)
    return eager(module, optimizer, mode), module, optimizer


def read_rows(path: Path) -> list[Row]:
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [Row(**json.loads(line)) for line in lines]


def missing(label: str, rows: Sequence[Row], devices: Sequence[str]) -> list[Case]:
    own = [row for row in rows if row.network == label]
    if any(not row.way for row in own):
        return []
    there = {(row.way, row.mode, row.devices) for row in own}
    return [case for case in CASES if case.devices in devices and (case.way, case.mode, case.devices) not in there]


class Rows:
    """The file of rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows = read_rows(path)

    def add(self, row: Row) -> None:
        with self._path.open("ab+") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)  # What a kill left of a line.
            file.write(json.dumps(asdict(row)).encode() + b"\n")
        self.rows.append(row)

    def of(self, label: str) -> list[Row]:
        return [row for row in self.rows if row.network == label]


class Running:
    """A network in a process of its own, forked from this one, which has imported the libraries."""

    def __init__(self, label: str, cases: Sequence[Case], seed: int, seconds: int) -> None:
        self.label, self.left = label, list(cases)
        context = multiprocessing.get_context("fork")
        self.rows, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_send_rows, args=(theirs, label, cases, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.end = time.monotonic() + seconds

    def received(self) -> Row | None:
        """The next row; None where there will be no more."""
        try:
            row: Row = self.rows.recv()
        except EOFError:
            self.process.join()
            return None
        self.left = self.left[1:] if row.way else []
        return row


def _send_rows(rows: Any, label: str, cases: Sequence[Case], seed: int) -> None:
    for row in rows_of(label, cases, seed):
        rows.send(row)


def make_all(labels: Iterator[str], rows: Rows, arguments: argparse.Namespace) -> None:
    """Some networks at a time, until there are enough that can be run. Of a process that ends, or is ended, before it
    has sent all rows the next one says so; after a crash the others are tried again."""
    running: dict[Any, Running] = {}
    while True:
        while len(running) < arguments.processes:
            there = {row.network for row in rows.rows if row.way} | {each.label for each in running.values()}
            label = next(labels, None)
            if label is None or (label not in there and len(there) >= (arguments.count or sys.maxsize)):
                break
            if cases := missing(label, rows.rows, arguments.devices):
                begun = Running(label, cases, arguments.seed, arguments.seconds)
                running[begun.rows] = begun
        if not running:
            return
        for ready in wait(list(running), timeout=1):
            each = running[ready]
            if (row := each.received()) is not None:
                rows.add(row)
                continue
            del running[ready]
            if each.left:
                code = each.process.exitcode
                why = f"more than {arguments.seconds} s" if code == -9 else f"the process ended with {code}"
                verdict = OUT_OF_TIME if code == -9 else CRASH
                rows.add(Row(network=each.label, **asdict(each.left[0]), verdict=verdict, detail=why, seconds=0.0))
                if code != -9 and len(each.left) > 1:
                    again = Running(each.label, each.left[1:], arguments.seed, arguments.seconds)
                    running[again.rows] = again
                    continue
            found = Counter(row.verdict for row in rows.of(each.label))
            told = ", ".join(f"{count} {verdict}" for verdict, count in found.items())
            print(f"{each.label}: {told}", file=sys.stderr, flush=True)
        for each in running.values():
            if time.monotonic() > each.end:
                each.process.kill()


def print_table(rows: Sequence[Row]) -> None:
    verdicts = (EQUAL, LAST_BITS, REFUSED, DIFFERENT, CRASH, OUT_OF_TIME)
    networks = {row.network: row.library for row in rows if row.way}
    of_each = ", ".join(f"{count} of {library}" for library, count in Counter(networks.values()).items())
    print(f"\n{len(networks)} networks: {of_each}\n")
    print(f"| library | way | mode | devices | {' | '.join(verdicts)} |")
    print("|---|---|---|---|" + "---:|" * len(verdicts))
    counts = Counter((row.library, row.way, row.mode, row.devices, row.verdict) for row in rows if row.way)
    for library in LIBRARIES:
        for case in sorted(CASES, key=lambda case: (case.way != "compile", case.mode, case.devices)):
            key = (library, case.way, case.mode, case.devices)
            cells = [str(counts[(*key, verdict)] or "") for verdict in verdicts]
            if any(cells):
                print(f"| {' | '.join((*key, *cells))} |")
    print("\n| what | rows | networks |\n|---|---:|---|")
    reasons: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.verdict not in (EQUAL, SKIPPED):
            reasons.setdefault((row.verdict, row.detail), []).append(row)
    for (verdict, detail), alike in sorted(reasons.items(), key=lambda each: (each[0][0], -len(each[1]))):
        names = sorted({row.network for row in alike})
        ways = ", ".join(sorted({f"{row.way} {row.mode}" for row in alike}))
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"| {verdict} ({ways}): {detail} | {len(alike)} | {few} |".replace("\n", " "))


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="LABEL")
    options.add_argument("--count", type=int, help="draw so many networks that can be run")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--libraries", default=",".join(LIBRARIES))
    options.add_argument("--devices", nargs="+", default=DEVICES, choices=DEVICES)
    options.add_argument("--seconds", type=int, default=300, help="after which a network is given up")
    options.add_argument("--processes", type=int, default=1, help="networks at a time")
    options.add_argument("--table", action="store_true", help="print the table of what there is, and run nothing")
    options.add_argument("--out", type=Path, default=Path("out") / "run-equality")
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = Rows(arguments.out / "rows.jsonl")
    if not arguments.table:
        labels = arguments.networks or (each.label for each in drawn(arguments.libraries.split(","), arguments.seed))
        make_all(iter(labels), rows, arguments)
    print_table(rows.rows)


if __name__ == "__main__":
    main()
