"""Graphs of the networks that libraries have, for policies to learn on: those of instances/libraries.

    python benchmarks/library_networks.py capture out/libraries
    python benchmarks/library_networks.py pack out/libraries benchmarks/instances/libraries

`capture` takes one network after the other of timm, pytorchcv, torchvision, transformers and torch_geometric (extra
`zoo`), an inference and a training step with Adam of each, costed for one P100, and keeps each graph and a line on what
became of it, in a process a core. Killed, it goes on where it was. A graph that is kept takes 7 s of a core, those that
fail or repeat another included; --take N stops after so many new networks. `pack` writes train, valid and test of what
is there. No network, no family and no topology is in two of them, and no topology of --apart, the zoo's test part, in
any. Graphs without room for improvement and repeated topologies are left out and counted, and captures.csv names every
capture with the reason why there is no graph.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from library_captures import Capture, Captures, capture_missing
from library_listing import LIBRARIES, all_listed
from library_parts import split

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.datasets.headroom import has_room
from placewright.lab.datasets.split import topology_of
from placewright.lab.datasets.zoo.capture import DEVICE, OPTIMIZER
from placewright.support.files import make_folder, write_atomically

HERE = Path(__file__).parent


def capture(folder: Path, libraries: Sequence[str], take: int | None, seconds: int) -> None:
    networks = all_listed(libraries)
    done = Captures(folder).done
    missing = [listed for listed in networks if f"{listed.label}-training" not in done]
    print(f"{len(networks)} networks, {len(missing)} of them to capture", flush=True)
    capture_missing(folder, missing[:take], report, seconds)


def report(captured: Capture) -> None:
    told = captured.failure or (f"as {captured.repeats}" if captured.repeats else f"{captured.num_ops:,} ops")
    print(f"{captured.name}: {told} ({captured.seconds:.1f} s)", flush=True)


def pack(folder: Path, out: Path, num_measured: int, apart: Path) -> None:
    captures, test = Captures(folder), read_graph_set(apart)
    roomless = {each.name for each in captures.kept() if not leaves_room(captures.graph(each))}
    usable = [each for each in captures.done.values() if each.name not in roomless]
    parts = split(usable, num_measured, {topology_of(test[index]) for index in range(len(test))})
    make_folder(out)
    for name, part in parts.items():
        metadata = {"set": "libraries", "part": name, "device": DEVICE, "optimizer": OPTIMIZER}
        size = write_graph_set(out / f"{name}{SUFFIX}", [captures.graph(each) for each in part], metadata)
        print(f"{name}: {described(part)}; {size / 1e6:.1f} MB")
    part_of = {each.name: name for name, part in parts.items() for each in part}
    fates = {each.name: part_of.get(each.name) or why_left_out(each, roomless) for each in captures.done.values()}
    print(", ".join(f"{count} {fate}" for fate, count in Counter(fates.values()).most_common()))
    write_atomically(out / "captures.csv", table(captures.done.values(), fates).encode())


def leaves_room(graph: Graph) -> bool:
    return has_room(graph, "step-time") and has_room(graph, "peak-memory")


def described(part: Sequence[Capture]) -> str:
    networks, families = len({each.label for each in part}), len({each.family for each in part})
    of = ", ".join(f"{count} of {library}" for library, count in Counter(e.library for e in part).most_common())
    return f"{len(part)} graphs of {networks} networks and {families} families ({of})"


def why_left_out(capture: Capture, roomless: Collection[str]) -> str:
    if capture.repeats:
        return "repeated topology"
    if capture.failure:
        return "not tried" if capture.failure.startswith("not tried") else "failed"
    return "without room" if capture.name in roomless else "in the other test set"


def table(captures: Collection[Capture], fates: Mapping[str, str]) -> str:
    """A line a capture: what it is, and its part or why it is in none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(each.name for each in fields(Capture)), "part"])
    writer.writerows([*asdict(each).values(), fates[each.name]] for each in captures)
    return text.getvalue()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = options.add_subparsers(dest="command", required=True)
    capturing = commands.add_parser("capture", help="capture what is missing")
    capturing.add_argument("folder", type=Path)
    capturing.add_argument("--libraries", default=",".join(LIBRARIES))
    capturing.add_argument("--take", type=int, help="so many networks more, all by default")
    capturing.add_argument("--seconds", type=int, default=180, help="after which one capture is given up")
    packing = commands.add_parser("pack", help="write train, valid and test")
    packing.add_argument("folder", type=Path)
    packing.add_argument("out", type=Path)
    packing.add_argument("--measured", type=int, default=150, help="graphs to validate on, and as many to test on")
    packing.add_argument("--apart", type=Path, default=HERE / "instances" / f"zoo-test{SUFFIX}")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if arguments.command == "capture":
        capture(arguments.folder, arguments.libraries.split(","), arguments.take, arguments.seconds)
    else:
        pack(arguments.folder, arguments.out, arguments.measured, arguments.apart)


if __name__ == "__main__":
    main()
