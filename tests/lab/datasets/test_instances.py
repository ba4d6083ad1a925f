"""The committed graphs are what the commands make, and what the suites say they are."""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from placewright.graph import Graph
from placewright.importers.graph_set import GraphSet, read_graph_set
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.datasets.fused.networks import FUSED, fused_network
from placewright.lab.datasets.split import in_degrees, topology_of
from placewright.lab.datasets.synthetic import is_interesting, random_graph

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PARTS = ("train", "valid", "test")
#: Graphs of the sets that other tests read.
COMMITTED = Path(__file__).parents[2] / "committed.graphs.gz"


def brought(path: Path) -> Path:
    """A file of the benchmarks; without it the test is skipped."""
    if not path.exists():
        pytest.skip(f"{path.name} is not in the tree; make instances brings it")
    return path


@pytest.fixture(scope="module")
def zoo() -> dict[str, GraphSet]:
    return {part: read_graph_set(brought(BENCHMARKS / "instances" / f"zoo-{part}.graphs.gz")) for part in PARTS}


@pytest.mark.long
def test_graphs_that_tests_read_are_those_of_the_sets(zoo: dict[str, GraphSet]) -> None:
    committed = read_graph_set(COMMITTED)
    synthetic = read_graph_set(brought(BENCHMARKS / "instances" / "synthetic-test.graphs.gz"))
    for index, label in enumerate(committed.labels):
        (graphs,) = (graphs for graphs in (synthetic, *zoo.values()) if label in graphs.labels)
        assert committed[index] == graphs[graphs.labels.index(label)]


def test_the_networks_to_map_are_those_that_the_package_writes() -> None:
    graphs = read_graph_set(BENCHMARKS / "instances" / "fused-int8.graphs.gz")
    assert graphs.labels == tuple(FUSED)
    assert [graph.fingerprint for graph in graphs] == [fused_network(name).fingerprint for name in FUSED]


