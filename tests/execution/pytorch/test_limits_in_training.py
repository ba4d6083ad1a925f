"""Training steps within a memory limit: what PyTorch's allocator hands out stays within it, and loss, gradients,
buffers, parameters and draws are those of eager, to the last bit."""

from __future__ import annotations

import copy
import gc
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from acts import todo
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

import placewright
from placewright.analysis.outcome import limit_words
from placewright.execution.pytorch import profile as profiling
from placewright.execution.pytorch.memory import allocated_peak
from placewright.execution.pytorch.optimizer_memory import optimizer_memory
from placewright.support.errors import InputError
from placewright.support.torch_threads import torch_threads

pytestmark = pytest.mark.heavy
ROWS, COLUMNS = 64, 16
#: Losses, their gradients and steps of optimizers are numbers, which plans do not count.
NUMBERS = 256
torch.library.register_autograd("placewright_tests::act", lambda _, gradient: gradient.clone())


@pytest.fixture(autouse=True)
def _ops_timed_once_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(profiling, "_PASSES_NS", 0)
    monkeypatch.setattr(profiling, "_MIN_PASSES", 1)
    with torch_threads(1):
        yield


class Attention(nn.Module):
    """Rows attend to each other in groups of eight, in heads that are views."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(COLUMNS, 3 * COLUMNS)

    def forward(self, x: Any) -> Any:
        q, k, v = (each.reshape(-1, 8, 4, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        scores = torch.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.1, self.training)
        return (scores @ v).transpose(1, 2).reshape(x.shape)


class Half(nn.Module):
    """A product in bfloat16, by an autocast of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(COLUMNS, COLUMNS)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(x).float()


class Counting(nn.Module):
    """Scales by how often it was called in training, which a buffer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.ones(()))

    def forward(self, x: Any) -> Any:
        if self.training:
            self.calls += 1
        return x / self.calls.clone()


PARTS: list[Callable[[], nn.Module]] = [
    lambda: nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh()),
    lambda: nn.Sequential(nn.Linear(COLUMNS, 2 * COLUMNS), nn.GELU(), nn.Linear(2 * COLUMNS, COLUMNS)),
    lambda: nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.ReLU(inplace=True)),
    lambda: nn.BatchNorm1d(COLUMNS),
    lambda: nn.LayerNorm(COLUMNS),
    lambda: nn.Dropout(0.3),
    Attention,
    Half,
    Counting,
]


class Net(nn.Module):
    """Parts drawn from a seed, one after the other, some with a shortcut and some used twice."""

    def __init__(self, seed: int, ways: Sequence[str] = ("plain", "added", "added", "twice")) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.first = nn.Linear(COLUMNS, COLUMNS)
        self.parts = nn.ModuleList(draw.choice(PARTS)() for _ in range(6))
        self.ways = [draw.choice(ways) for _ in self.parts]
        self.last = nn.Linear(COLUMNS, 3)

    def forward(self, x: Any) -> Any:
        x = torch.sin(self.first(x))
        for part, way in zip(self.parts, self.ways, strict=True):
            found = part(part(x)) if way == "twice" else part(x)
            x = torch.tanh(found) if way == "plain" else x + found
        return self.last(x)


class Residual(nn.Module):
    """Convolutions with batch norm and shortcuts, as deep as asked for."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for _ in range(blocks)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Halves(nn.Module):
    """Is captured as two graphs, the first of which leaves much for its backward."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = (nn.ModuleList(nn.Linear(COLUMNS, COLUMNS) for _ in range(4)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for layer in self.before:
            x = torch.sin(layer(x))
        torch._dynamo.graph_break()
        for layer in self.after:
            x = torch.sin(layer(x)) + x
        return x


class PartlyEager(nn.Module):
    """PyTorch runs the loop and the normalization in eager, since it captures no part of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.BatchNorm1d(COLUMNS), nn.Dropout(), Halves()])

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


def images(number: int, rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, 3, 24, 24, generator=torch.Generator().manual_seed(number))


def batch(number: int, rows: int = ROWS) -> torch.Tensor:
    return torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(number))


