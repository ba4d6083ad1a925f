"""The policy's network and its value function in PyTorch (REGAL, section 4.2 and A.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot, pad, relu

from placewright.lab.learning.protocols import Actions
from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.distribution import LevelDistribution
from placewright.lab.learning.regal.features import NUM_EDGE_FEATURES, Context, Features
from placewright.lab.learning.regal.forward import NORMALISATION_EPSILON, Logits, LogitsInOrder
from placewright.problem import Problem
from placewright.proposal import Proposal


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Several graphs as one. op: [ops, op features]. edge: [edges, 3]. source, target: [edges]. graph_of: [ops]."""

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
        """Return the mean over each graph's ops, [ops, n] -> [graphs, n]."""
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
    """Return the layers with outputs of 0 until they learn: after many rounds of sums states would otherwise be far
    from any scale, and a policy should begin with all actions equally likely."""
    nn.init.zeros_(layers.out.weight)
    nn.init.zeros_(layers.out.bias)
    return layers


class MessageLayers(nn.Module):
    """The layers of messages that ops receive along their edges in one direction: a two-layer network reads both ends
    and the edge."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * width, width)
        self.out = nn.Linear(width, width)


class Messages:
    """One pass over a batch: the messages that every op receives in a round, from both directions together.

    The second layer is linear, so it is applied to the sum or mean over an op's edges instead of to every edge. Values
    that do not change from round to round are computed once, and both directions are computed as one: the time of small
    networks depends on the number of calls.
    """

    def __init__(self, batch: Batch, along: MessageLayers, against: MessageLayers, edge: Tensor, is_mean: bool) -> None:
        """Prepare the pass. edge: states of the edges, [edges, width]."""
        self._batch, self._width = batch, edge.shape[1]
        both = along, against
        parts = [layers.hidden.weight.split(self._width, 1) for layers in both]  # by source, target and edge
        self._of_ends = torch.cat([of_end for end in (0, 1) for of_end in (parts[0][end], parts[1][end])])
        self._from_edges = linear(
            edge,
            torch.cat([of_edge for _, _, of_edge in parts]),
            torch.cat([layers.hidden.bias for layers in both]),
        )
        self._out = torch.cat([layers.out.weight for layers in both], 1)

        num_ops = len(batch.op)
        counts = [torch.bincount(at, minlength=num_ops)[:, None] for at in (batch.target, batch.source)]
        self._share: Tensor | None = None
        if is_mean:
            self._share = torch.cat([1 / count.clamp(min=1).expand(-1, self._width) for count in counts], 1)
            counts = [count.clamp(max=1) for count in counts]
        self._bias = sum(count * layers.out.bias for count, layers in zip(counts, both, strict=True))

    def received(self, state: Tensor) -> Tensor:
        """Return the messages, [ops, width] -> [ops, width]."""
        of_source, of_target = linear(state, self._of_ends).chunk(2, 1)
        source, target = self._batch.source, self._batch.target
        hidden = relu(of_source.index_select(0, source) + of_target.index_select(0, target) + self._from_edges)
        along, against = hidden.chunk(2, 1)
        none = torch.zeros_like(state)
        total = torch.cat([none.index_add(0, target, along), none.index_add(0, source, against)], 1)
        if self._share is not None:
            total = total * self._share
        return linear(total, self._out) + self._bias


class GraphNetwork(nn.Module):
    """Equation 1: a state for every op after T rounds of messages in both directions."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        width = configuration.width
        self.rounds, self.kind = configuration.rounds, configuration.update
        self.is_mean = configuration.aggregation == "mean"
        self.encode_op = TwoLayers(configuration.num_op_features, width, width)
        self.encode_edge = TwoLayers(NUM_EDGE_FEATURES, width, width)
        self.along = MessageLayers(width)
        self.against = MessageLayers(width)
        self.update: nn.Module
        if self.kind == "gru":
            self.update = nn.GRUCell(width, width)
        else:
            layers = TwoLayers(2 * width, width, width)
            self.update = _silent(layers) if self.kind == "residual" else layers

    def forward(self, batch: Batch) -> Tensor:
        """Return the states, [ops, width]."""
        state = self.encode_op(batch.op)
        if self.rounds == 0:
            return state
        messages = Messages(batch, self.along, self.against, self.encode_edge(batch.edge), self.is_mean)
        for _ in range(self.rounds):
            received = messages.received(state)
            if self.kind == "gru":
                state = self.update(received, state)
            else:
                made = self.update(torch.cat([state, received], 1))
                state = state + made if self.kind == "residual" else made
        return state


class SequenceNetwork(nn.Module):
    """A state for every op from a recurrent network over the ops of its graph (GAS, section 5.2)."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        self.encode_op = TwoLayers(configuration.num_op_features, configuration.width, configuration.width)
        self.recurrent = nn.LSTM(configuration.width, configuration.width)

    def forward(self, batch: Batch) -> Tensor:
        """Return the states, [ops, width]."""
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
        """Return logits, [samples, ops, num logits], or [1, ops, num logits] where they do not depend on actions.
        states: [ops, width]. actions: samples of one graph, int64 [samples, ops, choices], for a recurrent network."""
        states = self._normalised(states)
        if self.recurrent is None:
            return self.act(states)[None]
        assert actions is not None
        taken = [one_hot(actions[..., number], count) for number, count in enumerate(self.levels)]
        before = pad(torch.cat(taken, 2)[:, :-1], (0, 0, 1, 0))  # [samples, ops, all levels]
        own = states.expand(len(actions), -1, -1)
        return self.act(self.recurrent(torch.cat([own, before.to(own.dtype)], 2))[0])

    def distribution(self, observation: Context) -> LevelDistribution:
        states = self.states(Batch.of([observation.features]))
        return LevelDistribution(
            self.configuration, states, lambda: self.to_sample(states), lambda actions: self(states, actions)
        )

    def guide(self, problem: Problem, observation: Context, actions: Actions) -> Proposal:
        return self.configuration.action_space.proposal(problem, actions, observation.fixed_op)

    def to_sample(self, states: Tensor) -> Logits:
        """Return the logits that a graph's actions are drawn from. states: [ops, width]."""
        if self.recurrent is None:
            return self(states)[0].detach().numpy()
        weights = {name: weight.detach().numpy() for name, weight in self.named_parameters()}
        return LogitsInOrder(weights, self._normalised(states).detach().numpy(), self.levels)

    def _normalised(self, states: Tensor) -> Tensor:
        """Return the states of one graph, normalised."""
        if self.configuration.normalisation == "none":
            return states
        centred = states - states.mean(0)
        return centred / (centred.square().mean(0) + NORMALISATION_EPSILON).sqrt()


class ValueNetwork(nn.Module):
    """The expected reward of a graph, from a separate network."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__()
        width = configuration.width
        self.states = network_of_states(configuration)
        self.of_op = TwoLayers(width, width, width)
        self.of_graph = TwoLayers(width, width, 1)
        # Rewards are near -1, those of the search without guidance: a first guess of 0 costs thousands of steps.
        nn.init.constant_(self.of_graph.out.bias, -1.0)

    def forward(self, observation: Context) -> Tensor:
        """Return the expected reward, one number."""
        batch = Batch.of([observation.features])
        return self.of_graph(batch.mean_over_ops(self.of_op(self.states(batch)))).squeeze(1)[0]
