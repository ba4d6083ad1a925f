"""Loops and choices of ONNX models: what is inside costs what it costs as often as it runs."""

from typing import Any

import numpy as np
import pytest

import placewright
from placewright.costs.flops import count_flops
from placewright.graph import Graph, Op
from placewright.importers.onnx.model import parse_onnx
from placewright.support.errors import InputError

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")


def model(body: str) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{body}')


def load(body: str) -> Graph:
    return parse_onnx(model(body).SerializeToString(), "m.onnx")


def made(graph: Graph, name: str) -> Op:
    return next(op for op in graph.ops if name in [graph.tensors[index].name for index in op.outputs])


def shape(graph: Graph, name: str) -> tuple[int, ...] | None:
    return next(tensor.shape for tensor in graph.tensors if tensor.name == name)


def flops(graph: Graph) -> int:
    return sum(
        count_flops(op, [graph.tensors[i] for i in op.inputs], [graph.tensors[i] for i in op.outputs])
        for op in graph.ops
    )


#: A product of 8 x 8 by 8 x 8: 2 * 8 * 8 * 8 operations; it reads two matrices and writes one.
PRODUCT, MATRIX = 1_024, 256
LOOP = """g (float[8, 8] x{given}) => (float[8, 8] y) <{weights}> {{
    y = Loop ({limit}, {condition}, x) <body = b (int64 i, bool c, float[8, 8] s) => (bool c2, float[8, 8] s2)
        {{ {go_on}  s2 = MatMul (s, x) }}> }}"""
SAME = "c2 = Identity (c)"


def loop(limit: str = "M", condition: str = "t", go_on: str = SAME, weights: str = "", given: str = "") -> Graph:
    return load(LOOP.format(limit=limit, condition=condition, go_on=go_on, weights=weights, given=given))


def test_a_loop_with_a_constant_number_of_rounds_counts_all_of_them() -> None:
    graph = loop(weights="int64 M = {100}, bool t = {1}")
    assert made(graph, "y").attributes == {"flops": 100 * PRODUCT, "bytes_moved": 100 * 3 * MATRIX, "trips": 100}
    assert "warnings" not in graph.metadata
    # Without a condition, and with one that the body makes true: exactly as often.
    for changed in (loop(condition="", weights="int64 M = {100}"), loop(weights="int64[1] M = {100}, bool t = {1}",
                    go_on="c2 = Constant <value = bool {1}> ()")):  # fmt: skip
        assert made(changed, "y").attributes["trips"] == 100
        assert "warnings" not in changed.metadata


def test_the_rounds_of_a_loop_take_their_time() -> None:
    # 50 rounds of a product that fills the device against one.
    text = LOOP.replace("8, 8", "1024, 1024").format(
        limit="M", condition="", go_on=SAME, weights="int64 M = {50}", given=""
    )
    graph = load(text.replace("(float[1024, 1024] y)", "(float[1024, 1024] y, float[1024, 1024] z)")[:-1]
                 + " z = MatMul (x, x) }")  # fmt: skip
    plan = placewright.plan(graph, "1xp100", evaluations=10)
    taken = {op.name: op.finish_ns - op.start_ns for op in plan.ops}
    assert 45 * taken["z"] < taken["y"] < 55 * taken["z"]


