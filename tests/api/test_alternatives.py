"""`placewright.alternatives`: ways to run a training step, what fits, and the code to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import placewright
from placewright.analysis.alternatives import Alternatives, TrainingSetup, answer_words
from placewright.api.training_setups import PassCaptures
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn

torch = pytest.importorskip("torch")

MIB = 2**20


class Loss(torch.nn.Module):  # type: ignore[name-defined]
    """A chain of layers of 256 x 256 weights: much to hold of a large batch, and a scalar at its end."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(8)]
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x: Any, y: Any) -> Any:
        return torch.nn.functional.mse_loss(self.layers(x), y)


def batch(samples: int = 2048, width: int = 256) -> tuple[Any, Any]:
    return torch.randn(samples, width), torch.randn(samples, width)


def found(limit: Any, model: nn.Module | None = None, devices: str = "h100@graphs", **options: Any) -> Alternatives:
    facts = placewright.alternatives(
        model or Loss(), devices, args=options.pop("args", batch()), memory_limit=limit, evaluations=20, **options
    ).facts
    assert isinstance(facts, Alternatives)
    return facts


def one(facts: Alternatives, **wanted: Any) -> TrainingSetup:
    asked = {"accumulation": 1, "dtype": "float32", "optimizer": "Adam", "planned": False, **wanted}
    (setup,) = [each for each in facts.setups if all(getattr(each, key) == value for key, value in asked.items())]
    return setup


@pytest.fixture(scope="module")
def roomy() -> Alternatives:
    return found("1GiB")


def test_what_a_person_would_try_is_tried(roomy: Alternatives) -> None:
    tried = {(each.batch_words, each.dtype, each.optimizer) for each in roomy.setups}
    batches = {"2048", "1024 x 2", "512 x 4", "256 x 8"}
    optimizers = {"Adam", "8-bit Adam", "SGD"}
    assert tried == {(b, dtype, o) for b in batches for dtype in ("float32", "bfloat16") for o in optimizers}
    assert len(roomy.setups) == 24
    assert roomy.left_out == ()
    # Where all fits, nothing needs to run again.
    assert all(each.fits and not each.planned for each in roomy.setups)


def test_bytes_are_exact(roomy: Alternatives) -> None:
    # 8 layers of 256 x 256 weights and 256 biases.
    parameters = 8 * (256 * 256 + 256) * 4
    plain = one(roomy)
    assert plain.parameter_bytes == parameters
    assert plain.optimizer_bytes == 2 * parameters
    assert one(roomy, optimizer="SGD").optimizer_bytes == 0
    # 8-bit codes of the weights with two constants for each 256 of them; biases are small and keep float32 states.
    assert one(roomy, optimizer="8-bit Adam").optimizer_bytes == 8 * (2 * 65536 + 2 * 4 * 256 + 2 * 4 * 256)
    for setup in roomy.setups:
        held = setup.parameter_bytes + setup.gradient_bytes + setup.optimizer_bytes + setup.activation_bytes
        assert held == setup.peak_bytes
        # With accumulation the gradients of all parameters are held at the peak, without some or none.
        assert setup.gradient_bytes <= parameters
        if setup.accumulation > 1:
            assert setup.gradient_bytes == parameters


def test_the_step_is_the_captured_one(roomy: Alternatives) -> None:
    plan = placewright.plan(Loss(), "h100@graphs", args=batch(), training=True, solver="input-order")
    plain = one(roomy)
    assert (plain.peak_bytes, plain.step_time_ns) == (plan.metrics.peak_memory_bytes, plan.step_time_ns)
    assert plain.time_per_sample_ns == plan.step_time_ns / 2048


def test_accumulation_takes_no_less_time_a_sample_and_holds_less(roomy: Alternatives) -> None:
    for dtype in ("float32", "bfloat16"):
        whole = one(roomy, dtype=dtype)
        for count in (2, 4, 8):
            parts = one(roomy, dtype=dtype, accumulation=count)
            assert parts.batch * parts.accumulation == 2048
            # Each op rounds its time up to a nanosecond; more passes are more ops.
            assert parts.time_per_sample_ns >= whole.time_per_sample_ns * 0.999
            assert parts.activation_bytes < whole.activation_bytes


def test_what_fits_comes_first_and_the_fastest_of_it() -> None:
    facts = found("40MiB")
    fits = [each.fits for each in facts.setups]
    assert fits == sorted(fits, reverse=True)
    assert fits[0]
    assert False in fits
    times = [each.time_per_sample_ns for each in facts.setups if each.fits]
    assert times == sorted(times)
    for setup in facts.setups:
        assert setup.fits == (setup.peak_bytes <= 40 * MIB)
        assert setup.planned or not setup.num_reruns
    assert any(each.planned and each.fits and each.accumulation > 1 for each in facts.setups) or any(
        each.planned and each.fits for each in facts.setups
    )
    assert answer_words(facts).startswith("fastest that fits in 40.0 MiB: batch ")