#: Functions that make a module, and a batch for it.
MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]] = {
    "drawn 1": (partial(Net, 1), batch),
    "drawn 2": (partial(Net, 2), batch),
    "residual": (Residual, images),
    "two graphs": (Halves, batch),
}
OPTIMIZERS: dict[str, Callable[[Any], Optimizer] | None] = {
    "none": None,
    "momentum": partial(SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": partial(Adam, lr=0.01),
    "amsgrad": partial(AdamW, lr=0.01, amsgrad=True, foreach=True),
    "rmsprop": partial(RMSprop, lr=0.01, centered=True),
}


def square(out: Any) -> Any:
    return out.float().square().mean()


def fitted(model: nn.Module, x: Any, share: float = 0.5, **options: Any) -> tuple[Any, int]:
    """The model's step on a batch within a limit, and the limit.

    share: place of the limit between what is held before the step and the peak of eager's step; raised in steps of 0.1
    until a plan is found.
    higher up where nothing is found there.
    """
    given: dict[str, Any] = {"loss": square, "solver": "input-order", "evaluations": 20, **options}
    with placewright.fit(model, x, "1GiB", **given) as roomy:
        assert not any(plan.reruns for plan in roomy.plans)
    states = 0 if "optimizer" not in given else optimizer_memory(given["optimizer"]).state_bytes
    there = bytes_of([*model.parameters(), *model.buffers(), x])
    eager = copy.deepcopy(model)
    peak = in_use(eager, x, lambda: eager_step(eager, x, given["loss"]))
    while True:
        limit = int(states + there + share * (peak - there))
        try:
            return placewright.fit(model, x, limit, **given), limit
        except InputError:
            share += 0.1
            assert share < 1


def bytes_of(tensors: Sequence[Any]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def in_use(model: nn.Module, x: Any, call: Callable[[], Any], optimizer: Optimizer | None = None) -> int:
    """The most bytes in use in a call: of the model, its gradients, the batch and states, and what is allocated."""
    states = [] if optimizer is None else [t for state in optimizer.state.values() for t in state.values()]
    held = [*model.parameters(), *model.buffers(), *(t for t in states if isinstance(t, torch.Tensor) and t.dim())]
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    return bytes_of([*held, *gradients, x]) + allocated_peak(call)


def eager_step(model: nn.Module, x: torch.Tensor, loss: Callable[[Any], Any] = square) -> torch.Tensor:
    value: torch.Tensor = loss(model(x))
    value.backward()
    return value.detach()


def assert_alike(model: nn.Module, reference: nn.Module) -> None:
    """Parameters, gradients and buffers are equal to the last bit."""
    named = dict([*reference.named_parameters(), *reference.named_buffers()])
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        assert torch.equal(tensor, named[name]), name
        assert (tensor.grad is None) == (named[name].grad is None), name
        assert tensor.grad is None or torch.equal(tensor.grad, named[name].grad), name


def assert_same_step(step: Any, reference: nn.Module, x: Any, seed: int, loss: Callable[[Any], Any] = square) -> None:
    torch.manual_seed(seed)
    found, drawn = step(x), torch.rand(1)
    torch.manual_seed(seed)
    assert torch.equal(found, eager_step(reference, x, loss))
    assert torch.equal(drawn, torch.rand(1))


SOME = [("drawn 1", "momentum"), ("drawn 2", "adam"), ("residual", "amsgrad")]
ALL = [(name, kind) for name in MODULES for kind in OPTIMIZERS if name != "two graphs"]


@pytest.mark.parametrize("kind", ["none", "momentum"])
def test_several_graphs_keep_a_limit_together_or_a_later_one_is_refused(kind: str) -> None:
    make, share, refused = OPTIMIZERS[kind], 0.5, list[str]()
    while True:
        torch.manual_seed(0)
        model, x = Halves(), batch(0)
        own = None if make is None else make(model.parameters())
        step, limit = fitted(model, x, share, **({"optimizer": own} if own else {}))
        with step:
            try:
                step(x)
                break
            except InputError as error:
                refused.append(str(error))
                share += 0.1
    assert 0 < len(refused) < 8, "up to somewhat more than eager takes"
    assert all("earlier graphs of the module leave for their backward" in sentence for sentence in refused)
    assert len(step.plans) > 1
    assert step.peak_bytes <= limit
    model.zero_grad()
    assert in_use(model, x, lambda: step(x), own) <= limit + NUMBERS


@pytest.mark.parametrize(
    ("name", "kind"), [*SOME, *(pytest.param(*each, marks=pytest.mark.long) for each in ALL if each not in SOME)]
)
def test_a_step_stays_within_its_limit_and_is_that_of_eager(name: str, kind: str) -> None:
    build, made = MODULES[name]
    x = made(0)
    torch.manual_seed(0)
    model, make = build(), OPTIMIZERS[kind]
    reference = copy.deepcopy(model)
    own, theirs = (None, None) if make is None else (make(model.parameters()), make(reference.parameters()))
    step, limit = fitted(model, x, 0.5, **({"optimizer": own} if own else {}))
    with step:
        for number in range(3):
            assert_same_step(step, reference, made(number), number)
            if theirs is None:
                model.zero_grad()
                reference.zero_grad()
            else:
                theirs.step()
                theirs.zero_grad()
            assert_alike(model, reference)
        assert in_use(model, x, lambda: step(x), own) <= limit + NUMBERS
        assert any(plan.reruns for plan in step.plans)
        assert max(plan.peak_bytes[0] for plan in step.plans) <= limit
        assert len(step._variants) == 1, "calls that find no gradients are planned once"


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 25))])
def test_drawn_networks_need_what_is_planned(seed: int) -> None:
    model, reference, x = Net(seed), Net(seed), batch(0)
    step, _ = fitted(model, x, 0.4)
    with step:
        for number in range(2):
            assert_same_step(step, reference, batch(number), number)
            assert_alike(model, reference)
            model.zero_grad()
            reference.zero_grad()
        assert in_use(model, x, lambda: step(x)) <= step.plan.peak_bytes[0] + NUMBERS


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_are_there_are_added_to_and_count(set_to_none: bool) -> None:
    model, reference, x = Net(1), Net(1), batch(0)
    optimizers = [SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, reference)]
    step, limit = fitted(model, x, 0.9)
    with step:
        for number in range(6):
            assert_same_step(step, reference, batch(number), number)
            assert_alike(model, reference)
            if number % 3 == 2:
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=set_to_none)
        assert step.plan.reruns
        assert in_use(model, x, lambda: step(x)) <= limit + NUMBERS