@pytest.mark.parametrize(
    ("settings", "trips", "said"),
    [
        ({"weights": "int64 M = {0}, bool t = {1}"}, 0, None),
        ({"weights": "int64 M = {-3}, bool t = {1}"}, 0, None),
        ({"weights": "int64 M = {100}, bool t = {0}"}, 0, None),
        ({"weights": "bool t = {1}", "given": ", int64 M"}, 1, "runs as often as data says; it is assumed to run once"),
        ({"limit": "", "weights": "bool t = {1}"}, 1, "runs as often as data says; it is assumed to run once"),
        (
            {"weights": "int64 M = {9223372036854775807}", "given": ", bool t"},
            1,
            "runs as often as data says; it is assumed to run once",
        ),
        ({"weights": "int64 M = {100}", "given": ", bool t"}, 100, "may end early; all of its 100 rounds are counted"),
        (
            {"weights": "int64 M = {100}, bool t = {1}, int64 five = {5}", "go_on": "c2 = Less (i, five)"},
            100,
            "may end early; all of its 100 rounds are counted",
        ),
    ],
)
def test_what_is_assumed_about_rounds_is_said(settings: dict[str, str], trips: int, said: str | None) -> None:
    graph = loop(**settings)
    # A comparison of two whole numbers is one operation, and moves 8 + 8 + 1 bytes.
    more = "Less" in settings.get("go_on", "")
    expected = {"flops": trips * (PRODUCT + more), "bytes_moved": trips * (3 * MATRIX + 17 * more), "trips": trips}
    assert made(graph, "y").attributes == expected
    assert graph.metadata.get("warnings", []) == ([f"Loop 'y' {said}"] if said else [])


def test_a_loop_stacks_what_its_rounds_give_where_it_surely_runs_so_often() -> None:
    text = """g (float[3] x{given}) => (y) <int64 M = {{7}}{weights}> {{
        last, all = Loop (M, t, x) <body = b (int64 i, bool c, float[3] s) => (bool c2, float[3] s2, o)
            {{ c2 = Identity (c)  s2 = Exp (s)  o = Concat <axis = 0> (s, s2) }}>
        y = Relu (all) }}"""
    graph = load(text.format(given="", weights=", bool t = {1}"))
    assert shape(graph, "y") == (7, 6)
    # Special functions count four: 3 of them in each of 7 rounds.
    assert made(graph, "last").attributes["flops"] == 7 * 3 * 4
    with pytest.raises(InputError, match=r"'all' of Loop 'last' depends on the data \(state it with --dim all:0=SIZE"):
        load(text.format(given=", bool t", weights=""))


def test_a_state_that_grows_is_counted_as_in_the_first_round() -> None:
    text = """g (float[2, 3] x) => (float[rows, 3] y) <int64 M = {5}> {
        y = Loop (M, , x) <body = b (int64 i, bool c, s) => (bool c2, s2)
            { c2 = Identity (c)  s2 = Concat <axis = 0> (s, x) }> }"""
    graph = parse_onnx(model(text).SerializeToString(), "m.onnx", dims={"rows": 12})
    assert made(graph, "y").attributes["trips"] == 5
    assert (
        "Loop 'y' has states that change their shape; all rounds are counted as the first one"
        in (graph.metadata["warnings"])
    )


def test_a_scan_runs_along_its_axis() -> None:
    # Slices of 4 x 8 out of 4 x 30 x 8; each is read by a product with 8 x 8: 2 * 4 * 8 * 8 operations.
    graph = load("""g (float[4, 8] x, float[4, 30, 8] all) => (y, z) {
        y, z = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (s, e) => (s2, o) <float[8, 8] w> {
            p = MatMul (e, w)  s2 = Add (s, p)  o = Relu (s2) }> (x, all) }""".replace(" <float[8, 8] w>", "")
        .replace("float[4, 30, 8] all", "float[4, 30, 8] all, float[8, 8] w"))  # fmt: skip
    slices, weight = 4 * 8 * 4, 8 * 8 * 4
    assert made(graph, "y").attributes == {
        "flops": 30 * (2 * 4 * 8 * 8 + 4 * 8 + 4 * 8),
        "bytes_moved": 30 * ((slices + weight + slices) + 3 * slices + 2 * slices),
        "trips": 30,
    }
    # The product lives between two ops of a round; sums and results are passed on.
    assert made(graph, "y").workspace_bytes == slices
    assert (shape(graph, "y"), shape(graph, "z")) == ((4, 8), (30, 4, 8))


