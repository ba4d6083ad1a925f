"""Memory of real runs, counted, is what the plans say."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import placewright
from placewright.execution.pytorch.memory import allocated_between, allocated_peak


def test_the_peak_is_that_of_what_lives_at_once() -> None:
    def call() -> None:
        a = torch.empty(1000)  # 4,000 bytes
        b = torch.add(a, a)  # 8,000 with a
        del a  # 4,000
        torch.cat([b, b[:500]])  # 4,000 + 6,000

    assert allocated_peak(call) == 10_000
    assert allocated_peak(lambda: None) == 0


def test_what_was_there_before_does_not_count_nor_does_its_release() -> None:
    held = [torch.empty(1000)]

    def call() -> None:
        held.clear()
        torch.empty(500)  # 2,000

    assert allocated_peak(call) == 2000


def test_a_release_counts_no_more_where_an_earlier_profile_saw_the_address() -> None:
    # Memory that a profile saw allocated and not released stays in PyTorch's table, with its address.
    seen: list[torch.Tensor] = []

    def earlier() -> None:
        seen.extend(torch.empty(1000) for _ in range(50))

    allocated_peak(earlier)
    addresses = {each.data_ptr() for each in seen}
    seen.clear()
    held = [torch.empty(1000) for _ in range(50)]
    assert addresses & {each.data_ptr() for each in held}

    def call() -> None:
        held.clear()
        torch.empty(500)  # 2,000

    assert allocated_peak(call) == 2000


def test_a_call_is_counted_part_by_part() -> None:
    def call(mark: object) -> None:
        assert callable(mark)
        kept = torch.empty(1000)
        mark(3)
        torch.empty(200)
        kept = torch.add(kept, kept)  # both lie in memory for a moment
        mark(5)
        mark(8)
        torch.empty(10)

    assert allocated_between(call) == {3: 4000, 5: 0, 8: 40}


class Wide(nn.Module):
    """Three products of 400 x 400, each read by a sum: all three first, as written, or one after the other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        products = [x @ x.relu(), x @ x.sigmoid(), x @ x.tanh()]
        sums = [product.sum() for product in products]
        return torch.stack(sums)


def test_a_better_order_lowers_the_measured_peak() -> None:
    with placewright.compile(Wide(), torch.randn(400, 400), devices="cpu:0", objective="peak-memory") as compiled:
        found = compiled.compare(torch.randn(400, 400), steps=1).facts
    matrix = 400 * 400 * 4
    assert found.planned_peak_bytes is not None
    assert found.measured_peak_bytes == pytest.approx(found.planned_peak_bytes, rel=0.01)
    assert found.one_device_measured_peak_bytes == pytest.approx(found.one_device_planned_peak_bytes, rel=0.01)
    # x, what is read and what is made, or x and all products
    assert found.measured_peak_bytes == pytest.approx(3 * matrix, rel=0.01)
    assert found.one_device_measured_peak_bytes == pytest.approx(5 * matrix, rel=0.01)
    assert 3.1 * matrix < found.eager_peak_bytes


@pytest.mark.parametrize("training", [False, True])
def test_what_ops_need_for_themselves_is_planned(training: bool) -> None:
    # A convolution of this library reorders its weights and input into memory of its own.
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16))
    images = torch.randn(4, 3, 32, 32)
    with placewright.compile(model, images, devices="cpu:0", training=training) as compiled:
        found = compiled.compare(images, steps=1).facts
    assert found.measured_peak_bytes == pytest.approx(found.planned_peak_bytes, rel=0.02)


class Losses(nn.Module):
    """Losses whose kernels return a number in memory as large as what they have summed."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.mse_loss(x, y),
            functional.smooth_l1_loss(x, y, reduction="sum"),
            functional.soft_margin_loss(x, y),
            functional.binary_cross_entropy(x, y),
        )


def test_a_loss_holds_no_more_than_its_number() -> None:
    args = torch.rand(512, 32), torch.rand(512, 32)
    with placewright.compile(Losses(), args, devices="cpu:0") as compiled:
        found = compiled(*args)
    for loss, wanted in zip(found, Losses()(*args), strict=True):
        assert torch.equal(loss, wanted)
        assert loss.untyped_storage().nbytes() == 4 < wanted.untyped_storage().nbytes()


class Grows(nn.Module):
    """Reads its input once, and then makes something larger."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.sum(1)
        return torch.outer(rows, rows[:20])


def test_arguments_count_while_the_caller_holds_them() -> None:
    # 1,000 x 10 x 4 = 40,000 bytes of input, 4,000 of its sums, and a product of 1,000 x 20 x 4 = 80,000.
    x = torch.randn(1000, 10)
    with placewright.compile(Grows(), x, devices="cpu:0", objective="peak-memory") as compiled:
        found = compiled.compare(x, steps=1).facts
    assert found.planned_peak_bytes == found.measured_peak_bytes == found.eager_peak_bytes == 124_000