def test_gradients_that_leave_no_room_are_named_before_anything_runs() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.ReLU()))), torch.randn(8, 64)
    with placewright.fit(model, x, "1GiB", loss=square) as roomy:
        limit = roomy.plan.peak_bytes[0]
    with placewright.fit(model, x, limit, loss=square) as step:
        step(x)
        before = copy.deepcopy([parameter.grad for parameter in model.parameters()])
        words = (
            r"missing on cpu:0.*; 65\.0 KiB of .*gradients that are there count, too; split=True may run ops in parts$"
        )
        with pytest.raises(InputError, match=words):
            step(x)
        assert all(torch.equal(own.grad, was) for own, was in zip(model.parameters(), before, strict=True))
        model.zero_grad()
        step(x)


def test_other_batches_are_planned_anew_and_larger_ones_refused_where_they_do_not_fit() -> None:
    model, reference = Net(1), Net(1)
    step, limit = fitted(model, batch(0), 0.3)
    with step:
        for number, rows in enumerate((ROWS, 24, ROWS)):
            assert_same_step(step, reference, batch(number, rows), number)
            assert_alike(model, reference)
            assert step.plan.peak_bytes[0] <= limit
            model.zero_grad()
            reference.zero_grad()
        with pytest.raises(InputError, match=r"^no plan (can fit|was found that fits): .* missing on cpu:0"):
            step(batch(0, 8 * ROWS))
        assert_same_step(step, reference, batch(0), 9)
        assert_alike(model, reference)


