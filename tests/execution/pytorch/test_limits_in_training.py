"""Training loops whose steps run ops again under a memory limit leave what the same loops leave in eager.

With the own executor (`placewright.fit`) bit by bit; with Inductor and `DistributedDataParallel` see
test_limits_with_inductor.py.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import random
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from acts import todo
from torch import nn

import placewright
from placewright.analysis.outcome import limit_words
from placewright.costs.traffic import count_bytes
from placewright.execution.pytorch import profile as profiling
from placewright.execution.pytorch.accumulation import found_gradients
from placewright.execution.pytorch.program import make_program
from placewright.support.errors import InputError

pytestmark = pytest.mark.heavy
ROWS, COLUMNS = 64, 16
torch.library.register_autograd("placewright_tests::act", lambda _, gradient: gradient.clone())


@pytest.fixture(autouse=True)
def _ops_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "_PASSES_NS", 0)
    monkeypatch.setattr(profiling, "_MIN_PASSES", 1)


class Attention(nn.Module):
    """Rows attend to each other in groups of eight, in heads that are views."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(COLUMNS, 3 * COLUMNS)

    def forward(self, x: Any) -> Any:
        heads = (each.reshape(-1, 8, 4, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        q, k, v = heads
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

    def __init__(self, seed: int, depth: int = 6, ways: Sequence[str] = ("plain", "added", "added", "twice")) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.first = nn.Linear(COLUMNS, COLUMNS)
        self.parts = nn.ModuleList(draw.choice(PARTS)() for _ in range(depth))
        self.ways = [draw.choice(ways) for _ in self.parts]
        self.last = nn.Linear(COLUMNS, 3)

    def forward(self, x: Any) -> Any:
        x = torch.sin(self.first(x))
        for part, way in zip(self.parts, self.ways, strict=True):
            found = part(part(x)) if way == "twice" else part(x)
            x = torch.tanh(found) if way == "plain" else x + found
        return self.last(x)


def square(out: Any) -> Any:
    return out.float().square().mean()


def batch(number: int, rows: int = ROWS) -> torch.Tensor:
    return torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(number))


def fitted(model: nn.Module, share: float = 0.35, **options: Any) -> Any:
    """The model's step on a batch, within a limit that makes ops run again.

    share: where the limit lies, between the least that is found and what each op running once takes; higher up where
    nothing is found there.
    """
    given: dict[str, Any] = {"loss": square, "solver": "input-order", **options}
    with placewright.fit(copy.deepcopy(model), batch(0), "1GiB", **{**given, "optimizer": None}) as roomy:
        assert roomy.plan.reruns == ()
        (made,) = roomy._made.values()
        peak, machine = roomy.plan.peak_bytes[0], roomy.plan.machine
    least = placewright.plan(made.graph, machine, memory_limit=1, solver="input-order").peak_bytes[0]
    if least >= peak:  # What comes nearest to so low a limit may run nothing again.
        least = peak // 3
    states = 0
    if "optimizer" in given:
        step = placewright.compile(model, batch(0), devices="cpu:0", training=True, **given)
        step.close()
        states = step.plan.peak_bytes[0] - peak
    while True:
        try:
            step = placewright.fit(model, batch(0), int(states + least + share * (peak - least)), **given)
        except InputError:
            share += 0.2
            continue
        assert step.plan.reruns
        return step


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


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}
OFTEN = ((1, "momentum"), (2, "adam"))
SEEDS = [*OFTEN, *(pytest.param(n, ("momentum", "adam")[n % 2], marks=pytest.mark.long) for n in range(3, 43))]


