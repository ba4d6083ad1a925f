"""Training steps of 200 networks of libraries, by `placewright.fit` and the backend, compared bit by bit with eager.

    python benchmarks/library_steps.py                                    all of library_steps.toml
    python benchmarks/library_steps.py --networks timm/resnet10t          these
    python benchmarks/library_steps.py --libraries timm,torchvision       those of two libraries
    python benchmarks/library_steps.py --table                            the table of the rows that there are

Three steps with AdamW, each with other inputs, of a network built anew for each way:

- eager: the module itself, which is the truth;
- fit: `placewright.fit` within a limit 60% of the way from the least that the step can do with to its peak;
- backend: `torch.compile(model, backend="placewright")` in an ordinary loop;
- dynamo: PyTorch's "aot_eager" in that loop, run where the backend is neither equal nor refused, and with --dynamo.

Compared are losses, parameters, buffers, states of the optimizer and the generator of random numbers. A network is a
process of its own, with a limit of processor time, on one core: sums of several threads have other last bits. Each way
of it is a line of the file of rows, which a later call takes up.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from library_builders import LIBRARIES, Entry, Example, built, default_loss, entries, import_libraries, seed_all
from library_limits import Limit, limit_of, refusal
from library_process import add_row, confine, read_rows
from library_records import difference, state_of

import placewright

STEPS, SEED = 3, 7
EQUAL, DIFFERS, REFUSED, CRASH, TIMEOUT = "equal", "differs", "refused", "crash", "timeout"
#: Verdict on a network that cannot be compared: eager fails, or differs from itself.
EAGER = "eager"
VERDICTS = (EQUAL, DIFFERS, REFUSED, CRASH, TIMEOUT)
WAYS = ("fit", "backend")


@dataclass(frozen=True, kw_only=True)
class Row:
    """The outcome of a way. detail: the sentence of a refusal or an error, or what differs, with the largest value.

    plan_seconds: of the processor, for capturing, timing and planning; for a backend, until the first step has ended.
    facts: further facts, such as the limit, the peak and how many ops run again.
    """

    network: str
    way: str
    verdict: str
    detail: str
    plan_seconds: float = 0.0
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def library(self) -> str:
        return self.network.partition("/")[0]


@dataclass(kw_only=True)
class Run:
    """The results of a way. losses: of each step. state: after the last one."""

    losses: list[Any]
    state: Mapping[str, Any]
    plan_seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


def optimizer_of(module: Any) -> Any:
    return torch.optim.AdamW([each for each in module.parameters() if each.requires_grad], lr=1e-3)


def stepped(example: Example, optimizer: Any, call: Callable[..., Any], on_first: Callable[[], None]) -> Run:
    """Runs the steps of `call`, which takes the module's arguments and returns the loss. on_first: called after one."""
    seed_all(SEED)
    losses = []
    for args, kwargs in example.batches:
        optimizer.zero_grad()
        losses.append(call(*args, **kwargs).detach().clone())
        if len(losses) == 1:
            on_first()
    return Run(losses=losses, state=state_of(example.module, optimizer))


def looped(entry: Entry, wrap: Callable[[Any], Any]) -> Run:
    """Runs an ordinary training loop. wrap: makes a callable of the module."""
    example = built(entry, SEED, STEPS)
    optimizer = optimizer_of(example.module)
    began, first = time.process_time(), 0.0
    called = wrap(example.module)

    def step(*args: Any, **kwargs: Any) -> Any:
        loss = default_loss(called(*args, **kwargs))
        loss.backward()
        optimizer.step()
        return loss

    def on_first() -> None:
        nonlocal first
        first = time.process_time() - began

    run = stepped(example, optimizer, step, on_first)
    run.plan_seconds = first
    return run


def eager(entry: Entry) -> Run:
    return looped(entry, lambda module: module)


def backend(entry: Entry) -> Run:
    options = {"devices": "cpu:0"}
    run = looped(entry, lambda module: torch.compile(module, backend="placewright", options=options))
    counts = torch._dynamo.utils.counters
    run.facts = {"graphs": counts["stats"]["unique_graphs"], "breaks": sum(counts["graph_break"].values())}
    return run


def dynamo(entry: Entry) -> Run:
    return looped(entry, lambda module: torch.compile(module, backend="aot_eager"))


def fit(entry: Entry) -> Run:
    """Runs `placewright.fit`. A module of its own serves to find the limit, so that this leaves no trace in the run."""
    probe = built(entry, SEED, STEPS)
    args, kwargs = probe.batches[0]
    probed = optimizer_of(probe.module)

    def probing(wanted: int) -> Any:
        step = placewright.fit(probe.module, args, wanted, kwargs=kwargs, loss=default_loss, optimizer=probed)
        if not step.plans:
            # A step that is captured as several graphs has plans, and refuses limits, only from its first call on.
            step(*args, **kwargs)
            probe.module.zero_grad()
        return step

    limit: Limit = limit_of(probing)
    example = built(entry, SEED, STEPS)
    (args, kwargs), optimizer = example.batches[0], optimizer_of(example.module)
    seed_all(SEED)
    before, began = torch.get_rng_state(), time.process_time()
    step = placewright.fit(example.module, args, limit.chosen, kwargs=kwargs, loss=default_loss, optimizer=optimizer)
    seconds = time.process_time() - began
    drew = not torch.equal(before, torch.get_rng_state())
    run = stepped(example, optimizer, step, lambda: None)
    run.plan_seconds = seconds
    reruns, peaks = sum(len(plan.reruns) for plan in step.plans), [plan.peak_bytes[0] for plan in step.plans]
    run.facts = asdict(limit) | {"reruns": reruns, "planned_peak": max(peaks)}
    if drew:
        run.state = {**run.state, "generator after fit": before}
    return run