def test_a_dropout_keeps_what_eager_keeps_however_its_argument_lies() -> None:
    """Eager draws in the order of the tensor's memory. In a vision transformer the tensor is transposed."""

    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(COLUMNS, COLUMNS)

        def forward(self, x: Any) -> Any:
            return torch.dropout(self.linear(x).unflatten(0, (4, -1)).transpose(0, 1), 0.5, train=True).square().mean()

    model, x = Transposed(), torch.randn(ROWS, COLUMNS)
    eager = copy.deepcopy(model)
    step = placewright.fit(model, x, "1GiB", verify=False)
    torch.manual_seed(0)
    step(x)
    torch.manual_seed(0)
    eager(x).backward()
    for one, other in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_what_numpy_draws_in_forward_is_what_eager_draws() -> None:
    """Wav2vec2 masks its input like this. PyTorch would take numbers of its own generator instead."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(COLUMNS, COLUMNS)

        def forward(self, x: Any) -> Any:
            return (self.linear(x) * torch.as_tensor(np.random.uniform(size=COLUMNS))).square().mean()

    model, x = Masked(), torch.randn(ROWS, COLUMNS)
    eager = copy.deepcopy(model)
    step = placewright.fit(model, x, "1GiB")
    losses = []
    for call in (step, eager):
        np.random.seed(0)
        losses.append([float(call(x)) for _ in range(3)])
    assert losses[0] == losses[1]


def test_autocast_around_the_call_is_that_of_eager() -> None:
    # Eager casts a layer that is used twice once.
    model, reference, x = Net(5, ("plain", "added")), Net(5, ("plain", "added")), batch(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step, limit = fitted(model, x, 0.6)
        for number in range(2):
            assert_same_step(step, reference, batch(number), number)
            assert_alike(model, reference)
            model.zero_grad()
            reference.zero_grad()
        assert step.plan.reruns
        assert in_use(model, x, lambda: step(x)) <= limit + NUMBERS
    step.close()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda step: pickle.loads(pickle.dumps(step))])
def test_a_copy_of_a_step_trains_on_its_own_within_the_limit(copied: Callable[[Any], Any]) -> None:
    model, reference = Net(1), Net(1)
    step, limit = fitted(model, batch(0))
    with step, copied(step) as other:
        assert_same_step(other, reference, batch(0), 0)
        assert other.plan.reruns
        assert all(parameter.grad is None for parameter in model.parameters())
        for mine, wanted in zip(other.parameters(), reference.parameters(), strict=True):
            assert torch.equal(mine.grad, wanted.grad)
        assert other.plan.peak_bytes[0] <= limit


class Acting(nn.Module):
    """Layers around an op that does something else on request."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = (nn.ModuleList(nn.Linear(COLUMNS, COLUMNS) for _ in range(3)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for layer in self.before:
            x = torch.tanh(layer(x))
        x = torch.ops.placewright_tests.act(x)
        for layer in self.after:
            x = nn.functional.dropout(torch.tanh(layer(x)), 0.2)
        return x


def live_bytes() -> int:
    """Count the bytes of all tensors that anything holds."""
    gc.collect()
    return bytes_of([each for each in gc.get_objects() if type(each) in (torch.Tensor, nn.Parameter)])


@pytest.mark.parametrize("error", [RuntimeError("no more"), KeyboardInterrupt()], ids=["an error", "Ctrl-C"])
def test_a_step_that_ends_half_way_holds_nothing_and_the_next_one_is_right(error: BaseException) -> None:
    torch.manual_seed(0)
    model = Acting()
    reference = copy.deepcopy(model)

    def fail() -> None:
        raise error

    step, _ = fitted(model, batch(0))
    with step:
        step(batch(0))
        model.zero_grad()
        before = live_bytes()
        for _ in range(2):
            todo[:] = [fail]
            try:
                step(batch(0))
            except type(error):
                pass
            else:
                pytest.fail("the op did not raise")
            error.__traceback__ = error.__context__ = None
            assert live_bytes() <= before
            assert all(parameter.grad is None for parameter in model.parameters())
        assert_same_step(step, reference, batch(0), 0)
        assert_alike(model, reference)


def test_planning_changes_nothing_where_some_of_the_module_runs_in_eager() -> None:
    model = PartlyEager()
    before, state = copy.deepcopy(model), torch.get_rng_state()
    placewright.fit(model, batch(0), "1GiB", loss=square).close()
    assert_alike(model, before)
    assert torch.equal(torch.get_rng_state(), state)


LIMITS: dict[Any, str] = {
    -1: r"memory_limit is -1; it must be a whole number from 0 to \d+",
    float("nan"): r"memory_limit is nan; it must be a whole number",
    True: r"memory_limit is True; it must be a whole number",
    None: r"memory_limit is None; it must be bytes or a size like '8GiB'",
    "abc": r"size 'abc' is not understood; write it like 10GiB or 80GB",
    "8 apples": r"size '8 apples' has the unknown unit 'apples'",
    "9999999999PiB": r"size '9999999999PiB' is too large",
}


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_limits_that_are_none_are_refused_in_a_sentence(limit: Any) -> None:
    refused: list[Callable[[], Any]] = [
        lambda: placewright.fit(Net(1), batch(0), limit),
        lambda: placewright.fit(Net(1), memory_limit=limit, backend="inductor"),
    ]
    if limit is not None:
        refused.append(
            lambda: placewright.compile(Net(1), batch(0), devices="cpu:0", training=True, memory_limit=limit)
        )
    for make in refused:
        with pytest.raises(InputError, match=f"^{LIMITS[limit]}"):
            make()


