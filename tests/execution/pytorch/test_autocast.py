"""Training and inference under autocast: normalizations, attention, recurrent layers, in the loops that people write.

Run as planned by `placewright.compile` and by the backend of `torch.compile`, bit by bit what eager PyTorch computes.
Where PyTorch traces other ops than eager runs, its own backend "aot_eager", which runs what was traced, says what is
right.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch import config
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import placewright
from placewright.execution.devices import available_cores

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
QUICK: dict[str, Any] = {"devices": "cpu:0,cpu:1", "evaluations": 20, "solver": "list"}
STEPS = 3
#: Loops have the backward pass outside of autocast; by default PyTorch captures it as if it were inside.
BACKWARD_OUTSIDE = config.patch(backward_pass_autocast="off")


@pytest.fixture(autouse=True)
def _nothing_compiled_before(one_thread_for_an_op: None) -> None:
    torch.compiler.reset()


def half() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16)


class Net(nn.Module):
    """A product, which autocast computes in bfloat16, a layer, and a product of what that returns."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.into = nn.Linear(16, 16)
        self.layer = layer
        self.shape = shape
        self.out = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.layer(self.into(x).tanh().view(self.shape))
        return self.out((value[0] if isinstance(value, tuple) else value).reshape(-1, 16))


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(x, x.flip(2), x, is_causal=True)


class Repeated(nn.Module):
    """A product whose weight eager casts once for all of its calls, and a table that is read and multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        self.product, self.table = nn.Linear(16, 16), nn.Embedding(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.product(x).tanh()
        read = self.table(x.float().argmax(1))
        for _ in range(2):
            x = functional.linear(x, self.table.weight).tanh()
        return x + read


LAYERS: dict[str, Callable[[], Net]] = {
    "batch norm 1d": lambda: Net(nn.BatchNorm1d(16), (8, 16)),
    "batch norm 2d": lambda: Net(nn.BatchNorm2d(4), (8, 4, 2, 2)),
    "layer norm": lambda: Net(nn.LayerNorm(16), (8, 16)),
    "group norm": lambda: Net(nn.GroupNorm(2, 4), (8, 4, 2, 2)),
    "RMS norm": lambda: Net(nn.RMSNorm(16), (8, 16)),
    "attention": lambda: Net(Attention(), (2, 2, 4, 8)),
    "LSTM": lambda: Net(nn.LSTM(16, 16), (4, 2, 16)),
    "GRU": lambda: Net(nn.GRU(16, 16), (4, 2, 16)),
    "repeated": lambda: Net(Repeated(), (8, 16)),
}


def data(number: int) -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(number))


def loss_of(output: torch.Tensor) -> torch.Tensor:
    return output.float().square().mean()


Found = list[torch.Tensor]


def train(
    model: nn.Module,
    step: Callable[[torch.Tensor, Any], torch.Tensor],
    infer: Callable[[torch.Tensor], torch.Tensor],
    loop: str,
) -> Found:
    """Everything that a loop of three steps leaves. step: adds to the gradients, and returns the loss, with the scale
    of a GradScaler."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1, enabled=loop == "scaled")
    scaler.scale(torch.zeros(()))  # Makes the scale.
    found: Found = []
    for number in range(STEPS):
        for part in range(2 if loop == "accumulated" else 1):
            found.append(step(data(2 * number + part), scaler))
        if loop == "clipped":
            found.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        found += [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if loop == "evaluated":
            model.eval()
            with torch.no_grad():
                found.append(infer(data(99)))
            model.train()
    return [*found, *(tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers()))]


