"""The zoo from networks to files, on networks small enough to capture in a test."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capturing needs PyTorch")

from placewright.costs import estimate_costs  # noqa: E402
from placewright.importers.graph_set import read_graph_set  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.lab.datasets.zoo.build import ZooProgress, ZooSummary, build_zoo  # noqa: E402
from placewright.lab.datasets.zoo.capture import capture_network  # noqa: E402
from placewright.lab.datasets.zoo.libraries import LIBRARIES  # noqa: E402
from placewright.lab.datasets.zoo.network import Mode, Network  # noqa: E402
from placewright.machines import load_machine  # noqa: E402
from placewright.support.errors import InputError  # noqa: E402
from placewright.support.files import locked_folder  # noqa: E402

if missing := [library for library in LIBRARIES if importlib.util.find_spec(library) is None]:
    pytest.skip(f"networks of the zoo come from {missing[0]}", allow_module_level=True)

nn: Any = torch.nn
VERSIONS = {library: version(library).partition("+")[0] for library in LIBRARIES}
INFERENCE: tuple[Mode, ...] = ("inference",)


class Branches(nn.Module):
    """So many linear layers over one input, added up."""

    def __init__(self, count: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x: Any) -> Any:
        return sum(torch.relu(layer(x)) for layer in self.layers)


class OpenEnded(nn.Module):
    """Its result's shape depends on values."""

    def forward(self, x: Any) -> Any:
        return x[x > 0]


def branches(name: str, count: int, width: int = 8, modes: tuple[Mode, ...] = INFERENCE) -> Network:
    def build() -> Any:
        return Branches(count, width), (torch.zeros(4, width),)

    return Network(name=name, family="test", library="placewright", build=build, modes=modes)


def broken(name: str) -> Network:
    def build() -> Any:
        raise RuntimeError("no such layer\nat line 3")

    return Network(name=name, family="test", library="placewright", build=build, modes=INFERENCE)


def untraceable(name: str) -> Network:
    return Network(
        name=name, family="test", library="placewright", build=lambda: (OpenEnded(), (torch.zeros(4),)), modes=INFERENCE
    )


def chain(name: str) -> Network:
    build = lambda: (nn.Sequential(nn.ReLU(), nn.Tanh()), (torch.zeros(4, 8),))  # noqa: E731
    return Network(name=name, family="test", library="placewright", build=build, modes=INFERENCE)


def a_few() -> tuple[Network, ...]:
    """Two topologies in both modes, one of them twice, a chain, and two that fail."""
    both: tuple[Mode, ...] = ("inference", "training")
    return (
        branches("two", 2, modes=both),
        broken("broken"),
        branches("three", 3, modes=both),
        branches("wide_two", 2, width=16),
        untraceable("untraceable"),
        chain("chain"),
    )


def only_a_chain() -> tuple[Network, ...]:
    return (chain("chain"),)


def test_two_processes_do_not_make_one_zoo(tmp_path: Path) -> None:
    with locked_folder(tmp_path, "test holds"), pytest.raises(InputError, match="another process makes graphs for"):
        build_zoo(tmp_path, networks=only_a_chain, processes=1)


def test_a_captured_network_keeps_what_scheduling_needs_and_nothing_else() -> None:
    network = branches("two", 2)
    graph = capture_network(network, "training")
    model, arguments = network.build()
    whole = from_torch(model, arguments, training=True, optimizer="adam")
    times = estimate_costs(whole, load_machine("1xp100")).time_ns[:, 0].tolist()
    # The papers' machine launches nothing: an op's time holds its launch of 5 us in place of the gap of 1.5 us.
    assert [op.time_ns for op in graph.ops] == [time and time + 5_000 - 1_500 for time in times]
    alone = capture_network(network, "training", launches=False)
    assert [op.time_ns for op in alone.ops] == times
    for new, old in zip(graph.ops, whole.ops, strict=True):
        kept = (new.kind, new.inputs, new.outputs, new.controls, new.phase, new.workspace_bytes)
        assert kept == (old.kind, old.inputs, old.outputs, old.controls, old.phase, old.workspace_bytes)
        assert (new.target, new.module, new.source, dict(new.attributes)) == ("", "", "", {})
    for tensor, before in zip(graph.tensors, whole.tensors, strict=True):
        held = (tensor.size_bytes, tensor.role, tensor.alias_of, tensor.is_output)
        assert held == (before.size_bytes, before.role, before.alias_of, before.is_output)
        assert (tensor.shape, tensor.dtype) == (None, None)
    assert (graph.name, graph.ops[1].name, graph.tensors[1].name) == ("two-training", f"{graph.ops[1].kind}1", "t1")
    assert graph.metadata == {
        "network": "two",
        "family": "test",
        "library": "placewright",
        "mode": "training",
        "device": "p100",
    }


@dataclass(frozen=True)
class Built:
    folder: Path
    summary: ZooSummary
    seen: list[ZooProgress]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder, seen = tmp_path_factory.mktemp("zoo") / "new", list[ZooProgress]()
    return Built(folder, build_zoo(folder, networks=a_few, processes=1, on_progress=seen.append), seen)


def test_repeats_and_chains_are_left_out_and_failures_said_while_the_rest_goes_on(built: Built) -> None:
    broken_one, untraceable_one = built.summary.failures
    assert broken_one == "network 'broken' cannot be captured for inference: no such layer"
    assert untraceable_one.startswith("network 'untraceable' cannot be captured for inference: PyTorch cannot trace")
    assert built.summary.without_room == ("chain-inference",)
    assert built.summary.repeated == ("wide_two-inference",)
    assert built.summary.num_graphs == 4


def test_the_files_hold_the_graphs_by_size_and_say_what_they_were_made_with(built: Built) -> None:
    sets = {part: read_graph_set(built.folder / f"{part}.graphs.gz") for part in ("train", "valid", "test")}
    # four graphs by size: train valid train test
    assert {part: found.labels for part, found in sets.items()} == {
        "train": ("two-inference", "two-training"),
        "valid": ("three-inference",),
        "test": ("three-training",),
    }
    for part, found in sets.items():
        assert found.metadata["part"] == part
        assert found.metadata["device"] == "p100"
        assert {library: found.metadata[library] for library in LIBRARIES} == VERSIONS
        assert tuple(len(found[index].ops) for index in range(len(found))) == built.summary.num_ops[part]
        assert (built.folder / f"{part}.graphs.gz").stat().st_size == built.summary.size_bytes[f"{part}.graphs.gz"]


@pytest.mark.long  # Every process imports PyTorch and five libraries.
def test_a_second_run_in_processes_of_its_own_writes_equal_bytes(built: Built, tmp_path: Path) -> None:
    summary = build_zoo(tmp_path, networks=a_few, processes=2)
    assert replace(summary, seconds=0) == replace(built.summary, seconds=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.graphs.gz", "train.graphs.gz", "valid.graphs.gz"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (built.folder / path.name).read_bytes()


def test_a_zoo_of_which_nothing_remains_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the 1 graphs"):
        build_zoo(tmp_path, networks=only_a_chain, processes=1)
    assert list(tmp_path.iterdir()) == []