@pytest.mark.parametrize(("seed", "kind"), SEEDS)
@pytest.mark.parametrize("planned", [False, True], ids=["stepped outside", "planned"])
def test_an_optimizer_makes_the_steps_that_it_makes_in_eager(seed: int, kind: str, planned: bool) -> None:
    model, reference = Net(seed), Net(seed)
    own, theirs = OPTIMIZERS[kind](model.parameters()), OPTIMIZERS[kind](reference.parameters())
    with fitted(model, optimizer=own) if planned else fitted(model) as step:
        for number in range(4):
            torch.manual_seed(number)
            loss, drawn = step(batch(number)), torch.rand(1)
            torch.manual_seed(number)
            assert torch.equal(loss, eager_step(reference, batch(number)))
            assert torch.equal(drawn, torch.rand(1))
            if not planned:
                assert_alike(model, reference)
                own.step()
                own.zero_grad()
            theirs.step()
            theirs.zero_grad()
            assert_alike(model, reference)
        assert step.plan.reruns
        assert len(step._made) == 1


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 26))])
def test_autocast_around_the_call_and_a_scaled_loss_are_those_of_eager(seed: int) -> None:
    # Eager casts a layer that is used twice once.
    model, reference = (Net(seed, ways=("plain", "added")) for _ in range(2))
    scalers = [torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1) for _ in range(2)]
    scaler, theirs = scalers
    for each in scalers:
        each.scale(torch.zeros(()))  # Makes the scale.
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, reference)]

    def scaled(by: Any) -> Callable[[Any], Any]:
        return lambda out: by.scale(square(out))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = fitted(model, loss=scaled(scaler))
    with step:
        for number in range(3):
            torch.manual_seed(number)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = step(batch(number))
            torch.manual_seed(number)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                wanted = scaled(theirs)(reference(batch(number)))
            wanted.backward()
            assert torch.equal(loss, wanted)
            assert_alike(model, reference)
            for each, optimizer in zip(scalers, optimizers, strict=True):
                each.unscale_(optimizer)
                nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.5)
                each.step(optimizer)
                each.update()
                optimizer.zero_grad()
            assert_alike(model, reference)
        assert scaler.get_scale() == theirs.get_scale() > 4
        assert step.plan.reruns


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(50, 60))])
def test_accumulated_gradients_are_those_of_eager_and_count_towards_the_limit(seed: int, set_to_none: bool) -> None:
    model, reference = Net(seed), Net(seed)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, reference)]

    def third(out: Any) -> Any:
        return square(out) / 3

    share = 0.8  # Of a small network the gradients are a large part.
    with fitted(model, share, loss=third) as step:
        limit = step.plan.memory_limits_bytes[0]
        for number in range(6):
            torch.manual_seed(number)
            loss = step(batch(number))
            torch.manual_seed(number)
            assert torch.equal(loss, eager_step(reference, batch(number), third))
            assert_alike(model, reference)
            if number % 3 == 2:
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=set_to_none)
        held = sum(parameter.nbytes for parameter in model.parameters())
        assert [found.num_bytes for *_, found in step._made] == [0, held]
        step(batch(6))
        for made in step._made.values():
            assert made.module.step.plan.reruns
            assert made.module.step.peak_bytes(made.module.parameters.now(), [batch(0)]) <= limit


def layers() -> nn.Module:
    """Gradients of 67 KB, of which one is made at a time, beside activations of 2 KB."""
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())))


def test_each_gradient_is_added_when_it_is_made_and_two_sets_are_never_held() -> None:
    model, reference, x = layers(), layers(), torch.randn(8, 64)
    held = sum(parameter.nbytes for parameter in model.parameters())
    layer = 64 * 65 * 4
    with placewright.fit(model, x, 2 * held + 2 * layer, loss=square, solver="input-order") as step:
        step(x)
        eager_step(reference, x)
        there = [parameter.grad for parameter in model.parameters()]
        for _ in range(2):
            assert torch.equal(step(x), eager_step(reference, x))
            assert_alike(model, reference)
        assert all(parameter.grad is one for parameter, one in zip(model.parameters(), there, strict=True))
        (_, made) = step._made.values()
        # Parameters and their gradients, a gradient that is made, and three to five activations: less than three sets.
        assert 2 * held + layer < step.plan.peak_bytes[0] < 2 * held + 2 * layer
        assert made.module.step.peak_bytes(made.module.parameters.now(), [x]) == step.plan.peak_bytes[0]
        kept = [weakref.ref(each) for each in there]
        del there
        model.zero_grad()
        assert not any(each() is not None for each in kept), "a step holds no gradient that its caller has dropped"


