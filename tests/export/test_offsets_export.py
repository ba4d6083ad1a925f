"""Offsets as JSON and as a table."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from plans import MIB, Node, machine_of, plan_of

from placewright import export_plan
from placewright.support.errors import InputError


def chain(output_bytes: int = 2 * MIB) -> list[Node]:
    """x -> y -> z: two outputs at a time."""
    named = (("x", ()), ("y", (0,)), ("z", (1,)))
    return [Node(name=name, inputs=inputs, output_bytes=output_bytes) for name, inputs in named]


def test_offsets_say_where_each_buffer_lies_and_from_when_to_when(tmp_path: Path) -> None:
    """z begins as x ends, at 20 us, and may have its bytes: an arena of 4 MiB, which is the peak."""
    export_plan(plan_of(chain(), machine_of(1)), "offsets", tmp_path / "o.json")
    written = json.loads((tmp_path / "o.json").read_text())
    assert (written["format"], written["schema_version"], written["alignment"]) == ("placewright-offsets", 1, 64)
    (device,) = written["devices"]
    assert device["device"] == "gpu0"
    assert [device[key] for key in ("arena_bytes", "bound_bytes", "peak_bytes")] == [4 * MIB] * 3
    x, y, z = device["buffers"]
    assert x["offset"] == z["offset"] != y["offset"]
    assert {x["offset"], y["offset"]} == {0, 2 * MIB}
    assert x["end"] < z["begin"]
    assert (x["freed_ns"], z["allocated_ns"]) == (20_000, 20_000)


def test_a_path_in_csv_gets_a_table_and_gz_is_compressed(tmp_path: Path) -> None:
    plan = plan_of(chain(), machine_of(1))
    export_plan(plan, "offsets", tmp_path / "o.csv")
    export_plan(plan, "offsets", tmp_path / "o.csv.gz")
    export_plan(plan, "offsets", tmp_path / "o.json")
    assert gzip.decompress((tmp_path / "o.csv.gz").read_bytes()) == (tmp_path / "o.csv").read_bytes()
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (device,) = json.loads((tmp_path / "o.json").read_text())["devices"]
    assert rows == [{"device": "gpu0", **{key: str(value) for key, value in b.items()}} for b in device["buffers"]]


def test_offsets_are_multiples_of_the_alignment_that_is_asked_for(tmp_path: Path) -> None:
    """Outputs of 1,000 bytes take 1,024 of an arena: two of them 2,048."""
    export_plan(plan_of(chain(1000), machine_of(1)), "offsets", tmp_path / "o.json", alignment=256)
    (device,) = json.loads((tmp_path / "o.json").read_text())["devices"]
    assert (device["arena_bytes"], device["bound_bytes"], device["peak_bytes"]) == (2048, 2048, 2000)
    assert {buffer["offset"] for buffer in device["buffers"]} == {0, 1024}


def test_other_targets_have_no_alignment(tmp_path: Path) -> None:
    plan = plan_of(chain(), machine_of(1))
    with pytest.raises(InputError, match="the target csv has no alignment"):
        export_plan(plan, "csv", tmp_path / "o.csv", alignment=64)
    with pytest.raises(InputError, match="an alignment is a power of two, not 3"):
        export_plan(plan, "offsets", tmp_path / "o.json", alignment=3)
    assert list(tmp_path.iterdir()) == []