def in_eager(model: nn.Module, loop: str, call: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Found:
    """The loop with what calls the module; the module itself by default."""
    called = model if call is None else call

    def step(x: torch.Tensor, scaler: Any) -> torch.Tensor:
        with half():
            loss = scaler.scale(loss_of(called(x)))
        loss.backward()
        return loss.detach()

    def infer(x: torch.Tensor) -> torch.Tensor:
        with half():
            return called(x)

    return train(model, step, infer, loop)


def through_backend(model: nn.Module, loop: str, name: str = "placewright") -> Found:
    options = QUICK if name == "placewright" else None
    with BACKWARD_OUTSIDE:
        return in_eager(model, loop, torch.compile(model, backend=name, options=options))


def as_compiled(model: nn.Module, loop: str) -> Found:
    scalers: list[Any] = []

    def loss(output: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = scalers[0].scale(loss_of(output))
        return scaled

    planned: list[Any] = []

    def step(x: torch.Tensor, scaler: Any) -> torch.Tensor:
        scalers[:] = [scaler]
        with half():
            if not planned:
                planned.append(placewright.compile(model, x, training=True, loss=loss, **QUICK))
            result: torch.Tensor = planned[0](x)
        return result

    def infer(x: torch.Tensor) -> torch.Tensor:
        with half():
            if len(planned) == 1:
                planned.append(placewright.compile(model, x, **QUICK))
            result: torch.Tensor = planned[1](x)
        return result

    found = train(model, step, infer, loop)
    for each in planned:
        each.close()
    return found


def model_of(name: str) -> Net:
    torch.manual_seed(0)
    return LAYERS[name]()


def assert_same(found: Found, wanted: Found) -> None:
    assert len(found) == len(wanted)
    for tensor, other in zip(found, wanted, strict=True):
        assert tensor.dtype == other.dtype
        assert torch.equal(tensor, other)


LOOPS = ("accumulated", "clipped", "scaled", "evaluated")
#: Each layer and each loop at least once in every run of the tests.
OFTEN = {*zip(LAYERS, LOOPS * 3, strict=False), ("layer norm", "evaluated"), ("batch norm 2d", "scaled")}
MATRIX = [
    pytest.param(name, loop, marks=() if (name, loop) in OFTEN else pytest.mark.long)
    for name in LAYERS
    for loop in LOOPS
]


@pytest.mark.parametrize(("name", "loop"), MATRIX)
def test_the_backend_trains_as_eager_does(name: str, loop: str) -> None:
    assert_same(through_backend(model_of(name), loop), in_eager(model_of(name), loop))


@pytest.mark.parametrize(("name", "loop"), MATRIX)
def test_a_compiled_module_trains_as_eager_does(name: str, loop: str) -> None:
    if name in ("LSTM", "GRU"):
        # Eager runs one kernel; PyTorch traces the ops of every time step.
        with torch._dynamo.config.patch(allow_rnn=True):
            wanted = through_backend(model_of(name), loop, "aot_eager")
    else:
        wanted = in_eager(model_of(name), loop)
    assert_same(as_compiled(model_of(name), loop), wanted)


class Block(nn.Module):
    """A few parts in turn, each with what it got added to what it returns."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        parts: list[Callable[[], nn.Module]] = [
            lambda: nn.Linear(16, 16),
            lambda: nn.LayerNorm(16),
            lambda: nn.RMSNorm(16),
            lambda: nn.BatchNorm1d(16),
            lambda: nn.GroupNorm(4, 16),
            lambda: nn.Dropout(0.5),
            lambda: nn.RReLU(),
            lambda: nn.Tanh(),
            lambda: nn.GELU(),
        ]
        self.parts = nn.ModuleList(draw.choice(parts)() for _ in range(draw.randint(2, 4)))
        self.heads = draw.choice((0, 0, 2, 4))
        self.dropped = draw.choice((0.0, 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = x + part(x)
        if self.heads:
            split = x.view(1, x.shape[0], self.heads, -1).transpose(1, 2)
            mixed = functional.scaled_dot_product_attention(split, split, split, dropout_p=self.dropped)
            x = x + mixed.transpose(1, 2).reshape(x.shape)
        return x


class Blocks(nn.Module):
    """Blocks drawn from a seed, some of which are checkpoints or computed without autocast."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.blocks = nn.ModuleList(Block(draw) for _ in range(draw.randint(1, 3)))
        self.kinds = [draw.choice(("plain", "checkpoint", "checkpoint", "full precision")) for _ in self.blocks]
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for kind, block in zip(self.kinds, self.blocks, strict=True):
            if kind == "checkpoint":
                x = checkpoint(block, x, use_reentrant=False)
            elif kind == "full precision":
                with torch.autocast("cpu", enabled=False):
                    x = block(x.float())
            else:
                x = block(x)
        result: torch.Tensor = self.out(x)
        return result


def steps_of(model: nn.Module, call: Callable[[torch.Tensor], torch.Tensor], *, autocast: bool) -> Found:
    """Two steps of eight rows and one of six, with what is left after them."""
    found: Found = []
    torch.manual_seed(7)
    for number, rows in enumerate((8, 8, 6)):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            result = call(data(number)[:rows])
        loss_of(result).backward()
        found.append(result.detach())
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [*found, *gradients, *model.buffers(), torch.get_rng_state()]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("seed", [0, 5, 8, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(9, 40))])
def test_random_blocks_train_as_they_are_traced(seed: int, autocast: bool) -> None:
    """Eager updates the statistics of a checkpointed batch norm twice, and has other last bits where it casts. All that
    is dropped is a half, so that every formula of dropout gives the same bits."""
    model, reference = Blocks(seed), Blocks(seed)
    call = torch.compile(model, backend="placewright", options=QUICK)
    found = steps_of(model, call, autocast=autocast)
    torch.compiler.reset()
    traced = torch.compile(reference, backend="aot_eager")
    with BACKWARD_OUTSIDE:
        assert_same(found, steps_of(reference, traced, autocast=autocast))