def _flat(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    """Parts of one memory, as of trainers that sum over processes."""
    flat = torch.cat([each.flatten() for each in gradients])
    parts = flat.split([each.numel() for each in gradients])
    return [part.view_as(each) for part, each in zip(parts, gradients, strict=True)]


CHANGES: dict[str, Callable[[list[torch.Tensor]], list[torch.Tensor]]] = {
    "in one memory": _flat,
    "laid out otherwise": lambda gradients: [each.t().contiguous().t() for each in gradients],
    "with a gradient": lambda gradients: [each.requires_grad_() for each in gradients],
    "sparse": lambda gradients: [gradients[0].to_sparse(), *gradients[1:]],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_gradient_that_no_op_may_write_to_is_added_to_at_the_end(name: str) -> None:
    model, reference, x = layers(), layers(), torch.randn(8, 64)
    for each in (model, reference):
        eager_step(each, x)
        gradients = CHANGES[name]([parameter.grad.clone() for parameter in each.parameters()])
        for parameter, gradient in zip(each.parameters(), gradients, strict=True):
            parameter.grad = gradient
    assert "0.weight" not in found_gradients(model, [x], None).addable
    with placewright.fit(model, x, "1GiB", loss=square, solver="input-order") as step:
        assert torch.equal(step(x), eager_step(reference, x))
        assert_alike(model, reference)


def test_a_gradient_of_two_parameters_is_written_to_by_no_op() -> None:
    model, x = layers(), torch.randn(8, 64)
    eager_step(model, x)
    model[0].weight.grad = model[2].weight.grad
    found = found_gradients(model, [x], None)
    assert not {"0.weight", "2.weight"} & set(found.addable)
    assert found.num_bytes == sum(parameter.nbytes for parameter in model.parameters())


def test_gradients_that_leave_no_room_are_named_before_anything_runs() -> None:
    model, x = layers(), torch.randn(8, 64)
    with placewright.fit(model, x, "1GiB", loss=square) as roomy:
        limit = roomy.plan.peak_bytes[0]
    with placewright.fit(model, x, limit, loss=square) as step:
        step(x)
        before = [parameter.grad.clone() for parameter in model.parameters()]
        with pytest.raises(InputError, match=r"missing on cpu:0.*; 65\.0 KiB of gradients that are there before count"):
            step(x)
        assert all(torch.equal(own.grad, was) for own, was in zip(model.parameters(), before, strict=True))
        model.zero_grad()
        step(x)


def test_a_plan_with_room_for_the_gradients_that_are_there_is_taken_again() -> None:
    with placewright.fit(Net(1), batch(0), "1GiB", loss=square) as step:
        for _ in range(2):
            step(batch(0))
        assert len(set(map(id, step._made.values()))) == 1


def test_the_last_smaller_batch_is_planned_anew_and_a_larger_one_refused_where_it_does_not_fit() -> None:
    model, reference = Net(1), Net(1)
    with fitted(model, 0.1) as step:
        limit = step.plan.memory_limits_bytes[0]
        for number, rows in enumerate((ROWS, ROWS, 24, ROWS, 24)):
            model.zero_grad()
            reference.zero_grad()
            torch.manual_seed(number)
            loss = step(batch(number, rows))
            torch.manual_seed(number)
            assert torch.equal(loss, eager_step(reference, batch(number, rows)))
            assert_alike(model, reference)
            assert step.plan.peak_bytes[0] <= limit
            assert step.plan.reruns or rows < ROWS
        assert len(step._made) == 2
        model.zero_grad()
        reference.zero_grad()
        torch.manual_seed(9)
        with pytest.raises(InputError, match=r"^no plan (can fit|was found that fits): .* missing on cpu:0"):
            step(batch(0, 8 * ROWS))
        assert_alike(model, reference)
        loss = step(batch(0))
        torch.manual_seed(9)
        assert torch.equal(loss, eager_step(reference, batch(0)))
        assert_alike(model, reference)


def test_validation_between_steps_is_the_modules_and_a_step_there_is_refused() -> None:
    model, reference = Net(1), Net(1)
    with fitted(model) as step:
        for number in range(2):
            for each in (model, reference):
                each.zero_grad()
            torch.manual_seed(number)
            loss = step(batch(number))
            torch.manual_seed(number)
            assert torch.equal(loss, eager_step(reference, batch(number)))
            before = copy.deepcopy(model)
            before.zero_grad()
            for parameter, copied in zip(model.parameters(), before.parameters(), strict=True):
                copied.grad = None if parameter.grad is None else parameter.grad.clone()
            with torch.no_grad(), pytest.raises(InputError, match="is a training step, and gradients are switched off"):
                step(batch(number))
            assert step.eval() is step
            reference.eval()
            with pytest.raises(InputError, match="the module is in evaluation mode by now, and a call"):
                step(batch(number))
            assert_alike(model, before)
            with torch.no_grad():
                assert torch.equal(model(batch(7)), reference(batch(7)))
            step.train()
            reference.train()
        assert step.plan.reruns


def test_a_module_that_was_in_evaluation_when_it_was_planned_is_trained() -> None:
    model, reference = Net(2).eval(), Net(2)
    with fitted(model) as step:
        torch.manual_seed(0)
        loss = step(batch(0))
        assert not model.training
        torch.manual_seed(0)
        assert torch.equal(loss, eager_step(reference, batch(0)))


def test_a_checkpoint_from_the_middle_goes_on_as_if_nobody_had_stopped() -> None:
    model, reference = Net(2), Net(2)
    own, theirs = OPTIMIZERS["adam"](model.parameters()), OPTIMIZERS["adam"](reference.parameters())
    file = io.BytesIO()

    def run(step: Any, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for number in numbers:
            torch.manual_seed(number)
            step(batch(number))
            optimizer.step()
            optimizer.zero_grad()

    run(lambda x: eager_step(reference, x), theirs, range(4))
    with fitted(model) as step:
        run(step, own, range(2))
        torch.save({"model": step.state_dict(), "optimizer": own.state_dict()}, file)
        run(step, own, range(2, 4))
        assert_alike(model, reference)
        # Back to the middle, in the same step.
        read = torch.load(io.BytesIO(file.getvalue()))
        step.load_state_dict(read["model"])
        own.load_state_dict(read["optimizer"])
        run(step, own, range(2, 4))
        assert_alike(model, reference)
    other = Net(2)
    with torch.no_grad():
        other.first.weight.zero_()
    resumed = OPTIMIZERS["adam"](other.parameters())
    with fitted(other) as step:
        read = torch.load(io.BytesIO(file.getvalue()))  # An optimizer takes what it is given as its own.
        step.load_state_dict(read["model"])
        resumed.load_state_dict(read["optimizer"])
        run(step, resumed, range(2, 4))
    assert_alike(other, reference)


def pickled(step: Any) -> Any:
    return pickle.loads(pickle.dumps(step))


def saved(step: Any) -> Any:
    file = io.BytesIO()
    torch.save(step, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, saved, pytest.param(pickled, marks=pytest.mark.long)])
def test_a_copy_of_a_step_knows_its_plan_and_trains_on_its_own(copied: Callable[[Any], Any]) -> None:
    model, reference = Net(1), Net(1)
    with fitted(model) as step, copied(step) as other:
        assert other.plan == step.plan
        assert other.num_compiled_regions == 0
        torch.manual_seed(0)
        found = other(batch(0))
        assert other.plan.reruns
        assert all(parameter.grad is None for parameter in model.parameters())
        torch.manual_seed(0)
        assert torch.equal(found, eager_step(reference, batch(0)))
        gradients = [parameter.grad for parameter in other.parameters()]
        for mine, wanted in zip(gradients, reference.parameters(), strict=True):
            assert torch.equal(mine, wanted.grad)


class Acting(nn.Module):
    """Layers around an op that does something else when it is told to, which runs again."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(COLUMNS, COLUMNS) for _ in range(3))
        self.after = nn.ModuleList(nn.Linear(COLUMNS, COLUMNS) for _ in range(3))

    def forward(self, x: Any) -> Any:
        for layer in self.before:
            x = torch.tanh(layer(x))
        x = torch.ops.placewright_tests.act(x)
        for layer in self.after:
            x = torch.nn.functional.dropout(torch.tanh(layer(x)), 0.2)
        return x


def live_bytes() -> int:
    """Of all tensors that anything holds."""
    gc.collect()
    held = [each.untyped_storage() for each in gc.get_objects() if type(each) in (torch.Tensor, nn.Parameter)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in held}.values())


@pytest.mark.parametrize("error", [RuntimeError("no more"), KeyboardInterrupt()], ids=["an error", "Ctrl-C"])
def test_a_step_that_ends_half_way_holds_nothing_and_the_next_one_is_right(error: BaseException) -> None:
    torch.manual_seed(0)
    model = Acting()
    reference = copy.deepcopy(model)
    made: list[int] = []

    def fail() -> None:
        made.append(live_bytes())
        raise error

    with fitted(model) as step:
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
            assert live_bytes() == before
            assert all(parameter.grad is None for parameter in model.parameters())
        assert min(made) > before
        for number in range(2):
            torch.manual_seed(number)
            loss = step(batch(number))
            torch.manual_seed(number)
            assert torch.equal(loss, eager_step(reference, batch(number)))
        assert_alike(model, reference)


LIMITS: dict[Any, str] = {
    -1: r"memory_limit is -1; it must be a whole number from 0 to \d+",
    float("nan"): r"memory_limit is nan; it must be a whole number",
    float("inf"): r"memory_limit is inf; it must be a whole number",
    1.5: r"memory_limit is 1.5; it must be a whole number",
    True: r"memory_limit is True; it must be a whole number",
    None: r"memory_limit is None; it must be bytes or a size like '8GiB'",
    "abc": r"size 'abc' is not understood; write it like 10GiB or 80GB",
    "": r"size '' is not understood",
    "-8GiB": r"size '-8GiB' is not understood",
    "nan": r"size 'nan' is not understood",
    "8 apples": r"size '8 apples' has the unknown unit 'apples'",
    "8Gb": r"size '8Gb' is in bits; write GB or GiB for bytes",
    "9999999999PiB": r"size '9999999999PiB' is too large",
}


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_limits_that_are_none_are_refused_in_a_sentence(limit: Any) -> None:
    refused: list[Callable[[], Any]] = [
        lambda: placewright.fit(Net(1), None, limit),
        lambda: placewright.inductor_options(memory_limit=limit),
    ]
    if limit is not None:
        refused.append(lambda: placewright.compile(Net(1), None, devices="cpu:0", training=True, memory_limit=limit))
    for make in refused:
        with pytest.raises(InputError, match=f"^{LIMITS[limit]}"):
            make()


@pytest.mark.parametrize(
    "limit", ["8 GiB", pytest.param("8GB", marks=pytest.mark.long), pytest.param(2**33, marks=pytest.mark.long)]
)
def test_a_limit_above_the_peak_changes_nothing_and_the_plan_says_so(limit: Any) -> None:
    model, reference = Net(2), Net(2)
    with placewright.fit(model, batch(0), limit, loss=square) as step:
        assert step.plan.reruns == ()
        assert limit_words(step.plan).startswith("the memory limit changes nothing: the captured order needs ")
        torch.manual_seed(0)
        loss = step(batch(0))
    torch.manual_seed(0)
    assert torch.equal(loss, eager_step(reference, batch(0)))
    assert_alike(model, reference)


@pytest.mark.parametrize("limit", [0, "1KiB"])
def test_a_limit_below_the_largest_op_is_refused_before_anything_runs(limit: Any) -> None:
    model = Net(1)
    before = copy.deepcopy(model)
    training: dict[str, Any] = {"training": True, "loss": square}
    makes: list[Callable[[], Any]] = [
        lambda: placewright.fit(model, batch(0), limit, loss=square),
        lambda: placewright.compile(model, batch(0), devices="cpu:0", memory_limit=limit, **training),
        lambda: placewright.compile(model, batch(0), devices="cpu:0", memory_limit=limit),
    ]
    for make in makes:
        torch.manual_seed(3)
        with pytest.raises(InputError, match=r"no plan (can fit|was found that fits): .* missing on cpu:0; every plan"):
            make()
        drawn = torch.rand(1)
        torch.manual_seed(3)
        assert torch.equal(drawn, torch.rand(1))
        assert_alike(model, before)


def test_a_plan_over_its_limit_runs_where_it_is_given() -> None:
    model, x = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh()), batch(0)
    over = placewright.plan(copy.deepcopy(model), "cpu", args=x, memory_limit=1)
    assert over.status == "infeasible"
    with placewright.compile(model, x, devices="cpu:0", plan=over) as compiled, torch.no_grad():
        assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("training", [False, True])
def test_the_backend_refuses_graphs_over_the_limit_and_runs_those_within(training: bool) -> None:
    torch.compiler.reset()
    model, reference = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh()), None
    reference = copy.deepcopy(model)
    options = {"devices": "cpu:0", "memory_limit": "1KiB"}
    over = torch.compile(model, backend="placewright", options=options)
    with torch.set_grad_enabled(training), pytest.raises(InputError, match="missing on cpu:0"):
        over(batch(0))
    torch.compiler.reset()
    within = torch.compile(model, backend="placewright", options={**options, "memory_limit": "1MiB"})
    with torch.set_grad_enabled(training):
        found, wanted = within(batch(0)), reference(batch(0))
    assert torch.equal(found, wanted)
    if training:
        square(found).backward()
        square(wanted).backward()
    assert_alike(model, reference)


def test_what_runs_again_is_not_calibrated(tmp_path: Path) -> None:
    with fitted(Net(1), profile=tmp_path) as step, pytest.raises(InputError, match="which ops that run again have"):
        step.calibrate(batch(0))


class Outside(nn.Module):
    """Reads a tensor that lies outside of it; `box` holds it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([*(nn.Linear(64, 1) for _ in range(6)), nn.Linear(64, 64)])
        self.box: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = torch.sin(layer(x) + self.box["offset"])
        return self.layers[-1](x).sum()


def test_a_gradient_that_forward_reads_elsewhere_is_added_to_at_the_end() -> None:
    """Added to early, ops that run again behind that read the new value: gradients were off by a quarter."""

    def made() -> Outside:
        module = Outside()
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        module.box["offset"] = module.layers[-1].bias.grad
        return module

    own, eager, x = made(), made(), torch.randn(256, 64)
    with placewright.fit(own, (x,), "400KiB") as step:
        for _ in range(2):
            step(x)
            eager(x).backward()
            for ours, theirs in zip(own.parameters(), eager.parameters(), strict=True):
                assert torch.equal(ours.grad, theirs.grad)
        added = {op.name.removeprefix("sum:") for op in step.plan.ops if op.name.startswith("sum:")}
        assert step.plan.reruns
        assert "layers.5.bias" in added
        assert "layers.6.bias" not in added


def test_a_gradient_that_comes_to_lie_where_forward_reads_is_refused() -> None:
    own, x = Outside(), torch.randn(256, 64)
    own.box["offset"] = torch.ones(64)
    for parameter in own.parameters():
        parameter.grad = torch.ones_like(parameter)
    with placewright.fit(own, (x,), "400KiB") as step:
        step(x)
        own.layers[0].bias.grad = own.box["offset"][:1]
        with pytest.raises(InputError, match="share memory, and the step writes to one of them"):
            step(x)


@pytest.mark.parametrize(
    "make",
    [
        partial(torch.optim.SGD, lr=0.1),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9),
        torch.optim.Adam,
        partial(torch.optim.Adam, amsgrad=True),
        partial(torch.optim.AdamW, amsgrad=True),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_plan_counts_all_that_an_optimizer_keeps(
    make: Callable[..., torch.optim.Optimizer], dtype: torch.dtype
) -> None:
    # What momentum and amsgrad add comes into being in the first step, after the limit was asked for.
    model, x = torch.nn.Linear(8, 4, dtype=dtype), torch.ones(2, 8, dtype=dtype)
    optimizer = make(model.parameters())
    graph = make_program(model, (x,), {}, training=True, optimizer=optimizer).graph
    model(x).sum().backward()
    optimizer.step()
    kept = [t for state in optimizer.state.values() for key, t in state.items() if key != "step" and t is not None]
    held = sum(t.held_bytes for t in graph.tensors if t.role == "parameter" and t.alias_of is None)
    assert held == sum(t.nbytes for t in (*model.parameters(), *kept))
    # Weight and bias, each read with its gradient and its states, of which all but the gradient are written.
    for op in (op for op in graph.ops if op.kind == "optimizer"):
        read = [graph.tensors[tensor] for tensor in op.inputs]
        written = sum(tensor.size_bytes for tensor in read) - read[1].size_bytes
        moved = count_bytes(op, read, [graph.tensors[tensor] for tensor in op.outputs])
        assert moved == written + sum(tensor.size_bytes for tensor in read)