def test_recomputed_steps_keep_the_limit_with_and_without_accumulation() -> None:
    limit = one(found("1GiB"), accumulation=2, optimizer="SGD").peak_bytes * 7 // 10
    facts = found(limit, optimizers=["sgd"])
    again = one(facts, accumulation=2, optimizer="SGD", planned=True)
    plain = one(facts, accumulation=2, optimizer="SGD")
    assert again.fits
    assert not plain.fits
    assert again.num_reruns > 0
    assert again.step_time_ns > plain.step_time_ns


def test_another_order_alone_is_found() -> None:
    # Of little data the gradients of all layers are most of the peak but the weights. Where each is used up
    # as soon as it is made, one or two are held.
    samples = batch(16)
    plain = one(found("1GiB", args=samples, optimizers=["sgd"], devices="cpu"), optimizer="SGD")
    limit = plain.peak_bytes - plain.gradient_bytes // 2
    facts = found(limit, args=samples, optimizers=["sgd"], devices="cpu")
    other = one(facts, optimizer="SGD", planned=True)
    assert other.fits
    assert other.num_reruns == 0
    assert other.words == "batch 16, float32, SGD, in another order"
    assert other.gradient_bytes < plain.gradient_bytes // 2
    parts = (other.parameter_bytes, other.gradient_bytes, other.optimizer_bytes, other.activation_bytes)
    assert sum(parts) == other.peak_bytes
    assert min(parts) >= 0