def test_loops_in_loops_multiply_and_choices_inside_take_the_dearest() -> None:
    graph = load("""g (float[8, 8] x, bool q) => (float[8, 8] y) <int64 M = {10}, int64 N = {6}> {
        y = Loop (M, , x) <body = b (int64 i, bool c, float[8, 8] s) => (bool c2, float[8, 8] s2) {
            c2 = Identity (c)
            u = Loop (N, , s) <body = d (int64 j, bool e, float[8, 8] r) => (bool e2, float[8, 8] r2) {
                e2 = Identity (e)
                r2 = If (q) <then_branch = f () => (float[8, 8] a) { a = MatMul (r, x) },
                             else_branch = h () => (float[8, 8] k) { k = Relu (r) }> }>
            s2 = MatMul (u, x) }> }""")
    assert made(graph, "y").attributes["flops"] == 10 * (6 * PRODUCT + PRODUCT)
    choice = "If 'r2' chooses between branches at run time; it is assumed to take the dearest"
    assert graph.metadata["warnings"] == [f"in Loop 'y': in Loop 'u': {choice}"]


def test_where_a_condition_is_known_only_its_branch_counts() -> None:
    graph = load("""g (float[8, 8] x) => (float[8, 8] y) <bool t = {0}> {
        y = If (t) <then_branch = f () => (float[8, 8] a) { a = MatMul (x, x) },
                    else_branch = h () => (float[8, 8] k) { k = Relu (x) }> }""")
    assert made(graph, "y").attributes == {"flops": 64, "bytes_moved": 2 * MATRIX}
    assert "warnings" not in graph.metadata


def test_what_cannot_be_told_has_no_cost_and_a_warning() -> None:
    graph = load("""g (float[8] x) => (float[8] y) <int64 M = {10}> {
        y = Loop (M, , x) <body = b (int64 i, bool c, float[8] s) => (bool c2, float[8] s2) {
            c2 = Identity (c)  n = NonZero (s)  r = Gather (s, n)  k = ReduceSum (r)  s2 = Add (s, k) }> }""")
    assert made(graph, "y").attributes == {}
    assert graph.metadata["warnings"] == ["Loop 'y' is kept as one op; what it does inside has no cost"]


def random_nodes(generator: Any, depth: int, state: str, prefix: str) -> tuple[str, list[str], str]:
    """Nodes that begin with a state, as text; the operators that run, in turn, when all loops are rolled out; and the
    name of what the last node makes."""
    text, ran, value = "", [], state
    for place in range(int(generator.integers(1, 4))):
        name = f"{prefix}{place}"
        operator = str(generator.choice(["MatMul", "Relu", "Add", "Loop"] if depth else ["MatMul", "Relu", "Add"]))
        if operator == "Loop":
            rounds = int(generator.integers(0, 4))
            inner, once, last = random_nodes(generator, depth - 1, f"{name}s", f"{name}_")
            text += f"""{name}m = Constant <value = int64 {{{rounds}}}> ()
                {name} = Loop ({name}m, , {value}) <body = b{name} (int64 {name}i, bool {name}c, float[8, 8] {name}s)
                => (bool {name}d, float[8, 8] {last}) {{ {name}d = Identity ({name}c) {inner} }}>"""
            ran += once * rounds
        else:
            text += f" {name} = {operator} ({value}{', x' if operator != 'Relu' else ''})"
            ran.append(operator)
        value = name
    return text, ran, value


@pytest.mark.parametrize("seed", range(40))
def test_a_random_loop_costs_what_it_costs_rolled_out(seed: int) -> None:
    text, ran, value = random_nodes(np.random.default_rng(seed), 2, "x", "v")
    graph = load(f"g (float[8, 8] x) => (float[8, 8] y) {{ {text} y = Neg ({value}) }}")
    assert flops(graph) == 64 + sum(PRODUCT if operator == "MatMul" else 64 for operator in ran)


def test_a_loop_computes_at_the_rate_of_what_costs_most_in_it() -> None:
    graph = load("""g (float[8, 8] x, float16[8, 8] w) => (float[8, 8] y) <int64 M = {100}> {
        y = Loop (M, , x) <body = b (int64 i, bool c, float[8, 8] s) => (bool c2, float[8, 8] s2)
            { c2 = Identity (c)  h = Cast <to = 10> (s)  p = MatMul (h, w)  s2 = Cast <to = 1> (p) }> }""")
    assert made(graph, "y").attributes["compute_dtype"] == "float16"
