"""A module that Inductor compiles within a limit, in loops as people write them."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.execution.pytorch.memory import allocated_peak


@pytest.fixture(autouse=True)
def _without_what_was_seen_before() -> None:
    """PyTorch leaves a size open once a class has seen several values of it."""
    torch._dynamo.reset()


class Loss(nn.Module):
    """Includes the loss: no plan covers what a loop allocates outside of the module."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square().mean()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(32, 32), nn.Tanh())], Loss())


X = torch.randn(2048, 32)
#: A limit that a step of the network keeps by computing some of its results twice; without it a step takes 3.6 MiB.
TIGHT = 2_800_000


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes held from step to step: parameters, buffers, the batch and states."""
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(each.nbytes for each in (*model.parameters(), *model.buffers(), X, *states))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, passes: int = 1) -> None:
    for _ in range(passes):
        model(X).backward()
    optimizer.step()
    optimizer.zero_grad()


def test_steps_hold_what_is_said_whatever_comes_to_be_in_use_beside_them() -> None:
    """Optimizer states that `fit` does not know of, and gradients that accumulate, come into use."""
    plain = network()
    optimizer = torch.optim.AdamW(plain.parameters())
    train(plain, optimizer)
    limit = int(0.6 * (held(plain, optimizer) + allocated_peak(lambda: train(plain, optimizer))))
    model = placewright.fit(network(), limit, backend="inductor")
    assert isinstance(model, nn.Module)
    optimizer = torch.optim.AdamW(model.parameters())
    for passes in (1, 2):
        for _ in range(2):
            train(model, optimizer, passes)
        assert held(model, optimizer) + allocated_peak(partial(train, model, optimizer, passes)) <= limit
    assert model.graphs[0].plan.reruns


def test_a_loop_trains_as_it_does_without_a_limit() -> None:
    plain, limited = network(), network()
    model = placewright.fit(limited, TIGHT, backend="inductor")
    for each in (torch.compile(plain, dynamic=False), model):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9)
        for passes in (1, 2, 1):
            train(each, optimizer, passes)
    for one, other in zip(plain.parameters(), limited.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert model.graphs[0].plan.reruns


def test_states_that_leave_too_little_have_the_module_compiled_anew() -> None:
    model = placewright.fit(network(), TIGHT, backend="inductor")
    model(X).backward()
    first = model.graphs[0]
    optimizer = torch.optim.AdamW(model.parameters())
    # 50,688 bytes of parameters; twice as many of states leave less than the plan takes.
    model._backend._limit = model._limit = placewright.api.fitted_graphs.Limit(
        **{**vars(model._limit), "memory_limit": first.peak_bytes + 20_000}
    )
    optimizer.step()
    optimizer.zero_grad()
    model(X).backward()
    assert model.graphs[0].peak_bytes < first.peak_bytes
    assert model.peak_bytes <= first.peak_bytes + 20_000


def test_gradients_that_are_there_before_the_first_call_count_from_the_first() -> None:
    """The step alone would just keep the limit, but its gradients, 50,688 bytes, are there twice."""
    limit = placewright.fit(network(), TIGHT, backend="inductor")
    limit(X).backward()
    model = placewright.fit(network(), limit.graphs[0].peak_bytes + 20_000, backend="inductor")
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    model(X).backward()
    assert model.peak_bytes <= limit.graphs[0].peak_bytes + 20_000
    assert len(model.graphs) == 1


def test_what_the_allocator_gives_out_is_compared_with_the_limit_once() -> None:
    """A loss outside of the module that makes 8 copies of 256 KiB in a step of 2.6 MiB passes the limit."""
    model = placewright.fit(network(), TIGHT, backend="inductor")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(3):
        train(model, optimizer)
        assert model.measured_bytes == (model.peak_bytes if number else None)
    model = placewright.fit(network()[:-1], TIGHT, backend="inductor")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(2):
        torch.cat([model(X)] * 8).square().mean().backward()
        if number:
            with pytest.warns(UserWarning, match=r"a step has taken .* more than its limit; what the loop itself"):
                optimizer.step()
        else:
            optimizer.step()
        optimizer.zero_grad()
    assert (model.measured_bytes or 0) > TIGHT


def test_a_profiler_of_ones_own_keeps_its_trace() -> None:
    model = placewright.fit(network(), TIGHT, backend="inductor")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    with torch.profiler.profile() as trace:
        model(X).backward()
    optimizer.step()
    assert model.measured_bytes is None
    assert trace.key_averages()


def test_a_graph_that_is_kept_after_backward_is_refused() -> None:
    model = placewright.fit(network(), TIGHT, backend="inductor")
    loss = model(X)
    with pytest.raises(placewright.InputError, match=r"^backward\(retain_graph=True\) keeps what a memory limit needs"):
        loss.backward(retain_graph=True)
    assert all(parameter.grad is None for parameter in model.parameters())
    loss.backward()


def test_what_an_earlier_call_keeps_for_its_backward_counts() -> None:
    """An earlier call without reruns keeps 3.0 MiB while the next one takes 2.6 MiB."""

    def step() -> None:
        (model(X) + model(X)).backward()

    model = placewright.fit(network(), limit := 4_800_000, backend="inductor")
    with pytest.warns(UserWarning, match=r"^Sequential is called again before the backward of an earlier call"):
        step()
    model.zero_grad()
    assert held(model, torch.optim.SGD(model.parameters())) + allocated_peak(step) <= limit
    model = placewright.fit(network(), TIGHT, backend="inductor")
    with pytest.raises(
        placewright.InputError,
        match=r"no plan was found .*; 2\.05 MiB are in use beside it; split=True may run ops in parts$",
    ):
        step()


def test_one_plan_serves_other_sizes_as_far_as_they_keep_the_limit() -> None:
    """Sizes are open from the second one on. With 2,300 rows the plan for 1,500 would exceed the limit."""
    model, reference = network(), network()
    fitted = placewright.fit(model, limit := 2_000_000, backend="inductor")
    found = []

    def step(each: nn.Module, x: torch.Tensor) -> list[torch.Tensor | None]:
        each.zero_grad()
        each(x).backward()
        return [parameter.grad for parameter in each.parameters()]

    for rows in (1024, 1500, 800, 2300, 2200):
        x = torch.randn(rows, 32)
        for one, other in zip(step(fitted, x), step(reference, x), strict=True):
            torch.testing.assert_close(one, other)
        step(fitted, x)
        fitted.zero_grad()
        taken = allocated_peak(partial(step, fitted, x)) + sum(each.nbytes for each in (*model.parameters(), x))
        fitted.zero_grad()
        assert taken <= limit
        found.append([len(each.plan.reruns) for each in fitted.graphs])
    (one_size,), (_, several), *_ = found
    assert one_size < several
    assert found[2] == found[1]
    assert len(found[3]) == 1, "all are planned anew for the largest"
    assert found[4] == found[3]
    with pytest.raises(placewright.InputError, match="no plan was found for a training step"):
        fitted(torch.randn(9000, 32))


def test_a_graph_that_asks_for_the_size_of_a_result_is_compiled_for_each_size() -> None:
    """The variance that a normalization keeps depends on how many values there were."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), Loss())
    fitted = placewright.fit(model, "10MiB", backend="inductor")
    for number in (4, 5, 3, 5):
        x = torch.randn(number, 3, 16, 16)
        torch.testing.assert_close(fitted(x), model(x))
    assert len(fitted.graphs) == 3