def test_a_limit_above_the_peak_changes_nothing_and_the_plan_says_so() -> None:
    model, reference = Net(2), Net(2)
    with placewright.fit(model, batch(0), "8 GiB", loss=square) as step:
        assert step.plan.reruns == ()
        assert limit_words(step.plan).startswith("the memory limit changes nothing: the captured order needs ")
        assert_same_step(step, reference, batch(0), 0)
    assert_alike(model, reference)


@pytest.mark.parametrize("limit", [0, "1KiB"])
def test_a_limit_below_the_largest_op_is_refused_before_anything_runs(limit: Any) -> None:
    model = Net(1)
    before = copy.deepcopy(model)
    ways: list[dict[str, Any]] = [{"training": True, "loss": square}, {}]
    for how in ways:
        torch.manual_seed(3)
        with pytest.raises(InputError, match=r"no plan (can fit|was found that fits): .* missing on cpu:0; every plan"):
            placewright.compile(model, batch(0), devices="cpu:0", memory_limit=limit, **how)
        drawn = torch.rand(1)
        torch.manual_seed(3)
        assert torch.equal(drawn, torch.rand(1))
        assert_alike(model, before)
    with pytest.raises(InputError, match=r"the optimizer's step needs at least .*, and the limit is"):
        placewright.fit(model, batch(0), limit, optimizer=Adam(model.parameters()))


def test_a_plan_over_its_limit_runs_where_it_is_given() -> None:
    model, x = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh()), batch(0)
    over = placewright.plan(copy.deepcopy(model), "cpu", args=x, memory_limit=1)
    assert over.status == "infeasible"
    with placewright.compile(model, x, devices="cpu:0", plan=over) as compiled, torch.no_grad():
        assert torch.equal(compiled(x), model(x))


def test_the_backend_of_torch_compile_keeps_a_limit_or_refuses() -> None:
    torch.compiler.reset()
    model, reference, x = Net(1), Net(1), batch(0)
    step, limit = fitted(copy.deepcopy(model), x)
    step.close()

    def compiled(limit: Any) -> Any:
        options = {"devices": "cpu:0", "memory_limit": limit, "solver": "input-order"}
        return torch.compile(model, backend="placewright", options=options)

    with pytest.raises(InputError, match="missing on cpu:0"):
        compiled("1KiB")(x)
    torch.compiler.reset()
    call = compiled(limit)
    assert_same_step(partial(eager_step, call), reference, x, 0)
    assert_alike(model, reference)
    model.zero_grad()
    assert in_use(model, x, lambda: eager_step(call, x)) <= limit + NUMBERS


@pytest.mark.parametrize(
    "make",
    [
        *(partial(SGD, lr=0.1), partial(SGD, lr=0.1, momentum=0.9), Adam, partial(Adam, amsgrad=True)),
        *(partial(AdamW, foreach=True), partial(Adam, fused=True), Adagrad, partial(RMSprop, centered=True)),
        *(torch.optim.Adafactor, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.ASGD),
    ],
    ids=lambda make: f"{getattr(make, 'func', make).__name__} {getattr(make, 'keywords', '')}",
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_an_optimizer_holds_and_takes_is_known_before_its_first_step(
    make: Callable[..., Optimizer], dtype: torch.dtype
) -> None:
    model = nn.Sequential(nn.Linear(64, 32, dtype=dtype), nn.Linear(32, 64, dtype=dtype))
    optimizer = make(model.parameters())
    found = optimizer_memory(optimizer)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    missing = found.state_bytes - bytes_of([t for s in optimizer.state.values() for t in s.values() if t.dim()])
    assert allocated_peak(optimizer.step) <= missing + found.step_bytes + NUMBERS
    kept = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.dim()]
    assert found.state_bytes == bytes_of(kept)
    assert allocated_peak(optimizer.step) <= found.step_bytes + NUMBERS