@pytest.mark.parametrize(
    ("suite", "count"),
    [
        pytest.param("synthetic", 12000, marks=pytest.mark.long),
        ("synthetic-signal", 3600),
        ("synthetic-transfer", 1200),
    ],
)
def test_synthetic_test_graphs_are_candidates_of_their_seed_that_pass_the_filter(suite: str, count: int) -> None:
    graphs = read_graph_set(brought(BENCHMARKS / "instances" / f"{suite}-test.graphs.gz"))
    assert len(graphs) == count // 12
    assert {key: graphs.metadata[key] for key in ("seed", "count", "split")} == {
        "seed": 2020,
        "count": count,
        "split": "test",
    }
    control = read_suite(BENCHMARKS / "suites" / f"{suite}.toml").control
    assert graphs.metadata.get("control", "order") == control
    for place in range(0, len(graphs), len(graphs) // 10):
        index = int(graphs.labels[place].rpartition("-")[2])
        assert graphs[place] == random_graph(2020, index)
        assert is_interesting(graphs[place], control)


@pytest.mark.long
def test_the_zoo_has_more_than_120_graphs_in_the_papers_ratio(zoo: dict[str, GraphSet]) -> None:
    lengths = {part: len(graphs) for part, graphs in zoo.items()}
    assert lengths == {"train": 224, "valid": 75, "test": 74}
    assert len({label for graphs in zoo.values() for label in graphs.labels}) == sum(lengths.values())


@pytest.mark.long  # Reads half a million ops.
def test_no_topology_of_the_zoo_stands_in_it_twice(zoo: dict[str, GraphSet]) -> None:
    graphs = [graphs[index] for graphs in zoo.values() for index in range(len(graphs))]
    assert len({in_degrees(graph) for graph in graphs}) == len(graphs)
    sizes = sorted(len(graph.ops) for graph in graphs)
    assert sizes[0] < 50
    assert 5_000 < sizes[-1] < 15_000


# Networks of transformers have other masks since Dynamo captures them; the sets keep those that they were made with.
@pytest.mark.parametrize("label", ["wavenet10-inference", "dlrm-inference", "vae-inference"])
def test_a_network_captured_again_is_the_committed_graph(label: str) -> None:
    # Sets keep the op times of their capture; those of embeddings have changed since, whose places count whole now.
    from placewright.lab.datasets.zoo.capture import capture_network
    from placewright.lab.datasets.zoo.catalogue import all_networks

    name, _, mode = label.rpartition("-")
    (network,) = (network for network in all_networks() if network.name == name)
    committed = read_graph_set(COMMITTED)
    graph = without_library(capture_network(network, mode))  # type: ignore[arg-type]
    assert graph == committed[committed.labels.index(label)]


@pytest.mark.skipif(find_spec("torchvision") is None, reason="one network is torchvision's")
@pytest.mark.parametrize("label", ["inception_v3-inference", "wavenet30-training"])
def test_a_real_network_captured_again_is_the_committed_graph(label: str) -> None:
    from placewright.lab.datasets.zoo.capture import capture_network
    from placewright.lab.datasets.zoo.catalogue import all_networks

    graphs = read_graph_set(BENCHMARKS / "instances" / "real-networks.graphs.gz")
    name, _, mode = label.rpartition("-")
    (network,) = (network for network in all_networks() if network.name == name)
    # torchvision's network has the ops of the one written out that the committed graph was captured of
    graph = without_library(capture_network(network, mode, "v100", launches=False))  # type: ignore[arg-type]
    assert graph == graphs[graphs.labels.index(label)]


def without_library(graph: Graph) -> Graph:
    """Return the graph as it was captured when the zoo had only one library."""
    return replace(graph, metadata={name: value for name, value in graph.metadata.items() if name != "library"})


@pytest.mark.long
def test_the_family_and_the_library_of_every_real_graph_are_recorded_beside_them(zoo: dict[str, GraphSet]) -> None:
    with (BENCHMARKS / "instances" / "families.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["library"] for row in rows} == {"placewright", "transformers"}
    sets = {f"zoo-{part}": graphs for part, graphs in zoo.items()}
    sets["real-networks"] = read_graph_set(BENCHMARKS / "instances" / "real-networks.graphs.gz")
    assert [(row["set"], row["graph"]) for row in rows] == [(s, label) for s in sets for label in sets[s].labels]
    for row in rows[::20]:
        graph = sets[row["set"]][sets[row["set"]].labels.index(row["graph"])]
        assert graph.metadata["family"] == row["family"]


@pytest.fixture(scope="module")
def library_captures() -> list[dict[str, str]]:
    with brought(BENCHMARKS / "instances" / "libraries" / "captures.csv").open() as lines:
        return list(csv.DictReader(lines))


@pytest.mark.long
def test_no_network_family_or_topology_of_the_libraries_is_in_two_parts(library_captures: list[dict[str, str]]) -> None:
    kept = [row for row in library_captures if row["part"] in PARTS]
    for of in ("label", "family", "topology"):
        parts_of: dict[str, set[str]] = {}
        for row in kept:
            parts_of.setdefault(row[of], set()).add(row["part"])
        assert {len(parts) for parts in parts_of.values()} == {1}
    assert len({row["topology"] for row in kept}) == len(kept)
    count = Counter(row["part"] for row in kept)
    assert count["train"] >= 1000
    assert min(count["valid"], count["test"]) >= 150


def library_part(part: str) -> GraphSet:
    return read_graph_set(brought(BENCHMARKS / "instances" / "libraries" / f"{part}.graphs.gz"))


@pytest.mark.long
@pytest.mark.parametrize("part", ["valid", "test"])
def test_parts_of_the_libraries_hold_what_their_table_says(part: str, library_captures: list[dict[str, str]]) -> None:
    graphs = library_part(part)
    rows = {f"{row['label']}-{row['mode']}": row for row in library_captures if row["part"] == part}
    assert set(graphs.labels) == set(rows)
    for index in range(0, len(graphs), 20):
        graph = graphs[index]
        row = rows[graph.name]
        assert (f"{len(graph.ops)}", topology_of(graph)) == (row["num_ops"], row["topology"])
        assert graph.metadata["family"] == row["family"]


@pytest.mark.long  # Reads two million ops.
def test_training_graphs_of_the_libraries_share_no_topology_with_the_zoos_test_part(
    zoo: dict[str, GraphSet], library_captures: list[dict[str, str]]
) -> None:
    graphs = library_part("train")
    own = {topology_of(graphs[index]) for index in range(len(graphs))}
    assert own == {row["topology"] for row in library_captures if row["part"] == "train"}
    assert own.isdisjoint(topology_of(zoo["test"][index]) for index in range(len(zoo["test"])))


def suites(pattern: str) -> dict[str, Suite]:
    """Read the suites whose graphs are present."""
    paths = (BENCHMARKS / "suites").glob(pattern)
    graphs = {path: path.parent / tomllib.loads(path.read_text())["graphs"] for path in paths}
    return {path.stem: read_suite(path) for path, of in graphs.items() if of.exists()}


def test_the_papers_suites_can_be_read_and_their_first_problems_made() -> None:
    found = suites("synthetic*.toml") | suites("zoo*.toml") | suites("libraries*.toml")
    # 74 real networks, with one noisy copy each or with nineteen.
    num_graphs = {
        "synthetic": 1000,
        "synthetic-signal": 300,
        "synthetic-transfer": 100,
        "synthetic-peak-memory": 1000,
        "libraries": 176,
        "libraries-peak-memory": 176,
        "zoo": 148,
        "zoo-peak-memory": 148,
        "zoo-16gib": 148,
        "zoo-signal": 148,
        "zoo-train": 224,
        "zoo-train-peak-memory": 224,
        "zoo-topologies": 1480,
    }
    assert {name: len(suite.labels) for name, suite in found.items()} == {name: num_graphs[name] for name in found}
    assert {"synthetic-signal", "synthetic-transfer"} <= set(found)
    reading_of = {"synthetic-signal": "signal", "synthetic-transfer": "transfer", "zoo-signal": "signal"}
    for name, suite in found.items():
        assert suite.objective == ("peak-memory" if name.endswith("peak-memory") else "step-time")
        assert suite.problem(suite.graph(0)).control == reading_of.get(name, "order")


def test_suites_of_real_networks_differ_in_machine_and_memory_only() -> None:
    found = suites("real-*.toml")
    problems = {name: suite.problem(suite.graph(0)) for name, suite in found.items()}
    links = {name: problem.machine.links[0][1].bandwidth_bytes_per_s for name, problem in problems.items()}
    assert links == {
        "real-nvlink-2": 25e9,
        "real-nvlink-4": 25e9,
        "real-pcie-2": 12e9,
        "real-pcie-4": 12e9,
        "real-memory-60": 25e9,
    }
    for name, problem in problems.items():
        assert (problem.objective, problem.control) == ("step-time", "signal")
        assert problem.machine.transfer_model == "overlapped"
        assert problem.machine.num_devices == (4 if name.endswith("4") else 2)
        assert found[name].memory_share == (0.6 if name == "real-memory-60" else None)


def test_the_suite_of_one_device_has_inference_and_training() -> None:
    (suite,) = suites("one-device.toml").values()
    assert {label.rpartition("-")[2] for label in suite.labels} == {"inference", "training"}
    assert (suite.machine.num_devices, suite.objective) == (1, "peak-memory")
