"""Captures of the networks of library_steps.toml for planning: which succeed, and how long they take.

    python benchmarks/capture_fronts.py --out out/before.jsonl                     all of them
    python benchmarks/capture_fronts.py --networks timm/resnet10t                  these
    python benchmarks/capture_fronts.py --compare out/before.jsonl out/after.jsonl what another version changed

`placewright.inspect` captures a training step of each network in a process of its own, with a limit of processor time.
A later call takes up the file of rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from library_builders import LIBRARIES, Entry, built, entries, import_libraries
from library_limits import refusal
from library_process import add_row, confine, read_rows

import placewright

CAPTURED, REFUSED, CRASH, TIMEOUT, EAGER = "captured", "refused", "crash", "timeout", "not built"


def captured(entry: Entry) -> dict[str, Any]:
    """The row of a network."""
    try:
        example = built(entry, 7, 1)
    except Exception as error:
        return {"verdict": EAGER, "detail": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    args, kwargs = example.batches[0]
    began = time.process_time()
    ops = 0
    try:
        ops = num_ops(placewright.inspect(example.module, args=args, kwargs=kwargs, training=True).facts)
        verdict, detail = CAPTURED, ""
    except Exception as error:
        refused = refusal(error)
        told = f"{type(error).__name__}: {str(error).strip()[:300]}"
        verdict, detail = (CRASH, told) if refused is None else (REFUSED, refused)
    return {"verdict": verdict, "detail": detail, "ops": ops, "seconds": round(time.process_time() - began, 2)}


def num_ops(facts: Any) -> int:
    """As the facts call it."""
    for name in ("num_ops", "ops"):
        value = facts.get(name) if isinstance(facts, dict) else getattr(facts, name, None)
        if value is not None:
            return int(value) if isinstance(value, int) else len(value)
    raise LookupError(f"{type(facts).__name__} does not say how many ops there are")


def send(rows: Any, entry: Entry, seconds: int) -> None:
    confine(seconds)
    rows.send(captured(entry))


def row_of(entry: Entry, seconds: int) -> dict[str, Any]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=send, args=(theirs, entry, seconds))
    process.start()
    theirs.close()
    found: dict[str, Any] = {"verdict": CRASH, "detail": "", "ops": 0, "seconds": 0.0}
    try:
        if ours.poll(4 * seconds):
            found |= ours.recv()
        else:
            process.kill()
            found |= {"verdict": TIMEOUT}
    except EOFError:
        process.join()
        late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        found |= {"verdict": TIMEOUT if late else CRASH, "detail": f"the process ended with {process.exitcode}"}
    process.join()
    return {"network": entry.label, **found}


def by_network(path: Path) -> dict[str, dict[str, Any]]:
    return {row["network"]: row for row in read_rows(path)}


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| library | captured | refused | crash | timeout | ops | processor s |", "|---|" + "---:|" * 6]
    for library in (*LIBRARIES, "all"):
        own = [row for row in rows if library in (row["network"].partition("/")[0], "all")]
        if own:
            count = Counter(row["verdict"] for row in own)
            done = [row for row in own if row["verdict"] == CAPTURED]
            sums = f"{sum(row['ops'] for row in done):,} | {sum(row['seconds'] for row in done):,.0f}"
            cells = [str(count[verdict] or "") for verdict in (CAPTURED, REFUSED, CRASH, TIMEOUT)]
            lines.append(f"| {library} | {' | '.join(cells)} | {sums} |")
    others = [row for row in rows if row["verdict"] != CAPTURED]
    lines += [""] + [f"- {row['network']} {row['verdict']}: {' '.join(row['detail'].split())}" for row in others]
    return "\n".join(lines)


def compared(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> str:
    """Of the networks in both: verdicts and numbers of ops that changed, and the time of all that are captured."""
    both = [name for name in before if name in after]
    lines = []
    for name in both:
        one, other = before[name], after[name]
        if (one["verdict"], one["ops"]) != (other["verdict"], other["ops"]):
            told = f"{one['verdict']} of {one['ops']} ops, then {other['verdict']} of {other['ops']} ops"
            lines.append(f"- {name}: {told} {other['detail']}".rstrip())
    done = [name for name in both if before[name]["verdict"] == after[name]["verdict"] == CAPTURED]
    times = [sum(rows[name]["seconds"] for name in done) for rows in (before, after)]
    lines.append(f"{len(both)} networks in both; {len(done)} captured in {times[0]:,.1f} s, then in {times[1]:,.1f} s")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="LIBRARY/NAME")
    options.add_argument("--libraries", default=",".join(LIBRARIES))
    options.add_argument("--seconds", type=int, default=120, help="of the processor, after which a process is ended")
    options.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    options.add_argument("--out", type=Path, default=Path("out") / "capture-fronts.jsonl", help="the file of rows")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if arguments.compare:
        print(compared(*map(by_network, arguments.compare)))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    there = by_network(arguments.out)
    names, libraries = arguments.networks, arguments.libraries.split(",")
    listed = [each for each in entries() if (each.label in names if names else each.library in libraries)]
    import_libraries(listed)
    for entry in listed:
        if entry.label not in there:
            row = row_of(entry, arguments.seconds)
            add_row(arguments.out, row)
            print(f"{row['network']}: {row['verdict']} {row['detail'][:150]}", file=sys.stderr, flush=True)
    print(table(read_rows(arguments.out)))


if __name__ == "__main__":
    main()
