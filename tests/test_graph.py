"""Graphs: their checks, derived fields and order."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from placewright.graph import Graph, Op, Tensor, in_topological_order
from placewright.support.errors import InputError


def chain() -> Graph:
    """a -> x -> b, with the view v of x read by c."""
    tensors = (
        Tensor(name="x", size_bytes=8),
        Tensor(name="v", size_bytes=8, alias_of=0),
        Tensor(name="w", size_bytes=4, role="parameter"),
    )
    ops = (
        Op(name="a", kind="other", outputs=(0,)),
        Op(name="b", kind="other", inputs=(0, 2, 0)),
        Op(name="view", kind="view", inputs=(0,), outputs=(1,)),
        Op(name="c", kind="other", inputs=(1,), controls=(1,)),
    )
    return Graph(name="chain", ops=ops, tensors=tensors)


def test_producers_and_consumers_are_ops_by_index() -> None:
    graph = chain()
    assert graph.producer_of == (0, 2, -1)
    assert graph.consumers_of == ((1, 2), (3,), (1,))


def test_the_base_of_a_chain_of_aliases_owns_the_memory() -> None:
    tensors = (
        Tensor(name="last", size_bytes=1, alias_of=1),
        Tensor(name="middle", size_bytes=1, alias_of=2),
        Tensor(name="first", size_bytes=1),
    )
    ops = (
        Op(name="a", kind="other", outputs=(2,)),
        Op(name="b", kind="view", inputs=(2,), outputs=(1,)),
        Op(name="c", kind="view", inputs=(1,), outputs=(0,)),
    )
    assert Graph(name="aliases", ops=ops, tensors=tensors).base_of == (2, 2, 2)


def test_a_very_long_chain_of_aliases_has_one_base() -> None:
    count = 20_000
    tensors = tuple(Tensor(name=f"t{i}", size_bytes=1, alias_of=i - 1 if i else None) for i in range(count))
    ops = [Op(name="op0", kind="other", outputs=(0,))]
    ops += [Op(name=f"op{i}", kind="view", inputs=(i - 1,), outputs=(i,)) for i in range(1, count)]
    assert set(Graph(name="long", ops=tuple(ops), tensors=tensors).base_of) == {0}


def with_tensor(index: int, **changes: object) -> Graph:
    graph = chain()
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], **changes)  # type: ignore[arg-type]
    return replace(graph, tensors=tuple(tensors))


def with_op(index: int, **changes: object) -> Graph:
    graph = chain()
    ops = list(graph.ops)
    ops[index] = replace(ops[index], **changes)  # type: ignore[arg-type]
    return replace(graph, ops=tuple(ops))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: replace(chain(), ops=()), "graph 'chain' has no ops"),
        (lambda: with_op(1, name="a"), "two ops named 'a'"),
        (lambda: with_tensor(1, name="x"), "two tensors named 'x'"),
        (lambda: with_tensor(0, size_bytes=-1), "tensor 'x' has an impossible size of -1 bytes"),
        (lambda: with_tensor(0, size_bytes=2**62), "tensor 'x' has an impossible size"),
        (lambda: with_tensor(2, role="activation"), "tensor 'w' is read but no op produces it"),
        (lambda: with_tensor(0, role="parameter"), "tensor 'x' is a parameter but op 'a' produces it"),
        (lambda: with_tensor(1, alias_of=3), "tensor 'v' aliases tensor 3, which does not exist"),
        (lambda: with_tensor(1, alias_of=-1), "tensor 'v' aliases tensor -1, which does not exist"),
        (lambda: with_tensor(1, alias_of=1), "tensor 'v' aliases a tensor that does not exist before it"),
        (lambda: with_tensor(2, alias_of=0), "tensor 'w' aliases a tensor that does not exist before it"),
        (lambda: with_tensor(0, alias_of=1), "tensor 'x' aliases a tensor that does not exist before it"),
        (lambda: with_tensor(1, alias_of=2), "op 'view' is a view but one of its outputs does not alias one of its"),
        (lambda: with_tensor(1, alias_of=None), "op 'view' is a view but one of its outputs does not alias one of its"),
        (lambda: with_op(1, kind="input"), "op 'b' is a graph input, so it can read no tensor"),
        (lambda: with_op(0, kind="mystery"), "op 'a' has the unknown kind 'mystery'"),
        (lambda: with_op(0, time_ns=-1), "op 'a' has an impossible time of -1 ns"),
        (lambda: with_op(0, workspace_bytes=-1), "op 'a' has an impossible workspace of -1 bytes"),
        (lambda: with_op(0, inputs=(7,)), "op 'a' reads tensor 7, which does not exist"),
        (lambda: with_op(0, inputs=(1,)), "op 'a' reads tensor 'v' before it is produced"),
        (lambda: with_op(0, inputs=(0,)), "op 'a' reads tensor 'x' before it is produced"),
        (lambda: with_op(1, outputs=(0,)), "tensor 'x' is produced by both 'a' and 'b'"),
        (lambda: with_op(1, outputs=(9,)), "op 'b' names tensor 9, which does not exist"),
        (lambda: with_op(3, controls=(3,)), "op 'c' has a control dependency on op 3, which does not stand before it"),
        (lambda: with_op(3, controls=(-1,)), "op 'c' has a control dependency on op -1"),
    ],
)
def test_an_impossible_graph_is_refused_in_one_sentence(make: object, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        make()  # type: ignore[operator]
    assert sentence in str(error.value)


def test_an_alias_of_nothing_is_refused_wherever_it_stands_in_a_chain() -> None:
    op = Op(name="a", kind="other", outputs=(0, 1))
    x, y = Tensor(name="x", size_bytes=1, alias_of=1), Tensor(name="y", size_bytes=1, alias_of=99)
    with pytest.raises(InputError, match="tensor 'y' aliases tensor 99, which does not exist"):
        Graph(name="chain", ops=(op,), tensors=(x, y))


def test_two_outputs_of_one_op_may_share_memory_but_not_in_a_ring() -> None:
    op = Op(name="a", kind="other", outputs=(0, 1))
    x, y = Tensor(name="x", size_bytes=1), Tensor(name="y", size_bytes=1, alias_of=0)
    assert Graph(name="pair", ops=(op,), tensors=(x, y)).base_of == (0, 0)
    with pytest.raises(InputError, match="tensor 'x' aliases a tensor that aliases it back"):
        Graph(name="ring", ops=(op,), tensors=(replace(x, alias_of=1), y))


@given(graphs(), st.randoms(use_true_random=False))
def test_any_order_of_ops_is_sorted_into_a_valid_one(graph: Graph, random: object) -> None:
    places = list(range(len(graph.ops)))
    random.shuffle(places)  # type: ignore[attr-defined]
    new_place = {old: new for new, old in enumerate(places)}
    shuffled = [replace(graph.ops[o], controls=tuple(new_place[c] for c in graph.ops[o].controls)) for o in places]
    ops = in_topological_order(shuffled, graph.tensors, "shuffled")
    place = {op.name: index for index, op in enumerate(ops)}
    made_at = {tensor: place[op.name] for op in ops for tensor in op.outputs}
    for op, original in zip(ops, (next(o for o in graph.ops if o.name == op.name) for op in ops), strict=True):
        assert all(made_at.get(tensor, -1) < place[op.name] for tensor in op.inputs)
        assert [ops[c].name for c in op.controls] == [graph.ops[c].name for c in original.controls]


@given(graphs())
def test_a_valid_order_is_kept(graph: Graph) -> None:
    assert in_topological_order(graph.ops, graph.tensors, "same") == list(graph.ops)


def test_a_cycle_is_named_in_dependency_order() -> None:
    tensors = tuple(Tensor(name=name, size_bytes=1) for name in "xyz")
    ops = [
        Op(name="start", kind="other", outputs=(2,)),
        Op(name="a", kind="other", inputs=(1, 2), outputs=(0,)),
        Op(name="b", kind="other", inputs=(0,)),
        Op(name="c", kind="other", outputs=(1,), controls=(2,)),
    ]
    with pytest.raises(
        InputError, match=r"graph 'loop' has a cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)"
    ):
        in_topological_order(ops, tensors, "loop")


CHANGES = [
    {"name": "renamed"},
    {"kind": "copy"},
    {"inputs": (0,)},
    {"controls": (0,)},
    {"attributes": {"groups": 2}},
    {"time_ns": 5},
    {"workspace_bytes": 5},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_the_fingerprint_follows_what_a_plan_depends_on(changes: dict[str, object]) -> None:
    assert with_op(1, **changes).fingerprint != chain().fingerprint


@pytest.mark.parametrize(
    ("tensor", "op", "named"),
    [({}, {"attributes": {"axes": np.int64(1)}}, "'a': "), ({"size_bytes": np.int64(8)}, {}, "'x': ")],
)
def test_what_is_no_json_value_is_refused_by_name(tensor: dict[str, Any], op: dict[str, Any], named: str) -> None:
    graph = Graph(
        name="odd",
        ops=(Op(**{"name": "a", "kind": "other", "outputs": (0,), **op}),),
        tensors=(Tensor(**{"name": "x", "size_bytes": 8, **tensor}),),
    )
    with pytest.raises(InputError, match=f"graph 'odd': {named}.*int64"):
        _ = graph.fingerprint


def test_the_fingerprint_ignores_where_the_graph_came_from() -> None:
    graph = chain()
    elsewhere = replace(graph, name="other", metadata={"framework": "onnx"})
    assert elsewhere.fingerprint == graph.fingerprint
    assert len(graph.fingerprint) == 64


def test_of_a_long_cycle_few_ops_are_named() -> None:
    count = 50_000
    ops = [Op(name=f"op{i}", kind="other", controls=((i - 1) % count,)) for i in range(count)]
    with pytest.raises(InputError) as error:
        in_topological_order(ops, (), "loop")
    assert re.fullmatch(
        r"graph 'loop' has a cycle: (op\d+ -> ){3}\.\.\. and 49,996 more \.\.\. -> op\d+ -> op\d+", str(error.value)
    )


def test_a_huge_name_or_number_is_cut_in_an_error() -> None:
    with pytest.raises(InputError) as error:
        Graph(name="g", ops=(Op(name="x" * 10**6, kind="k" * 10**6),), tensors=())
    assert len(str(error.value)) < 400
    with pytest.raises(InputError, match=r"impossible size of a number of 50,001 bits bytes"):
        with_tensor(0, size_bytes=2**50_000)


def test_a_tensor_nobody_makes_or_reads_is_said_to_be_one() -> None:
    ops, orphan = chain().ops, Tensor(name="orphan", size_bytes=1)
    with pytest.raises(InputError, match="tensor 'orphan': no op reads or produces it"):
        Graph(name="g", ops=ops, tensors=(*chain().tensors, orphan))