_RUNS = {"fit": fit, "backend": backend, "dynamo": dynamo}


def judged(entry: Entry, way: str, wanted: Run) -> Row:
    began = time.process_time()
    try:
        run = _RUNS[way](entry)
        what = difference(run.losses, run.state, wanted.losses, wanted.state)
        row = Row(
            network=entry.label,
            way=way,
            verdict=DIFFERS if what else EQUAL,
            detail=what,
            plan_seconds=round(run.plan_seconds, 2),
            facts=run.facts,
        )
    except Exception as error:
        refused = refusal(error)
        told = f"{type(error).__name__}: {str(error).strip()[:400]}" if refused is None else refused
        row = Row(network=entry.label, way=way, verdict=CRASH if refused is None else REFUSED, detail=told)
    return Row(**{**asdict(row), "seconds": round(time.process_time() - began, 2)})


def rows_of(entry: Entry, ways: Sequence[str]) -> Iterator[Row]:
    """The rows of a network, each as soon as it is there."""
    try:
        wanted = eager(entry)
        varies = difference((again := eager(entry)).losses, again.state, wanted.losses, wanted.state)
    except Exception as error:
        varies = f"{type(error).__name__}: {str(error).strip()[:400]}"
    if varies:
        yield Row(network=entry.label, way=EAGER, verdict=EAGER, detail=varies)
        return
    for way in ways:
        row = judged(entry, way, wanted)
        yield row
        if way == "backend" and row.verdict not in (EQUAL, REFUSED) and "dynamo" not in ways:
            torch._dynamo.reset()
            yield judged(entry, "dynamo", wanted)


def send_rows(rows: Any, entry: Entry, ways: Sequence[str], seconds: int) -> None:
    """Sends the rows of a network; runs in a process of its own."""
    confine(seconds)
    for row in rows_of(entry, ways):
        rows.send(row)


def made(entry: Entry, ways: Sequence[str], seconds: int) -> Iterator[Row]:
    """The rows of a network. If its process ends during a way, a row says so, and another process makes the rest."""
    left = list(ways)
    while left:
        ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=send_rows, args=(theirs, entry, left, seconds))
        process.start()
        theirs.close()
        end = time.monotonic() + 4 * seconds
        while (row := received(ours, process, end)) is not None:
            left = [] if row.way == EAGER else [way for way in left if way != row.way]
            yield row
        process.join()
        if left:
            late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
            why = f"more than {seconds} s" if late else f"the process ended with {process.exitcode}"
            yield Row(network=entry.label, way=left[0], verdict=TIMEOUT if late else CRASH, detail=why)
            left = left[1:]


def received(rows: Any, process: Any, end: float) -> Row | None:
    """The next row; None if no more will come. Kills a process that sends nothing until `end`."""
    if not rows.poll(max(0.0, end - time.monotonic())):
        process.kill()
        return None
    try:
        row: Row = rows.recv()
    except EOFError:
        return None
    return row


def rows_in(path: Path) -> list[Row]:
    return [Row(**row) for row in read_rows(path)]


def table(rows: Sequence[Row]) -> str:
    """Verdicts by library and way, then all that is not equal."""
    lines = [f"| library | way | {' | '.join(VERDICTS)} | processor s to plan |", "|---|---|" + "---:|" * 6]
    for library in (*LIBRARIES, "all"):
        for way in _RUNS:
            own = [row for row in rows if row.way == way and library in (row.library, "all")]
            if own:
                count = Counter(row.verdict for row in own)
                times = sorted(row.plan_seconds for row in own if row.plan_seconds)
                typical = f"{times[len(times) // 2]:.1f}, at most {times[-1]:.1f}" if times else ""
                cells = [str(count[verdict] or "") for verdict in VERDICTS]
                lines.append(f"| {library} | {way} | {' | '.join(cells)} | {typical} |")
    others = [row for row in rows if row.verdict != EQUAL]
    lines += [""] + [f"- {each.network} {each.way} {each.verdict}: {' '.join(each.detail.split())}" for each in others]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="LIBRARY/NAME")
    options.add_argument("--libraries", default=",".join(LIBRARIES))
    options.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    options.add_argument("--dynamo", action="store_true", help="run aot_eager in any case")
    options.add_argument("--seconds", type=int, default=240, help="of the processor, after which a process is ended")
    options.add_argument("--table", action="store_true", help="print the table of what there is, and run nothing")
    options.add_argument("--out", type=Path, default=Path("out") / "library-steps.jsonl", help="the file of rows")
    return options


def chosen(networks: Sequence[str] | None, libraries: str) -> list[Entry]:
    listed = entries()
    if networks:
        return [each for each in listed if each.label in networks]
    return [each for each in listed if each.library in libraries.split(",")]


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    ways = [*arguments.ways, *(["dynamo"] if arguments.dynamo else [])]
    if not arguments.table:
        torch.set_num_threads(1)
        listed = chosen(arguments.networks, arguments.libraries)
        import_libraries(listed)
        for entry in listed:
            there = {row.way for row in rows_in(arguments.out) if row.network == entry.label}
            for row in made(
                entry, [] if EAGER in there else [way for way in ways if way not in there], arguments.seconds
            ):
                add_row(arguments.out, asdict(row))
                print(f"{row.network} {row.way}: {row.verdict} {row.detail[:150]}", file=sys.stderr, flush=True)
    print(table(rows_in(arguments.out)))


if __name__ == "__main__":
    main()
