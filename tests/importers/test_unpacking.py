"""Small files that unpack to gigabytes, or whose text makes gigabytes of Python objects, are refused before they do."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from placewright.importers import load_graph
from placewright.importers.json_graph import parse_json_graph, unpack
from placewright.support.errors import InputError

MIB = 2**20
MAX_BYTES = 500 * 10**6
#: The beginning of a file, what is repeated, and the end.
BOMBS = {
    "inputs": (b'{"ops":[{"name":"a","kind":"fill","inputs":["t"', b',"t"', b"]}]}"),
    "shapes": (b'{"tensors":[{"name":"t","size_bytes":4,"shape":[1', b",1", b"]}]}"),
    "objects": (b'{"metadata":{"x":[{}', b",{}", b"]}}"),
    "lists": (b'{"metadata":{"x":[[]', b",[]", b"]}}"),
    "text": (b'{"name":"', b"aaaa", b'"}'),
    "whole numbers": (b'{"metadata":{"x":[0', b",1000000", b"]}}"),
}
READERS = {
    "graph": "from placewright.importers import load_graph as read",
    "plan": "from placewright import load as read",
    "set of graphs": "from placewright.importers.graph_set import read_graph_set as read",
}


def bomb(path: Path, kind: str, unpacked: int) -> Path:
    """A file that unpacks to slightly more than so many bytes: one block again and again, as gzip allows."""
    begin, repeated, end = BOMBS[kind]
    block = min(16 * MIB, unpacked)
    member = gzip.compress(repeated * (block // len(repeated)), mtime=0)
    path.write_bytes(gzip.compress(begin, mtime=0) + member * (unpacked // block) + gzip.compress(end, mtime=0))
    return path


def read_in_a_process(path: Path, reader: str) -> tuple[str, int]:
    """Read a file in a process of its own; return the error message or "", and the most bytes that the process had."""
    script = (
        f"import sys; {READERS[reader]}\n"
        "from placewright.support.errors import InputError\n"
        "try: read(sys.argv[1]); said = ''\n"
        "except InputError as error: said = str(error)\n"
        # Memory of this program alone: getrusage would count the process that started it.
        "(peak,) = (line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(int(peak) * 1024); print(said)"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(path)]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    memory, said = outcome.stdout.splitlines()
    return said, int(memory)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["objects", "text"])
def test_a_file_that_unpacks_to_gigabytes_is_refused_in_little_memory(kind: str, reader: str, tmp_path: Path) -> None:
    path = bomb(tmp_path / "x.json.gz", kind, 2**31 - 2**25)
    said, memory = read_in_a_process(path, reader)
    assert re.search(r"x\.json\.gz' unpacks to more than 50 times its [0-9,]+ bytes", said)
    assert memory < MAX_BYTES


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_just_below_the_bound_takes_little_memory_whatever_it_holds(
    kind: str, reader: str, tmp_path: Path
) -> None:
    # 8 MiB may be unpacked from any file, however small.
    path = bomb(tmp_path / "x.json.gz", kind, 8 * MIB - 100)
    said, memory = read_in_a_process(path, reader)
    assert said
    assert memory < MAX_BYTES


@pytest.mark.parametrize(("kind", "what"), [("objects", "objects"), ("lists", "lists")])
def test_text_of_nothing_but_brackets_is_refused_before_python_reads_it(kind: str, what: str, tmp_path: Path) -> None:
    data = bomb(tmp_path / "x.json.gz", kind, MIB - 100).read_bytes()
    with pytest.raises(InputError, match=f"'x' holds next to nothing but JSON {what}, [0-9,]+ of them"):
        parse_json_graph(data, "x")


@pytest.mark.parametrize("name", ["gnmt-train", "resnet50-onnx"])
def test_real_graphs_are_far_from_the_bounds(name: str) -> None:
    graph = load_graph(f"example:{name}")
    assert len(graph.ops) > 100


def test_a_graph_whose_records_are_as_short_as_can_be_is_read() -> None:
    # 27 bytes for a tensor, 40 for an op with two lists: as many brackets to a byte as a graph can have.
    tensors = ",".join(f'{{"name":"{i}","size_bytes":1}}' for i in range(20_000))
    ops = ",".join(f'{{"name":"{i}","kind":"fill","inputs":[],"outputs":["{i}"]}}' for i in range(20_000))
    text = f'{{"schema_version":1,"name":"g","tensors":[{tensors}],"ops":[{ops}]}}'.encode()
    assert len(parse_json_graph(gzip.compress(text), "g").ops) == 20_000


def test_what_is_as_large_as_it_looks_may_be_as_large_as_it_is() -> None:
    noise = os.urandom(MIB)
    assert unpack(gzip.compress(noise), "x") == noise
