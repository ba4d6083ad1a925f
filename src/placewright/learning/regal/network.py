"""The policy's network and its value function in PyTorch (REGAL, section 4.2 and A.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot, pad, relu

from placewright.learning.protocols import Actions
from placewright.learning.regal.configuration import PolicyConfiguration
from placewright.learning.regal.distribution import LevelDistribution
from placewright.learning.regal.features import NUM_EDGE_FEATURES, Context, Features
from placewright.learning.regal.forward import Logits, LogitsInOrder
from placewright.problem import Problem
from placewright.proposal import Proposal


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Several graphs as one. op: [ops, op features]. edge: [edges, 3]. source, target: [edges]. graph_of: [ops].
    num_incoming, num_outgoing: [ops, 1], at least 1."""

    op: Tensor
    edge: Tensor
    source: Tensor
    target: Tensor
    graph_of: Tensor
    num_graphs: int

    @staticmethod
    def of(graphs: Sequence[Features]) -> Batch:
        sizes = [len(graph.op) for graph in graphs]
        first = [sum(sizes[:index]) for index in range(len(sizes))]
        return Batch(
            op=torch.cat([torch.from_numpy(graph.op) for graph in graphs]),
            edge=torch.cat([torch.from_numpy(graph.edge) for graph in graphs]),
            source=torch.cat(
                [torch.from_numpy(graph.source).long() + begin for graph, begin in zip(graphs, first, strict=True)]
            ),
            target=torch.cat(
                [torch.from_numpy(graph.target).long() + begin for graph, begin in zip(graphs, first, strict=True)]
            ),
            graph_of=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
            num_graphs=len(graphs),
        )

    def mean_over_ops(self, values: Tensor) -> Tensor:
        """[ops, n] -> [graphs, n]."""
        total = torch.zeros(self.num_graphs, values.shape[1]).index_add(0, self.graph_of, values)
        return total / torch.bincount(self.graph_of, minlength=self.num_graphs)[:, None]


class TwoLayers(nn.Module):
    def __init__(self, num_inputs: int, width: int, num_outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_inputs, width)
        self.out = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(relu(self.hidden(x)))


def _silent(layers: TwoLayers) -> TwoLayers:
    """With outputs of 0 until something is learned: after many rounds of sums states would be far from any scale, and a
    policy should begin with all actions alike."""
    nn.init.zeros_(layers.out.weight)
    nn.init.zeros_(layers.out.bias)
    return layers


class Messages(nn.Module):
    """Messages that ops get along their edges in one direction: the sum or mean of a two-layer network's outputs.

    Its second layer is linear, so it is applied to what is summed instead of to every edge."""

    def __init__(self, width: int, aggregation: str) -> None:
        super().__init__()
        self.width, self.is_mean = width, aggregation == "mean"
        self.hidden = nn.Linear(3 * width, width)
        self.out = nn.Linear(width, width)

    def of_edges(self, edge: Tensor) -> Tensor:
        """The part of the first layer that is the same in every round. [edges, width]"""
        return linear(edge, self.hidden.weight[:, 2 * self.width :], self.hidden.bias)

    def forward(self, state: Tensor, from_edges: Tensor, source: Tensor, target: Tensor, at: Tensor) -> Tensor:
        """state: [ops, width]. at: the end of each edge that receives, source or target. -> [ops, width]"""
        weight = self.hidden.weight
        of_source = linear(state, weight[:, : self.width])
        of_target = linear(state, weight[:, self.width : 2 * self.width])
        hidden = relu(of_source.index_select(0, source) + of_target.index_select(0, target) + from_edges)
        total = torch.zeros_like(state).index_add(0, at, hidden)
        count = torch.zeros(len(state), 1).index_add(0, at, torch.ones(len(at), 1))
        if self.is_mean:
            total, count = total / count.clamp(min=1), count.clamp(max=1)
        return linear(total, self.out.weight) + count * self.out.bias


