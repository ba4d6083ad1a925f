"""The network of ColocRL: an LSTM reads the units in turn, another with attention gives each its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.placers.features import NUM_KINDS, UnitFeatures, unit_features
from placewright.lab.learning.placers.placement_policy import Likelihood, draw, likelihood
from placewright.lab.learning.placers.placer import Task
from placewright.lab.learning.placers.shared_noise import SharedNoise

#: Returns devices, [count], for the number of a unit and its logits, [count, num devices].
Chooser: TypeAlias = Callable[[int, Tensor], Tensor]


class UnitEmbedding(nn.Module):
    """An embedding of units: the sum of embeddings of their ops' kinds, concatenated with shapes and adjacency."""

    def __init__(self, features: UnitFeatures, width: int) -> None:
        super().__init__()
        self.register_buffer("kinds", torch.from_numpy(features.kinds))
        rest = torch.cat([torch.from_numpy(features.shapes), torch.from_numpy(features.adjacency())], 1)
        self.register_buffer("rest", rest)
        self.embedding = nn.Linear(NUM_KINDS, width, bias=False)
        self.width = width + rest.shape[1]

    def forward(self) -> Tensor:  # [num units, width]
        return torch.cat([self.embedding(self.kinds), self.rest], 1)


class SequenceNetwork(nn.Module):
    """A sequence-to-sequence network with attention as in Bahdanau et al. (2015), over the encoder's states; the
    context is a mean of the transformed states. The decoder's next input is the device of the last unit.

    width: of a unit's input. temperature: divisor of logits; bound: if given, tanh then keeps logits within it (Bello
    et al. 2016).
    """

    def __init__(
        self, width: int, hidden: int, num_devices: int, *, temperature: float = 1.0, bound: float | None = None
    ) -> None:
        super().__init__()
        self.temperature, self.bound = temperature, bound
        self.encoder = nn.LSTM(width, hidden // 2, bidirectional=True, batch_first=True)
        self.start = nn.Parameter(torch.randn(hidden) * 0.1)
        self.devices = nn.Embedding(num_devices, hidden)
        self.decoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.memory = nn.Linear(hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.output = nn.Linear(2 * hidden, num_devices)

    def sample(self, inputs: Tensor, count: int, choose: Chooser) -> Tensor:
        """Draw devices, [count, num units]. inputs: [num units, width]. choose: returns devices from the unit and its
        logits."""
        memory, state = self._encoded(inputs, count)
        step = self.start.expand(count, 1, -1)
        chosen = []
        for unit in range(len(memory)):
            hidden, state = self.decoder(step, state)
            chosen.append(choose(unit, self._logits(hidden, memory)[:, 0]))
            step = self.devices(chosen[-1])[:, None]
        return torch.stack(chosen, 1)

    def logits(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Return logits, [count, num units, num devices], for all steps at once, since the decoder's inputs are
        known."""
        memory, state = self._encoded(inputs, len(actions))
        read = torch.cat([self.start.expand(len(actions), 1, -1), self.devices(actions[:, :-1])], 1)
        hidden, _ = self.decoder(read, state)
        return torch.cat([self._logits(each[None], memory) for each in hidden])

    def _encoded(self, inputs: Tensor, count: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states that attention reads, [num units, hidden], and the encoder's last state for that many
        decoders."""
        encoded, last = self.encoder(inputs[None])

        def joined(state: Tensor) -> Tensor:  # [2, 1, hidden / 2] -> [1, count, hidden]
            return state.transpose(0, 1).reshape(1, 1, -1).expand(1, count, -1).contiguous()

        return self.memory(encoded[0]), (joined(last[0]), joined(last[1]))

    def _logits(self, hidden: Tensor, memory: Tensor) -> Tensor:
        """Return logits, [count, steps, num devices]. hidden: [count, steps, hidden]."""
        scores = self.score(torch.tanh(self.query(hidden)[:, :, None] + memory))[..., 0]  # [count, steps, num units]
        context = torch.softmax(scores, -1) @ memory
        logits = self.output(torch.cat([hidden, context], -1)) / self.temperature
        return logits if self.bound is None else self.bound * torch.tanh(logits)


class SequencePlacer(nn.Module):
    """A policy over placements of the units that `inputs` describes.

    allowed: [num units, num devices]. noise: a draw is the device with the largest sum of logit and noise of deviation
    shared_noise; without one it follows its likelihood.
    """

    def __init__(
        self,
        inputs: nn.Module,
        network: SequenceNetwork,
        allowed: Tensor,
        noise: SharedNoise | None = None,
        shared_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.network, self.noise, self.shared_noise = inputs, network, noise, shared_noise
        self.register_buffer("barred", torch.where(allowed, 0.0, -torch.inf))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw actions, [count, num units]."""
        with torch.no_grad():
            return self.network.sample(self.inputs(), count, self._chooser(count, generator))

    def _chooser(self, count: int, generator: torch.Generator) -> Chooser:
        if self.noise is None:
            return lambda unit, logits: draw(logits + self.barred[unit], generator)
        units, devices = self.barred.shape
        fields = self.shared_noise * self.noise.draw(count * devices, generator).view(count, devices, units)
        return lambda unit, logits: (logits + self.barred[unit] + fields[:, :, unit]).argmax(1)

    def evaluate(self, actions: Tensor) -> Likelihood:
        return likelihood(self.network.logits(self.inputs(), actions) + self.barred, actions)

    def devices(self, actions: Tensor) -> NDArray[np.int64]:
        return actions.numpy()


def sequence_placer(task: Task, kind_width: int, hidden: int, shared_noise: float = 0.0) -> SequencePlacer:
    """Return a policy for the units of a task. shared_noise: its standard deviation, as in `SequencePlacer`."""
    features = unit_features(task.problem, task.units)
    inputs = UnitEmbedding(features, kind_width)
    network = SequenceNetwork(inputs.width, hidden, task.problem.machine.num_devices)
    noise = SharedNoise(features.edges, features.bytes_on, task.units.count) if shared_noise else None
    return SequencePlacer(inputs, network, torch.from_numpy(task.units.allowed), noise, shared_noise)
