"""Whatever the bytes, a parser gives a graph or one sentence about bad input."""

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from parsers import JSON_SEED, PARSERS, parse, seeds

SETTINGS = settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
FORMATS = sorted(PARSERS)
#: Pieces of the text formats, and numbers at limits.
PIECES = [bytes([each]) for each in b"{}[]<>:,\"'\\#\n \x00\xff\x80"]
PIECES += [b"-1", b"0", b"1e999", b"NaN", str(2**62).encode(), str(2**63).encode(), b"null", b"true", b"\\ud800"]


def needs_extra(file_format: str) -> None:
    package = {"onnx": "onnx", "costgraph": "google.protobuf"}.get(file_format)
    if package is not None:
        pytest.importorskip(package, reason=f"the {file_format} extra is not installed")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data changed in one to four places: bytes flipped, cut out, repeated, pieces put in; or its end cut off."""
    result = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(result) + 1)
        end = min(len(result), start + rng.choice([1, 1, 2, 5, 20]))
        change = rng.randrange(5)
        if change == 0 and start < len(result):
            result[start] ^= 1 << rng.randrange(8)
        elif change == 1:
            del result[start:end]
        elif change == 2:
            result[start:start] = result[start:end]
        elif change == 3:
            result[start:end] = rng.choice(PIECES)
        elif rng.random() < 0.2:
            del result[start:]
    return bytes(result)


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_seeds_are_valid(file_format: Any) -> None:
    needs_extra(file_format)
    assert all(parse(file_format, seed) is not None for seed in seeds(file_format))


@pytest.mark.parametrize("file_format", FORMATS)
@SETTINGS
@given(data=st.binary(max_size=200))
def test_random_bytes_are_bad_input_or_a_graph(file_format: Any, data: Any) -> None:
    needs_extra(file_format)
    parse(file_format, data)


@pytest.mark.parametrize("file_format", FORMATS)
@SETTINGS
@given(pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from([b"node", b"name", b"ops"])), max_size=40))
def test_random_pieces_are_bad_input_or_a_graph(file_format: Any, pieces: Any) -> None:
    needs_extra(file_format)
    parse(file_format, b"".join(pieces))


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_beginning_of_a_valid_file_is_bad_input_or_a_graph(file_format: Any) -> None:
    needs_extra(file_format)
    for seed in seeds(file_format):
        for length in range(len(seed)):
            parse(file_format, seed[:length])


@pytest.mark.parametrize("file_format", FORMATS)
def test_changed_valid_files_are_bad_input_or_a_graph(file_format: Any) -> None:
    needs_extra(file_format)
    rng = random.Random(1)
    outcomes = [parse(file_format, mutated(seed, rng)) for seed in seeds(file_format) for _ in range(800)]
    # Both happen, so the changes are neither too weak nor too strong to find anything.
    assert any(graph is None for graph in outcomes)
    assert any(graph is not None for graph in outcomes)


VALUES = [
    None,
    True,
    0,
    -1,
    2,
    1.5,
    2**62,
    2**64,
    "",
    "t",
    "v",
    "a",
    "b",
    "view",
    "parameter",
    [],
    ["t"],
    [0],
    {},
    {"a": 1},
]


def with_changed_values(document: Any, rng: random.Random) -> Any:
    """The JSON document with one to three of its values replaced, removed or repeated, at any depth."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and rng.random() < 0.8:
                place = place[key]
                continue
            if rng.random() < 0.3:
                del place[key]
            elif isinstance(place, list) and rng.random() < 0.5:
                place.append(copy.deepcopy(place[key]))
            else:
                place[key] = rng.choice(VALUES)
            break
    return document


def test_json_documents_with_changed_values_are_bad_input_or_a_graph() -> None:
    rng = random.Random(2)
    outcomes = [parse("json", json.dumps(with_changed_values(JSON_SEED, rng)).encode()) for _ in range(3000)]
    assert sum(graph is not None for graph in outcomes) > 100


def with_changed_nodes(model: Any, rng: random.Random) -> Any:
    """The model with one to three changes of its nodes: other operators, values, attributes, or order."""
    onnx = pytest.importorskip("onnx")
    operators = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
    graph = model.graph
    for _ in range(rng.randint(1, 3)):
        node = rng.choice(graph.node)
        names = [name for other in graph.node for name in (*other.input, *other.output)]
        change = rng.randrange(8)
        if change == 0:
            node.op_type = rng.choice(operators)
        elif change == 1 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice([*names, ""])
        elif change == 2:
            node.input.append(rng.choice(names))
        elif change == 3 and node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice([*names, "", "new"])
        elif change == 4 and node.attribute:
            attribute = rng.choice(node.attribute)
            attribute.ints[:] = [rng.choice([-1, 0, 1, 2**31, -(2**63)]) for _ in range(rng.randint(0, 3))]
            attribute.i = rng.choice([-1, 0, 5, 2**63 - 1])
            attribute.type = rng.choice([attribute.type, attribute.INT, attribute.INTS, attribute.FLOAT])
        elif change == 5:
            node.attribute.append(onnx.helper.make_attribute(rng.choice(["axis", "axes", "perm", "to"]), [0, 9]))
        elif change == 6:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                rng.choice(dims).dim_value = rng.choice([-1, 0, 1, 2**31, 2**62])
        else:
            graph.node.insert(rng.randrange(len(graph.node)), copy.deepcopy(node))
    return model


def test_onnx_models_with_changed_nodes_are_bad_input_or_a_graph() -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
    rng = random.Random(3)
    models = [onnx.load_model_from_string(seed) for seed in seeds("onnx")]
    changed = [with_changed_nodes(copy.deepcopy(rng.choice(models)), rng) for _ in range(1000)]
    outcomes = [parse("onnx", model.SerializeToString()) for model in changed]
    assert sum(graph is not None for graph in outcomes) > 50
