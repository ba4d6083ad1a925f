"""Attention and pooling by the core, compared with torch_geometric's own."""

from __future__ import annotations

import numpy as np
import pytest

from placewright._core import Neighbours

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

COPIES = 3


def graph(seed: int, nodes: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], object]:
    """Edges both ways of a random graph that is connected, and those of its copies side by side."""
    random = np.random.default_rng(seed)
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    some = random.integers(0, nodes, (2, nodes // 2))
    along = np.hstack([chain, some[:, some[0] != some[1]]])
    edges = np.ascontiguousarray(np.unique(np.hstack([along, along[::-1]]), axis=1))
    return edges, torch.from_numpy(np.hstack([edges + copy * nodes for copy in range(COPIES)]))


@pytest.mark.parametrize("nodes", [1, 2, 5, 40])
def test_attention_and_its_gradients_are_those_of_torch_geometric(nodes: int) -> None:
    from placewright.lab.learning.egrl.attention import Attention

    edges, side_by_side = graph(1, nodes)
    torch.manual_seed(0)
    own = Attention(10, 16, 4)
    states = torch.randn(COPIES * nodes, 10, requires_grad=True)
    by_result = torch.randn(COPIES * nodes, 16)
    inputs = [states, *own.parameters()]
    found = own(states, Neighbours(edges, nodes, COPIES))
    expected = torch.relu(geometric.GATConv.forward(own, states, side_by_side))
    assert torch.allclose(found, expected, atol=1e-5)
    gradients = [torch.autograd.grad(result, inputs, by_result) for result in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("nodes", [1, 2, 5, 40])
def test_pooling_and_its_gradients_are_those_of_torch_geometric(nodes: int) -> None:
    from placewright.lab.learning.egrl.attention import HalfPooling

    edges, _ = graph(2, nodes)
    torch.manual_seed(0)
    own = HalfPooling(8)
    states = torch.randn(COPIES * nodes, 8, requires_grad=True)
    copy_of = torch.arange(COPIES).repeat_interleave(nodes)
    found, kept, fewer = own(states, Neighbours(edges, nodes, COPIES))
    wider = two_steps(edges, nodes)
    result, listened, _, _, perm, _ = geometric.TopKPooling.forward(own, states, wider, batch=copy_of)
    order = perm.argsort()
    assert (perm[order] == kept).all()
    assert torch.allclose(found, result[order], atol=1e-6)
    begin, source = fewer.lists()
    lists = {(int(s), node) for node in range(len(kept)) for s in source[begin[node] : begin[node + 1]] if s != node}
    place = order.argsort()
    assert lists == {(int(place[s]), int(place[t])) for s, t in listened.T.tolist()}
    weights = torch.randn(found.shape)
    gradients = [torch.autograd.grad(value, [states, own.select.weight], weights) for value in (found, result[order])]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def two_steps(edges: np.ndarray[tuple[int, ...], np.dtype[np.int64]], nodes: int) -> object:
    """Pairs that one or two edges connect, in each copy: the nonzeros of the square of the adjacency."""
    near = np.eye(nodes)
    near[edges[0], edges[1]] = 1
    connected = near @ near
    np.fill_diagonal(connected, 0)
    pairs = np.stack(np.nonzero(connected))
    return torch.from_numpy(np.hstack([pairs + copy * nodes for copy in range(COPIES)]))


def test_features_that_copies_share_count_as_those_of_each_copy() -> None:
    from placewright.lab.learning.egrl.network import GraphUNet
    from placewright.lab.learning.egrl.settings import NetworkSettings

    edges, _ = graph(3, 7)
    torch.manual_seed(0)
    network = GraphUNet(9, NetworkSettings(width=8, depth=2, heads=2))
    shared, own = torch.randn(7, 4), torch.randn(COPIES, 7, 5)
    neighbours = Neighbours(edges, 7, COPIES)
    with torch.no_grad():
        apart = network(neighbours, shared, own)
        together = network(neighbours, torch.cat([shared.expand(COPIES, -1, -1), own], dim=2))
    assert torch.allclose(apart, together, atol=1e-5)


def test_neighbours_refuse_edges_that_lead_nowhere_and_arrays_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="names a node that does not exist"):
        Neighbours(np.array([[0], [2]]), 2)
    with pytest.raises(ValueError, match="need nodes"):
        Neighbours(np.zeros((2, 0), np.int64), 0)
    of, weights = Neighbours(np.array([[0, 1], [1, 0]]), 2), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="a row of states per node"):
        of.attend(np.zeros(4, np.float32), weights, weights, weights, 2)
    with pytest.raises(ValueError, match="a multiple of its heads"):
        of.attend(np.zeros(8, np.float32), weights, weights, weights, 3)
    with pytest.raises(ValueError, match="a score per node"):
        of.pooled(np.zeros(3, np.float32))
