"""Random training loops run as planned, compared bit by bit with eager after every step.

    python benchmarks/run_training_loops.py OUT.jsonl --seeds 0:1000 --ways fit,backend
    python benchmarks/run_training_loops.py OUT.jsonl --table              the table of the rows that there are
    python benchmarks/run_training_loops.py OUT.jsonl --shrink 17:fit      a smaller loop that still differs

Every pair of a seed and a way is a process of its own with a time limit and a row of the file, which a later call
takes up. Verdicts: equal; refused, by an exception of the call; refused-limit, where no plan keeps the limit; differ;
invalid, where eager itself raises at the step where the way does; died and out of time. The ways are "eager", which
must always be equal, "fit", "fit-limit", "fit-optimizer", "backend", and "dynamo", PyTorch's own `aot_eager`.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import re
import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch._dynamo
from training_loops import WAYS, Loop, compared, loop

import placewright

Row = dict[str, Any]
VERDICTS = ("equal", "refused", "refused-limit", "differ", "invalid", "died", "out of time")
#: Last bits that docs/tutorials/running.md names, as the traits of a loop and the largest relative difference.
DOCUMENTED = {"stem sequence": 1e-4, "event autocast": 0.1}


def judge(description: Loop, way: str, sending: Any) -> None:
    """The work of one process: compare, and send the row's fields."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    # A device takes the cores that the process may use, and with two threads sums have other last bits than with one.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    # What PyTorch and hooks print would stand between the lines of the table.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        verdict = asdict(compared(description, way))
    except Exception:
        verdict = {"verdict": "died", "what": "the comparison itself", "detail": traceback.format_exc()[-600:]}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    sending.send(verdict | {"cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2)})


def row_of(description: Loop, way: str, timeout: float) -> Row:
    """A loop run in a way, in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=judge, args=(description, way, sending))
    began = time.perf_counter()
    process.start()
    sending.close()
    row: Row = {"seed": description.seed, "way": way}
    try:
        found = receiving.recv() if receiving.poll(timeout) else {"verdict": "out of time"}
    except EOFError:
        process.join()
        found = {"verdict": "died", "what": f"exit code {process.exitcode}"}
    if found["verdict"] == "out of time":
        process.kill()
    process.join()
    return row | found | {"seconds": round(time.perf_counter() - began, 2), "traits": description.traits}


def rows_in(path: Path) -> list[Row]:
    """The rows of a file; a last line that was cut off is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def append(path: Path, row: Row) -> None:
    """Add a row as a line, on a new one where the last was cut off."""
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row).encode() + b"\n")


def documented(row: Row) -> bool:
    """Whether the difference is one of last bits where the documents say so."""
    return any(bool(trait in row["traits"] and row["amount"] <= most) for trait, most in DOCUMENTED.items())


def general(sentence: str) -> str:
    """A sentence without names and numbers, by which refusals are counted."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", sentence))[:140]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Verdicts of each way, differences one by one, refusals by their sentences."""
    ways = sorted({row["way"] for row in rows})
    yield "| way | " + " | ".join(VERDICTS) + " | with reruns | CPU s a loop |"
    yield "|---|" + "---|" * (len(VERDICTS) + 2)
    for way in ways:
        own = [row for row in rows if row["way"] == way]
        counts = Counter(row["verdict"] for row in own)
        reruns = len([row for row in own if row.get("reruns", 0) > 0])
        seconds = sum(float(row.get("cpu_seconds") or row["seconds"]) for row in own) / len(own)
        yield f"| {way} | " + " | ".join(str(counts[each]) for each in VERDICTS) + f" | {reruns} | {seconds:.1f} |"
    bad = [row for row in rows if row["verdict"] in ("differ", "died", "out of time")]
    for row in sorted(bad, key=lambda row: (row["way"], row["seed"])):
        known = ", a documented case" if row["verdict"] == "differ" and documented(row) else ""
        place = f"{row['seed']}:{row['way']} {row['verdict']}{known}"
        yield f"{place}, step {row.get('step')}: {row.get('what')}, {row.get('detail')} ({row.get('amount', 0):.1e})"
    refused = Counter(
        (row["way"], kind, general(said)) for row in rows for _, kind, said in row.get("refusals", ())[:1]
    )
    refused += Counter(
        (row["way"], row["what"], general(row["detail"]))
        for row in rows
        if row["verdict"] == "refused" and not row["refusals"]
    )
    for (way, kind, said), count in refused.most_common():
        yield f"{count:4} {way}: {kind}: {said}"


def smaller(description: Loop) -> Iterator[Loop]:
    """Loops with a thing less each."""
    for name in ("happenings", "parts"):
        held = getattr(description, name)
        for number in range(len(held)):
            less: dict[str, Any] = {name: (*held[:number], *held[number + 1 :])}
            yield replace(description, **less)
    if len(description.batches) > 1:
        yield replace(description, batches=description.batches[:-1])
    if len(set(description.batches)) > 1:
        yield replace(description, batches=(description.batches[0],) * len(description.batches))
    plain: dict[str, Any] = {"passes": 1, "groups": 1, "scheduler": "", "clip": "", "ema": "", "zero_at": "begin"}
    plain |= dict.fromkeys(("left_out", "subclass", "scaler", "arguments_require_grad"), False)
    plain |= {"to_none": True, "style": "scalar", "stem": "vector", "optimizer": "SGD", "closure": False}
    for name, value in plain.items():
        if getattr(description, name) != value:
            changes: dict[str, Any] = {name: value} | ({"options": {"lr": 0.1}} if name == "optimizer" else {})
            yield replace(description, **changes)
    if set(description.options) != {"lr"}:
        yield replace(description, options={"lr": description.options["lr"]})
    if set(description.planned[1]) != {"lr"}:
        yield replace(description, planned=(description.planned[0], {"lr": 0.1}))


def shrink(seed: int, way: str, timeout: float) -> None:
    """Print the smallest loop found with the verdict, and the difference, of a seed."""
    description = loop(seed)
    row = row_of(description, way, timeout)
    wanted, tried = row["verdict"], True
    while tried:
        tried = False
        for each in smaller(description):
            found = row_of(each, way, timeout)
            if found["verdict"] == wanted:
                description, row, tried = each, found, True
                print(f"{len(each.traits)} traits, {len(each.batches)} steps: {row['what']}", flush=True)
                break
    print(description)
    print(json.dumps({name: value for name, value in row.items() if name != "traits"}))


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("output", type=Path, help="JSON lines, one for each seed and way")
    options.add_argument("--seeds", default="0:100", help="first:last, the last left out, or one")
    options.add_argument("--ways", default=",".join(WAYS), help="separated by commas")
    options.add_argument("--timeout", type=float, default=120.0, help="seconds for a loop")
    options.add_argument("--table", action="store_true", help="run nothing")
    options.add_argument("--shrink", help="SEED:WAY, a loop to make smaller")
    return options


def main() -> None:
    arguments = parser().parse_args()
    torch.set_num_threads(1)
    if arguments.shrink:
        seed, way = arguments.shrink.split(":")
        shrink(int(seed), way, arguments.timeout)
        return
    first, _, last = arguments.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    done = {(row["seed"], row["way"]) for row in rows_in(arguments.output)}
    if not arguments.table:
        print(f"placewright in {Path(placewright.__file__).parent}", flush=True)
        for seed in seeds:
            for way in arguments.ways.split(","):
                if (seed, way) not in done:
                    append(arguments.output, row_of(loop(seed), way, arguments.timeout))
    print(*table(rows_in(arguments.output)), sep="\n")


if __name__ == "__main__":
    main()
