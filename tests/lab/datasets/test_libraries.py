"""Networks of libraries: captures that go on where they were, and parts that share nothing."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from placewright.graph import Graph
from placewright.lab.datasets.split import topology_of
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.datasets.zoo.pool import Captured
from placewright.support.errors import InputError

pytest.importorskip("torch", reason="networks of libraries are written in PyTorch")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import library_captures
from library_captures import Capture, Captures, capture_missing
from library_listing import Listed
from library_parts import clans, split

RESNET = Listed(library="timm", name="resnet50", family="resnet")


def made(graph: Graph | None, failure: str = "") -> Captured:
    return Captured(name="made", graph=graph, failure=failure, seconds=1.0)


def test_captures_go_on_where_they_were_after_a_line_was_cut_short(tmp_path: Path) -> None:
    captures = Captures(tmp_path)
    first = captures.add(RESNET, "inference", made(random_graph(1, 0)))
    captures.add(RESNET, "training", made(None, "no such layer"))
    with (tmp_path / "captures.jsonl").open("a") as file:
        file.write('{"label": "timm_vgg')
    again = Captures(tmp_path)
    assert list(again.done) == ["timm_resnet50-inference", "timm_resnet50-training"]
    assert again.kept() == [first]
    assert again.graph(first) == random_graph(1, 0)
    again.add(replace(RESNET, name="vgg11"), "inference", made(random_graph(1, 1)))
    assert list(Captures(tmp_path).done) == [*again.done]


def test_a_topology_is_kept_once_and_who_repeats_it_is_named(tmp_path: Path) -> None:
    captures = Captures(tmp_path)
    captures.add(RESNET, "inference", made(random_graph(1, 0)))
    renamed = replace(random_graph(1, 0), name="other")
    twin = captures.add(replace(RESNET, library="torchvision"), "inference", made(renamed))
    assert (twin.is_kept, twin.repeats) == (False, "timm_resnet50-inference")
    assert topology_of(renamed) == topology_of(random_graph(1, 0)) != topology_of(random_graph(1, 1))
    assert len(list((tmp_path / "graphs").iterdir())) == 1
    # The same where what it repeats was captured by a run before.
    assert Captures(tmp_path).add(replace(RESNET, name="b"), "inference", made(renamed)).repeats == twin.repeats


class Process:
    """Captures at once, in place of a process: each network a graph of its own; "broken" has none, and one fails."""

    def __init__(self, seconds: int) -> None: ...

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None: ...

    def capture(self, listed: Listed, mode: str) -> Captured:
        if listed.name == "fatal":
            raise InputError("the disk is full")
        if listed.name == "broken":
            return made(None, "no such layer")
        return made(random_graph(int(listed.name), mode == "training"))


def networks(*names: str) -> list[Listed]:
    return [Listed(library="timm", name=name, family=name) for name in names]


@pytest.mark.parametrize("cores", [1, 3])
def test_what_is_missing_is_captured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(library_captures, "_Process", Process)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    told: list[Capture] = []
    capture_missing(tmp_path, networks("1", "broken"), told.append, seconds=1)
    capture_missing(tmp_path, networks("2", "1", "broken", "3"), told.append, seconds=1)
    names = [f"timm_{name}-{mode}" for name in ("1", "2", "3", "broken") for mode in ("inference", "training")]
    assert sorted(each.name for each in told) == names
    assert {each.name: each.is_kept for each in Captures(tmp_path).done.values()} == {
        name: "broken" not in name for name in names
    }
    assert next(each for each in told if each.name == "timm_broken-training").failure.startswith("not tried")


def test_an_error_stops_the_other_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_captures, "_Process", Process)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    names = [f"{number}" for number in range(100)]
    with pytest.raises(InputError, match="the disk is full"):
        capture_missing(tmp_path, networks("fatal", *names), lambda _: time.sleep(0.05), seconds=1)
    assert len(Captures(tmp_path).done) < 2 * len(names)


def capture(name: str, family: str, topology: str, library: str = "timm", repeats: str = "") -> Capture:
    return Capture(
        label=f"{library}_{name}",
        library=library,
        family=family,
        mode="inference",
        num_ops=len(name),
        topology=topology,
        failure="",
        repeats=repeats,
        seconds=0.0,
    )


def test_a_clan_is_what_shares_a_module_a_name_or_a_topology() -> None:
    of_one = [
        capture("resnet50", "resnet", "1"),
        capture("wide101", "resnet", "2"),  # the module of resnet50
        capture("resnet18", "other", "3", library="pytorchcv"),  # begins as resnet50 does
        capture("odd", "odd_one", "3", library="torchvision", repeats="x"),  # repeats resnet18, so is not kept
        capture("odder", "odd_one", "4", library="torchvision"),  # the module of what repeats
        capture("resnet20", "resnet_cifar", "5", library="pytorchcv"),
    ]
    apart = [capture("vgg11", "vgg", "6"), capture("bert-4", "bert", "7", library="transformers")]
    found = {frozenset(each.label for each in clan) for clan in clans([*of_one, *apart])}
    kept = frozenset(each.label for each in of_one if each.is_kept)
    assert found == {kept, frozenset({"timm_vgg11"}), frozenset({"transformers_bert-4"})}


def test_parts_share_no_clan_and_have_the_sizes_that_were_asked_for() -> None:
    letters = "abcdefghijklmnopqrst"
    captures = [capture(f"{a}{b}{n}", a + b, f"{a}{b}{n}") for a in letters for b in letters for n in range(3)]
    parts = split(captures, 150)
    assert {name: len(part) for name, part in parts.items()} == {"test": 150, "valid": 150, "train": 900}
    families = [{each.family for each in part} for part in parts.values()]
    assert sum(map(len, families)) == len(letters) ** 2
    assert split(list(reversed(captures)), 150) == parts


def test_a_large_clan_is_learned_from_and_libraries_keep_their_shares() -> None:
    large = [capture(f"big{n}", "big", f"big{n}") for n in range(25)]
    # Two hundred families of letters alone, so that no two names begin alike.
    small = [capture(a + b, a + b, a + b, library=lib) for lib in ("timm", "pytorchcv") for a in "abcdefghij"
             for b in ("klmnopqrst" if lib == "timm" else "abcdefghij")]  # fmt: skip
    parts = split([*large, *small], 40)
    assert {each.family for each in parts["train"]} >= {"big"}
    for name in ("test", "valid"):
        libraries = [each.library for each in parts[name]]
        # Of 225 graphs timm has 125 and pytorchcv 100: 22.2 and 17.8 of 40, rounded up as whole clans are taken.
        assert (libraries.count("timm"), libraries.count("pytorchcv")) == (23, 18)


def test_topologies_of_another_test_set_are_in_no_part() -> None:
    captures = [capture(name, name, name) for name in ("a", "b", "c", "d")]
    parts = split(captures, 1, apart={"b"})
    assert sorted(each.label for part in parts.values() for each in part) == ["timm_a", "timm_c", "timm_d"]