class Broken(nn.Module):
    """Two graphs: the first keeps for its backward what the second must leave free."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = network()[:-1], network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


def test_several_graphs_keep_a_limit_together() -> None:
    model = Broken()
    peak = held(model, torch.optim.SGD(model.parameters())) + allocated_peak(lambda: model(X).backward())
    model.zero_grad()
    fitted = placewright.fit(model, int(0.9 * peak), backend="inductor")
    for _ in range(2):
        fitted(X).backward()
        model.zero_grad()
    found = sum(each.nbytes for each in (*model.parameters(), X)) + allocated_peak(lambda: fitted(X).backward())
    assert len(fitted.graphs) == 2
    assert found <= 0.9 * peak
    with pytest.raises(
        placewright.InputError, match=r"no plan was found .* are in use beside it; split=True may run ops in parts$"
    ):
        placewright.fit(Broken(), int(0.4 * peak), backend="inductor")(X)


def test_an_argument_that_no_graph_reads_counts() -> None:
    """The 2,097,152 bytes of the argument leave too little."""

    class Ignoring(nn.Sequential):
        def forward(self, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    model = placewright.fit(Ignoring(*network()), TIGHT, backend="inductor")
    with pytest.raises(
        placewright.InputError, match=r"; 2\.00 MiB are in use beside it; split=True may run ops in parts$"
    ):
        model(X, torch.randn(16384, 32))


def test_recurrent_layers_are_refused_before_anything_runs() -> None:
    """PyTorch runs them as they are, whatever the limit."""
    model = nn.ModuleList([nn.Linear(8, 8), nn.GRU(8, 8)])
    with pytest.raises(placewright.InputError, match=r"^PyTorch hands no recurrent layers to Inductor, as '1' is, "):
        placewright.fit(model, "1GiB", backend="inductor")


def test_what_pytorch_does_not_compile_is_refused() -> None:
    model = network()
    model.forward = torch.compiler.disable(model.forward)
    with pytest.raises(placewright.InputError, match="PyTorch hands no graph of Sequential to Inductor"):
        placewright.fit(model, TIGHT, backend="inductor")(X)


def test_sizes_that_depend_on_values_are_refused_and_not_run_without_a_limit() -> None:
    """PyTorch would take what Inductor raises for a graph break, and run the branch in eager."""

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            branch: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (self.linear(x),))
            return branch.mean()

    with pytest.raises(placewright.InputError, match="what a graph holds under Inductor cannot be told: "):
        placewright.fit(Branching(), TIGHT, backend="inductor")(X)


def test_it_stays_wrapped_by_what_a_trainer_puts_around_its_forward() -> None:
    """Accelerate wraps forward in autocast like this. Compiling the module again must not lose the wrapper."""
    model = placewright.fit(network()[:-1], TIGHT, backend="inductor")
    model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    assert model(X).dtype == torch.bfloat16
    model._backend._limit = model._limit = placewright.api.fitted_graphs.Limit(
        **{**vars(model._limit), "memory_limit": model.peak_bytes + 100}
    )
    model(X).sum().backward()
    assert model(X).dtype == torch.bfloat16


def test_a_copy_has_a_plan_of_its_own() -> None:
    model = placewright.fit(network(), TIGHT, backend="inductor")
    model(X).backward()
    other = copy.deepcopy(model)
    other(X).backward()
    assert len(other.graphs) == len(model.graphs) == 1
    assert list(model.state_dict()) == list(other.state_dict())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"memory_limit": "1KiB"},
            r"^no plan was found for a training step within 1\.00 KiB; .*; split=True may run ops in parts$",
        ),
        ({"args": X, "memory_limit": "1GiB"}, "leave out args, kwargs and loss$"),
        ({"memory_limit": "1GiB", "backend": "onnx"}, "backend is onnx; it is one of eager, inductor$"),
        ({"memory_limit": None}, "memory_limit is None"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(placewright.InputError, match=sentence):
        placewright.fit(network(), **{"backend": "inductor", **given})(X)


def test_an_optimizer_whose_own_step_does_not_fit_is_refused_at_once() -> None:
    """49.5 KiB of parameters, as much of gradients, twice as much of states, and foreach takes as much again."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with pytest.raises(placewright.InputError, match=r"^the optimizer's step needs at least 2"):
        placewright.fit(model, "200KiB", backend="inductor", optimizer=optimizer)


def test_a_step_without_example_arguments_is_planned_at_its_first_call() -> None:
    step = placewright.fit(network(), TIGHT)
    assert step.plans == ()
    step(X)
    assert step.plan.peak_bytes[0] <= TIGHT


def test_a_step_has_the_sizes_of_its_arguments_though_others_left_them_open() -> None:
    x = X.clone()
    torch.compile(network(), backend="aot_eager", dynamic=True)(x).backward()
    step = placewright.fit(network(), TIGHT)
    step(x)
    assert step.plan.reruns


def test_the_page_about_trainers_runs(tmp_path: Path) -> None:
    """Run the page in a process of its own: trainers look for a package `datasets`, and would find a folder of these
    tests. They import torchvision, which would fail with a wheel for another device."""
    page = Path(__file__).parents[3] / "docs" / "tutorials" / "trainers.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    begin = "from placewright.lab.datasets.zoo.libraries import import_torchvision\nimport_torchvision()\n"
    subprocess.run([sys.executable, "-c", begin + "\n".join(blocks)], cwd=tmp_path, check=True)