def test_an_optimizer_that_fit_does_not_know_steps_behind_the_pass() -> None:
    samples = batch(16)
    plain = one(found("1GiB", args=samples, optimizers=["adam8bit"]), optimizer="8-bit Adam")
    facts = found(plain.peak_bytes - plain.gradient_bytes // 2, args=samples, optimizers=["adam8bit"])
    # All gradients are held until the optimizer steps, so no plan of one pass needs less by half of them.
    assert not any(each.fits for each in facts.setups if each.accumulation == 1)


def test_where_nothing_fits_the_nearest_is_named() -> None:
    facts = found("1MiB")
    assert not any(each.fits for each in facts.setups)
    words = answer_words(facts)
    assert words.startswith("nothing that was tried fits in 1.00 MiB; nearest: batch ")
    assert words.endswith(" over")


def test_a_module_of_another_dtype_is_taken_as_it_is() -> None:
    model = Loss().bfloat16()
    facts = found("1GiB", model, args=tuple(each.bfloat16() for each in batch()), optimizers=["sgd"])
    assert {(each.dtype, each.autocast) for each in facts.setups} == {("bfloat16", False)}
    assert {each.parameter_bytes for each in facts.setups} == {8 * (256 * 256 + 256) * 2}


def dtypes_of(model: nn.Module) -> list[str]:
    return PassCaptures(model, batch(8), {}, None).trained_dtypes


def test_8_bit_adam_is_tried_for_the_dtypes_it_has() -> None:
    args = tuple(each.double() for each in batch(64))
    facts = found("64MiB", model=Loss().double(), args=args)
    assert {each.optimizer for each in facts.setups} == {"Adam", "SGD"}
    assert facts.left_out == ("8-bit Adam: bitsandbytes has none for parameters of float64",)
    with pytest.raises(InputError, match="no optimizer is left to try; 8-bit Adam: bitsandbytes has none for"):
        found("64MiB", model=Loss().double(), args=args, optimizers=["adam8bit"])
    # Whichever layer comes first, and of those that are trained alone.
    mixed = Loss()
    mixed.layers[7].double().requires_grad_(False)
    assert dtypes_of(mixed) == ["float32"]
    mixed.layers[7].requires_grad_(True)
    assert dtypes_of(mixed) == ["float32", "float64"]


def test_devices_are_looked_at_one_by_one_and_equal_ones_once() -> None:
    facts = found("64MiB", devices="cpu+2xh100", optimizers=["adam", "adam8bit"], args=batch(64))
    sorts = {each.device for each in facts.setups}
    assert len(sorts) == 2
    # 8-bit Adam is for GPUs.
    kinds = {(each.device, each.optimizer) for each in facts.setups if each.optimizer == "8-bit Adam"}
    assert kinds == {("h100", "8-bit Adam")}
    assert " on h100: " in answer_words(facts)


def test_devices_of_one_kind_with_different_limits_are_named() -> None:
    limits = {"gpu0": "1GiB", "gpu1": "2GiB"}
    facts = found(limits, devices="2xh100", optimizers=["sgd"], args=batch(8))
    assert {(each.device, each.limit_bytes) for each in facts.setups} == {("gpu0", 2**30), ("gpu1", 2**31)}


class Fixed(Loss):
    """Refuses other batches."""

    def forward(self, x: Any, y: Any) -> Any:
        return super().forward(x.reshape(64, 256), y)


def test_what_refuses_another_batch_is_said_and_left_out() -> None:
    facts = found("1GiB", Fixed(), args=batch(64))
    assert {each.batch_words for each in facts.setups} == {"64"}
    assert len(facts.left_out) == 6
    assert facts.left_out[0].startswith("batch 32 x 2, float32: PyTorch cannot trace Fixed with these arguments: ")


def test_a_batch_is_taken_in_parts_that_it_has() -> None:
    facts = found("1GiB", args=batch(6), optimizers=["sgd"])
    assert {each.batch_words for each in facts.setups} == {"6", "3 x 2"}


def test_what_there_was_no_time_for_is_said() -> None:
    facts = found("1GiB", args=batch(8), time_limit=1e-6)
    assert {(each.batch_words, each.dtype) for each in facts.setups} == {("8", "float32")}
    assert facts.left_out[0] == "batch 8, bfloat16: there was no time for it"
    assert len(facts.left_out) == 7


class Idle(Loss):
    """Has a parameter that nothing reads, of which a capture warns."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = torch.nn.Parameter(torch.randn(3))


def test_what_every_capture_warns_of_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    found("1GiB", Idle(), args=batch(8), optimizers=["sgd"])
    own = [record.getMessage() for record in caplog.records if record.name.startswith("placewright")]
    assert len(own) == 1
    assert "the loss does not depend on 1 of the parameters (idle)" in own[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"args": ()}, "no argument of the module is a tensor with a batch dimension"),
        ({"optimizers": ["lion"]}, r"optimizers is \['lion'\]; it must be a list of adam, adam8bit, sgd, sgd-momentum"),
        ({"memory_limit": "8 apples"}, "size '8 apples' has the unknown unit 'apples'"),
        ({"time_limit": "soon"}, "soon"),
        ({"evaluations": 0}, "evaluations is 0; it must be a whole number from 1"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        placewright.alternatives(Loss(), "h100", **{"args": batch(8), **options})


def test_a_limit_of_the_host_is_taken_as_a_plan_takes_it_and_kept_since_nothing_is_moved() -> None:
    given = [found(limit, optimizers=["sgd"]) for limit in ("gpu0=64MiB", "gpu0=64MiB,host=1GiB")]
    assert given[0].setups == given[1].setups


def test_a_graph_has_no_other_batches() -> None:
    graph = placewright.from_torch(Loss(), batch(8), training=True)
    with pytest.raises(InputError, match=r"alternatives are of a PyTorch module, .* and this is a Graph"):
        placewright.alternatives(graph, "h100", args=batch(8))


def test_what_fit_does_not_count_is_left_room_for() -> None:
    roomy = found("1GiB", optimizers=["adam"])
    limit = one(roomy, accumulation=2).peak_bytes * 4 // 5
    again = one(found(limit, optimizers=["adam"]), accumulation=2, planned=True)
    # Adam steps behind two passes and not in the plan, so its states come on top of what the plan holds.
    assert f"placewright.fit(model, first, {limit - again.optimizer_bytes}, loss=lambda loss: loss / 2)" in again.code
    whole = one(found(one(roomy).peak_bytes * 4 // 5, optimizers=["adam"]), planned=True)
    assert f"placewright.fit(model, batch, {whole.limit_bytes}, optimizer=optimizer)" in whole.code


def codes() -> list[Any]:
    """Setups on a CPU, whose code runs here: what fits in little."""
    facts = found("30MiB", devices="cpu", args=batch(2048), optimizers=["adam", "sgd"])
    return [each for each in facts.setups if each.fits]


def test_the_code_runs_and_trains() -> None:
    setups = codes()
    assert {each.planned for each in setups} == {True, False}
    assert {each.accumulation > 1 for each in setups} == {True, False}
    kinds: dict[Any, TrainingSetup] = {}
    for setup in setups:
        kinds.setdefault((setup.planned, setup.accumulation > 1, setup.autocast), setup)
    for setup in kinds.values():
        model, samples = Loss(), batch()
        before = [each.detach().clone() for each in model.parameters()]
        exec(setup.code, {"torch": torch, "placewright": placewright, "model": model, "batch": samples})
        after = list(model.parameters())
        assert not any(torch.equal(now, then) for now, then in zip(after, before, strict=True)), setup.words
