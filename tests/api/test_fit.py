"""`placewright.fit`: a module's training step within a memory limit, and `frontier` from Python."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from training_steps import training_step

import placewright
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn

torch = pytest.importorskip("torch")

MIB = 2**20


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Dropout(0.1)) for _ in range(6)]
    return torch.nn.Sequential(*layers)


def test_a_training_step_fits_and_computes_what_the_module_computes(tmp_path: Path) -> None:
    model, x = network(), torch.randn(512, 32)
    other = copy.deepcopy(model)
    with placewright.fit(model, x, "64MiB", profile=tmp_path) as roomy:
        peak = roomy.plan.metrics.peak_memory_bytes
        assert roomy.plan.reruns == ()
    limit = int(0.7 * peak)
    with placewright.fit(model, x, limit, profile=tmp_path) as step:
        assert step.plan.reruns
        assert step.plan.metrics.peak_memory_bytes <= limit
        torch.manual_seed(1)
        loss = step(x)
    torch.manual_seed(1)
    other.train()
    expected = other(x).mean()
    expected.backward()
    assert torch.equal(loss, expected)
    for parameter, before in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(parameter.grad, before.grad)


def test_where_nothing_fits_a_sentence_says_so_and_names_the_op() -> None:
    with pytest.raises(InputError, match=r"no plan can fit: .* missing on cpu:0; every plan needs at least .* runs"):
        placewright.fit(network(), torch.randn(512, 32), "1KiB")


def test_a_module_on_two_devices_is_refused() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, device="meta"))
    with pytest.raises(InputError, match="the module lies on cpu, meta; fit is for one device"):
        placewright.fit(model, torch.randn(4, 2), "1GiB")


def test_what_is_kept_must_be_a_list_of_patterns() -> None:
    for keep in ("net*", [1], [""]):
        with pytest.raises(InputError, match=r"keep is .*; it must be a list of patterns"):
            placewright.plan(training_step(5, 8), "p100", keep=keep)  # type: ignore[arg-type]


def test_a_frontier_from_python_is_that_of_the_command() -> None:
    found = placewright.frontier(training_step(5, 8), "p100@graphs", evaluations=20)
    assert found.facts.peak_bytes == 142
    assert str(found).splitlines()[0].endswith("142 B with everything kept")


def test_ops_that_take_no_time_have_a_frontier() -> None:
    graph = training_step(5, 8)
    graph = replace(graph, ops=tuple(replace(op, time_ns=0) for op in graph.ops))
    found = placewright.frontier(graph, "p100@graphs", evaluations=5).facts
    assert {(point.step_time_ns, point.extra_time) for point in found.points} == {(0, 0.0)}


def test_a_frontier_of_a_module_has_rivals_by_its_blocks() -> None:
    found = placewright.frontier(network(), "h100", args=torch.randn(512, 32), training=True, evaluations=5)
    names = [rival.name for rival in found.facts.rivals]
    assert names == [
        "everything kept",
        "6 blocks checkpointed",
        "3 blocks checkpointed",
        "budget 0.75 of torch.compile",
        "budget 0.5 of torch.compile",
        "budget 0.25 of torch.compile",
        "batch 256 x 2, accumulated",
        "batch 128 x 4, accumulated",
        *(f"batch in {count} parts" for count in (2, 4, 8, 16)),
    ]
    kept, rivals = found.facts.rivals[0], found.facts.rivals[1:]
    for rival in rivals[:5]:
        assert rival.planned_time_ns is not None
        assert rival.planned_time_ns <= rival.step_time_ns
    for rival in rivals[5:]:
        # The same samples in more ops take no less time, and half of them at once need less memory.
        assert rival.step_time_ns > kept.step_time_ns
        assert rival.peak_bytes < kept.peak_bytes
        # A plan of one pass is another step: within as much memory it may be slower, or there is none.
        if rival.peak_bytes < found.facts.least_possible_bytes:
            assert rival.planned_time_ns is None
    # A smaller budget runs more again.
    reruns = [rival.num_reruns for rival in rivals[2:5]]
    assert reruns == sorted(reruns)
    assert reruns[-1] > 0
    assert all(rival.peak_bytes <= kept.peak_bytes for rival in rivals[2:5])


def test_a_module_that_refuses_other_batches_has_no_accumulation_on_its_frontier() -> None:
    class Fixed(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Any) -> Any:
            return self.inner(x.reshape(512, 32))

    found = placewright.frontier(Fixed(), "h100", args=torch.randn(512, 32), training=True, evaluations=5)
    assert not [rival.name for rival in found.facts.rivals if "accumulated" in rival.name]
