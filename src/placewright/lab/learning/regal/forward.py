"""The policy's network in numpy, with the results of PolicyNetwork (network.py) (REGAL, section 4.2 and A.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.features import Features

Float = NDArray[np.float32]
Int = NDArray[np.int64]
Weights = Mapping[str, Float]
#: Added to the variance of a state over the ops of a graph.
NORMALISATION_EPSILON = 1e-5


class LogitsInOrder:
    """Logits that become known op by op: an op's when the actions of those before it are drawn (A.8).

    weights: as PolicyNetwork names them. states: of the graph network, float32 [num ops, width]. levels: of each
    choice.
    """

    def __init__(self, weights: Weights, states: Float, levels: Sequence[int]) -> None:
        of_state, of_level = np.split(weights["recurrent.weight_ih_l0"], [states.shape[1]], axis=1)
        self._from_states = states @ of_state.T + weights["recurrent.bias_ih_l0"] + weights["recurrent.bias_hh_l0"]
        self._from_level = np.ascontiguousarray(of_level.T)
        self._first_level = np.cumsum([0, *levels[:-1]])
        self._weights = weights

    def __len__(self) -> int:
        return len(self._from_states)

    def drawn(self, choose: Callable[[int, Float], Int]) -> tuple[Int, Float]:
        """Draw actions, [num ops, num choices], and return them with their logits, float32 [num ops, num logits].
        choose: returns the actions of an op from its number and logits; called for each op in order."""
        memory = _LstmCell(self._weights, "recurrent")
        actions, logits = [], []
        from_actions = np.zeros_like(self._from_level[0])
        for op, from_state in enumerate(self._from_states):
            logits.append(_two_layers(self._weights, "act", memory.after(from_state + from_actions)))
            actions.append(choose(op, logits[op]))
            from_actions = self._from_level[self._first_level + actions[op]].sum(axis=0)
        return np.array(actions), np.array(logits)


#: Logits of all ops, float32 [num ops, num logits], or of one op after the other.
Logits = Float | LogitsInOrder


def logits_of(weights: Weights, configuration: PolicyConfiguration, graph: Features) -> Logits:
    """Return the logits that `sample` draws from. weights: as PolicyNetwork names them."""
    states = (_sequence_states if configuration.network == "sequence" else _graph_states)(weights, configuration, graph)
    if configuration.normalisation == "graph":
        centred = states - states.mean(0)
        states = centred / np.sqrt(np.square(centred).mean(0) + NORMALISATION_EPSILON)
    if configuration.network == "autoregressive":
        return LogitsInOrder(weights, states, configuration.action_space.levels)
    return _two_layers(weights, "act", states)


def _sequence_states(weights: Weights, configuration: PolicyConfiguration, graph: Features) -> Float:
    """Return the states of a recurrent network over the ops."""
    name, memory = "states.recurrent", _LstmCell(weights, "states.recurrent")
    encoded = _two_layers(weights, "states.encode_op", graph.op)
    from_ops = (
        encoded @ weights[f"{name}.weight_ih_l0"].T + weights[f"{name}.bias_ih_l0"] + weights[f"{name}.bias_hh_l0"]
    )
    return np.array([memory.after(from_op) for from_op in from_ops])


class _LstmCell:
    """Long short-term memory (Hochreiter & Schmidhuber 1997), equations 6 to 11 of REGAL; gates as PyTorch stacks them:
    input, forget, new, output."""

    def __init__(self, weights: Weights, name: str) -> None:
        self._recurrent = np.ascontiguousarray(weights[f"{name}.weight_hh_l0"].T)
        self._state = self._memory = np.zeros(len(self._recurrent), np.float32)

    def after(self, from_input: Float) -> Float:
        """Return the state, [width], after one more input. from_input: its contribution to the gates, [4 * width]."""
        width = len(self._state)
        gates = from_input + self._state @ self._recurrent
        opening = _sigmoid(gates)  # includes the new memory's, for fewer calls
        input_gate, forget_gate, output_gate = opening[:width], opening[width : 2 * width], opening[3 * width :]
        self._memory = forget_gate * self._memory + input_gate * np.tanh(gates[2 * width : 3 * width])
        self._state = output_gate * np.tanh(self._memory)
        return self._state


def _graph_states(weights: Weights, configuration: PolicyConfiguration, graph: Features) -> Float:
    """Return the states of ops by equation 1."""
    state = _two_layers(weights, "states.encode_op", graph.op)
    edge = _two_layers(weights, "states.encode_edge", graph.edge)
    outgoing = np.argsort(graph.source, kind="stable")
    sides = (
        _Messages(weights, "states.along", configuration, edge, graph.source, graph.target, graph.target),
        _Messages(
            weights,
            "states.against",
            configuration,
            edge[outgoing],
            graph.source[outgoing],
            graph.target[outgoing],
            graph.source[outgoing],
        ),
    )
    for _ in range(configuration.rounds):
        messages = sides[0].to_receivers(state) + sides[1].to_receivers(state)
        if configuration.update == "gru":
            state = _gated(weights, "states.update", messages, state)
        else:
            made = _two_layers(weights, "states.update", np.hstack([state, messages]))
            state = state + made if configuration.update == "residual" else made
    return state


class _Messages:
    """Messages along the edges in one direction. Edges are sorted by the receiving end, `at`."""

    def __init__(
        self,
        weights: Weights,
        name: str,
        configuration: PolicyConfiguration,
        edge: Float,
        source: NDArray[np.int32],
        target: NDArray[np.int32],
        at: NDArray[np.int32],
    ) -> None:
        width = configuration.width
        hidden = weights[f"{name}.hidden.weight"]
        self._of_source, self._of_target = hidden[:, :width].T, hidden[:, width : 2 * width].T
        self._from_edges = edge @ hidden[:, 2 * width :].T + weights[f"{name}.hidden.bias"]
        self._out, self._bias = weights[f"{name}.out.weight"].T, weights[f"{name}.out.bias"]
        self._source, self._target = source, target
        self._receivers, self._first, count = np.unique(at, return_index=True, return_counts=True)
        self._count = count.astype(np.float32)[:, None]
        self._is_mean = configuration.aggregation == "mean"

    def to_receivers(self, state: Float) -> Float:
        """Return the sum or mean of messages that each op receives, [num ops, width]."""
        messages = np.zeros_like(state)
        if not len(self._receivers):
            return messages
        hidden = (state @ self._of_source)[self._source]
        hidden += (state @ self._of_target)[self._target]
        hidden += self._from_edges
        np.maximum(hidden, 0, out=hidden)
        total, count = np.add.reduceat(hidden, self._first), self._count
        if self._is_mean:
            total, count = total / count, np.ones_like(count)
        messages[self._receivers] = total @ self._out + count * self._bias
        return messages


def _two_layers(weights: Weights, name: str, x: Float) -> Float:
    hidden = np.maximum(_linear(weights, f"{name}.hidden", x), 0)
    return _linear(weights, f"{name}.out", hidden)


def _linear(weights: Weights, name: str, x: Float) -> Float:
    found: Float = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return found


def _gated(weights: Weights, name: str, x: Float, state: Float) -> Float:
    """The gated recurrent unit of Cho et al. (2014), with the gates as PyTorch stacks them: reset, update, new."""
    reset_x, update_x, new_x = np.split(x @ weights[f"{name}.weight_ih"].T + weights[f"{name}.bias_ih"], 3, axis=1)
    reset_h, update_h, new_h = np.split(state @ weights[f"{name}.weight_hh"].T + weights[f"{name}.bias_hh"], 3, axis=1)
    update = _sigmoid(update_x + update_h)
    new = np.tanh(new_x + _sigmoid(reset_x + reset_h) * new_h)
    found: Float = (1 - update) * new + update * state
    return found


def _sigmoid(x: Float) -> Float:
    found: Float = 0.5 * (1 + np.tanh(0.5 * x))
    return found