class GraphNetwork(nn.Module):
    """Equation 1: a state for every op after T rounds of messages both ways."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        width = configuration.width
        self.rounds, self.is_gated = configuration.rounds, configuration.update == "gru"
        self.encode_op = TwoLayers(configuration.num_op_features, width, width)
        self.encode_edge = TwoLayers(NUM_EDGE_FEATURES, width, width)
        self.along = Messages(width, configuration.aggregation)
        self.against = Messages(width, configuration.aggregation)
        self.update = nn.GRUCell(width, width) if self.is_gated else _silent(TwoLayers(2 * width, width, width))

    def forward(self, batch: Batch) -> Tensor:
        """-> [ops, width]"""
        state, edge = self.encode_op(batch.op), self.encode_edge(batch.edge)
        along, against = self.along.of_edges(edge), self.against.of_edges(edge)
        for _ in range(self.rounds):
            messages = self.along(state, along, batch.source, batch.target, batch.target)
            messages = messages + self.against(state, against, batch.source, batch.target, batch.source)
            state = (
                self.update(messages, state) if self.is_gated else state + self.update(torch.cat([state, messages], 1))
            )
        return state


class SequenceNetwork(nn.Module):
    """A state for every op from a recurrent network over the ops of its graph (GAS, section 5.2)."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        self.encode_op = TwoLayers(configuration.num_op_features, configuration.width, configuration.width)
        self.recurrent = nn.LSTM(configuration.width, configuration.width)

    def forward(self, batch: Batch) -> Tensor:
        """-> [ops, width]"""
        graphs = self.encode_op(batch.op).split(torch.bincount(batch.graph_of, minlength=batch.num_graphs).tolist())
        return torch.cat([self.recurrent(graph)[0] for graph in graphs])


def network_of_states(configuration: PolicyConfiguration) -> GraphNetwork | SequenceNetwork:
    return SequenceNetwork(configuration) if configuration.network == "sequence" else GraphNetwork(configuration)


class PolicyNetwork(nn.Module):
    """Equation 2: logits of actions for each op from its state. They are independent, or with a recurrent network over
    the ops depend on the actions of the ops before (A.8)."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        width, space = configuration.width, configuration.action_space
        self.configuration, self.levels = configuration, space.levels
        self.states = network_of_states(configuration)
        self.recurrent: nn.LSTM | None = None
        if configuration.network == "autoregressive":
            self.recurrent = nn.LSTM(width + sum(self.levels), width, batch_first=True)
        self.act = _silent(TwoLayers(width, width, space.num_logits))

    def forward(self, states: Tensor, actions: Tensor | None = None) -> Tensor:
        """states: [ops, width]. actions: samples of one graph, int64 [samples, ops, choices], for a recurrent network.
        -> [samples, ops, num logits], or where they are independent of actions [1, ops, num logits]"""
        if self.recurrent is None:
            return self.act(states)[None]
        assert actions is not None
        taken = [one_hot(actions[..., number], count) for number, count in enumerate(self.levels)]
        before = pad(torch.cat(taken, 2)[:, :-1], (0, 0, 1, 0))  # [samples, ops, all levels]
        own = states.expand(len(actions), -1, -1)
        return self.act(self.recurrent(torch.cat([own, before.to(own.dtype)], 2))[0])

    def distribution(self, observation: Context) -> LevelDistribution:
        return LevelDistribution(self, self.states(Batch.of([observation.features])))

    def guide(self, problem: Problem, observation: Context, actions: Actions) -> Proposal:
        return self.configuration.action_space.proposal(problem, actions, observation.fixed_op)

    def to_sample(self, states: Tensor) -> Logits:
        """What to draw a graph's actions from. states: [ops, width]"""
        if self.recurrent is None:
            return self(states)[0].detach().numpy()
        weights = {name: weight.detach().numpy() for name, weight in self.named_parameters()}
        return LogitsInOrder(weights, states.detach().numpy(), self.levels)


class ValueNetwork(nn.Module):
    """The reward to expect of a graph, from a network of its own."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        width = configuration.width
        self.states = network_of_states(configuration)
        self.of_op = TwoLayers(width, width, width)
        self.of_graph = TwoLayers(width, width, 1)

    def forward(self, observation: Context) -> Tensor:
        """-> one number"""
        batch = Batch.of([observation.features])
        return self.of_graph(batch.mean_over_ops(self.of_op(self.states(batch)))).squeeze(1)[0]
