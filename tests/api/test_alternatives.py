"""`placewright.alternatives`: ways to run a training step, what fits, and the code to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import placewright
from placewright.analysis.alternatives import (
    Alternatives,
    TrainingSetup,
    about_words,
    answer_words,
    changed,
    floor_words,
)
from placewright.api import setup_search
from placewright.api.pass_captures import PassCaptures
from placewright.api.training_setups import CONTEXT_BYTES
from placewright.execution.pytorch.memory import allocated_peak
from placewright.importers.forward_backward import training_step
from placewright.lab.datasets.zoo.libraries import import_torchvision
from placewright.machines.specification import as_machine
from placewright.problem import make_problem
from placewright.rematerialization.solve import in_order
from placewright.search.run.result import measure
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn

torch = pytest.importorskip("torch")
# Before peft, which imports it.
import_torchvision()

MIB = 2**20
SAMPLES = 2048


class Loss(torch.nn.Module):  # type: ignore[name-defined]
    """A chain of layers of 256 x 256 weights: much to hold of a large batch, and a scalar at its end."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(8)]
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x: Any, y: Any) -> Any:
        return torch.nn.functional.mse_loss(self.layers(x), y)


def batch(samples: int = SAMPLES, width: int = 256) -> tuple[Any, Any]:
    return torch.randn(samples, width), torch.randn(samples, width)


def found(limit: Any, model: nn.Module | None = None, devices: str = "h100@graphs", **options: Any) -> Alternatives:
    """Return the alternatives within a limit. adapters: True to try them, which takes long."""
    with pytest.MonkeyPatch.context() as patch:
        if not options.pop("adapters", False):
            patch.setattr(setup_search, "can_have_adapters", lambda model: False)
        facts = placewright.alternatives(
            model or Loss(),
            devices,
            args=options.pop("args", batch()),
            memory_limit=limit,
            evaluations=20,
            time_limit=options.pop("time_limit", 600),
            **options,
        ).facts
    assert isinstance(facts, Alternatives)
    return facts


def one(facts: Alternatives, **wanted: Any) -> TrainingSetup:
    asked = {
        "batch": SAMPLES // wanted.get("accumulation", 1),
        "accumulation": 1,
        "dtype": "float32",
        "optimizer": "AdamW",
        "planned": False,
        "num_checkpointed": 0,
        **wanted,
    }
    asked = {"in_backward": False, "offloaded": False, **asked}
    (setup,) = [each for each in facts.setups if all(getattr(each, key) == value for key, value in asked.items())]
    return setup


@pytest.fixture(scope="module")
def roomy() -> Alternatives:
    return found("1GiB")


def test_what_an_expert_would_try_is_tried(roomy: Alternatives) -> None:
    same = {(each.batch_words, each.dtype, each.optimizer) for each in roomy.setups if not each.changes}
    batches = {"2048", "1024 x 2", "512 x 4", "256 x 8", "1024", "512", "4096", "8192"}
    assert same == {(b, dtype, "AdamW") for b in batches for dtype in ("float32", "bfloat16")}
    assert {each.changes for each in roomy.setups} >= {"", "states in 8 bits", "weights in bfloat16"}
    assert {each.num_checkpointed for each in roomy.setups} == {0, 8}
    # SGD is another optimizer; where all fits, no plan is needed.
    assert not any("SGD" in each.optimizer for each in roomy.setups)
    assert all(each.fits and not each.planned for each in roomy.setups)


def test_the_first_line_is_the_fastest_of_all_that_trains_the_same(roomy: Alternatives) -> None:
    for facts in (roomy, found("40MiB")):
        best = min(
            (each for each in facts.setups if each.fits and not each.changes), key=lambda each: each.time_per_sample_ns
        )
        assert facts.setups[0].time_per_sample_ns == best.time_per_sample_ns
        assert answer_words(facts).startswith(f"fastest of the {len(facts.setups)} that were tried: batch ")
        times = [each.time_per_sample_ns for each in facts.setups if each.fits and not each.changes]
        assert times == sorted(times)
        for setup in facts.setups:
            assert setup.fits == (setup.peak_bytes <= setup.limit_bytes)
            assert setup.planned or setup.num_checkpointed or not setup.num_reruns


def test_what_trains_something_else_is_ranked_behind_and_said(roomy: Alternatives) -> None:
    kinds = [bool(each.changes) for each in roomy.setups if each.fits]
    assert kinds == sorted(kinds)
    other = changed(roomy)
    assert other is None or (other.changes and other.time_per_sample_ns < roomy.setups[0].time_per_sample_ns)


def test_bytes_are_exact(roomy: Alternatives) -> None:
    # 8 layers of 256 x 256 weights and 256 biases.
    parameters = 8 * (256 * 256 + 256) * 4
    plain = one(roomy)
    assert plain.parameter_bytes == parameters
    assert plain.optimizer_bytes == 2 * parameters
    # 8-bit codes of the weights with two constants for each 256 of them; biases are small and keep float32 states.
    eight = one(roomy, optimizer="8-bit Adam", autocast=False, changes="states in 8 bits")
    assert eight.optimizer_bytes == 8 * (2 * 65536 + 2 * 4 * 256 + 2 * 4 * 256)
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
    # A loop holds the batch to the end, a plan until it has been read.
    assert plan.metrics.peak_memory_bytes <= plain.peak_bytes <= plan.metrics.peak_memory_bytes + 4 * MIB
    assert plain.step_time_ns == plan.step_time_ns
    assert plain.time_per_sample_ns == plan.step_time_ns / SAMPLES


@pytest.mark.parametrize("autocast", [None, "gpu"])
def test_other_batches_are_what_a_capture_of_them_would_be(autocast: str | None) -> None:
    model = Loss(32)
    captures = PassCaptures(model, batch(8, 32), {})
    for samples in (2, 8, 24):
        derived = captures.get(samples, "own", autocast)
        real = PassCaptures(model, batch(samples, 32), {}).get(samples, "own", autocast)
        assert [op.name for op in derived.graph.ops] == [op.name for op in real.graph.ops]
        assert [op.attributes for op in derived.graph.ops] == [op.attributes for op in real.graph.ops]
        sizes = [[(t.shape, t.size_bytes) for t in each.graph.tensors] for each in (derived, real)]
        assert sizes[0] == sizes[1]


def test_accumulation_takes_no_less_time_a_sample_and_holds_less(roomy: Alternatives) -> None:
    for dtype in ("float32", "bfloat16"):
        whole = one(roomy, dtype=dtype, changes="")
        for count in (2, 4, 8):
            parts = one(roomy, dtype=dtype, accumulation=count, changes="")
            # Each op rounds its time up to a nanosecond; more passes are more ops.
            assert parts.time_per_sample_ns >= whole.time_per_sample_ns * 0.999
            assert parts.activation_bytes < whole.activation_bytes


def test_accumulated_passes_take_what_a_step_of_all_of_them_takes(roomy: Alternatives) -> None:
    passes = PassCaptures(Loss(), batch(), {}).get(512)
    problem = make_problem(training_step(passes, "adam", 4), as_machine("h100@graphs"))
    metrics = measure(problem, in_order(problem))
    parts = one(roomy, accumulation=4)
    assert parts.step_time_ns == metrics.step_time_ns
    given = 2 * SAMPLES * 256 * 4
    assert metrics.peak_memory_bytes <= parts.peak_bytes <= metrics.peak_memory_bytes + given


def test_all_parameters_at_once_take_one_more_copy_of_them() -> None:
    model = Loss()
    own = torch.optim.AdamW(model.parameters(), lr=0.01)
    facts = found("1GiB", model, args=batch(8), optimizer=own, time_limit=1e-6)
    slow, fused = one(facts, batch=8, optimizer="AdamW"), one(facts, batch=8, optimizer="fused AdamW")
    # The peak is in the optimizer's step, where the roots of all second moments are there at once.
    assert slow.peak_bytes - fused.peak_bytes == pytest.approx(slow.parameter_bytes, rel=0.01)
    assert slow.code.startswith("# a batch of 8 samples\noptimizer = torch.optim.AdamW(model.parameters(), lr=0.01)\n")
    assert fused.code.startswith(
        "# a batch of 8 samples\noptimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)\n"
    )


def test_an_optimizer_that_is_fused_already_is_not_told_to_be() -> None:
    model = Loss()
    own = torch.optim.SGD(model.parameters(), momentum=0.9, fused=True)
    facts = found("1GiB", model, args=batch(8), optimizer=own, time_limit=1e-6)
    assert {each.optimizer for each in facts.setups} == {"SGD with momentum"}
    assert one(facts, batch=8, optimizer="SGD with momentum").optimizer_bytes == facts.setups[0].parameter_bytes


def test_recomputed_steps_keep_the_limit_with_and_without_accumulation() -> None:
    limit = one(found("1GiB"), accumulation=2).peak_bytes * 7 // 10
    planned = [each for each in found(limit).setups if each.planned]
    assert any(each.fits and each.num_reruns for each in planned)
    for each in planned:
        assert each.peak_bytes <= each.limit_bytes or not each.fits
        assert each.time_per_sample_ns > 0


def test_the_floor_says_what_it_is_made_of_and_what_lowers_it(roomy: Alternatives) -> None:
    (floor,) = roomy.floors
    parameters = 8 * (256 * 256 + 256) * 4
    assert (floor.parameter_bytes, floor.optimizer_bytes) == (parameters, 2 * parameters)
    assert floor.least_bytes == parameters * 3 + floor.needed_bytes
    words = floor_words(floor)
    assert "2.01 MiB of parameters, 4.02 MiB of optimizer states" in words
    assert f"while '{floor.op}' runs; lower it by batch " in words


class Words(torch.nn.Module):  # type: ignore[name-defined]
    """A vocabulary of 5,000, whose logits are most of what is held of 512 words."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(5000, 8), torch.nn.Linear(8, 5000)

    def forward(self, ids: Any) -> Any:
        return torch.nn.functional.cross_entropy(self.head(self.table(ids)), ids)


@pytest.mark.parametrize("autocast", [None, "gpu"])
def test_parts_of_other_batches_are_what_a_capture_of_them_would_have(autocast: str | None) -> None:
    model = Words()
    captures = PassCaptures(model, torch.randint(5000, (512,)), {})
    captures.splits(64, "own", autocast)
    derived = captures.in_parts(64, 0, 8, "own", autocast)
    real = PassCaptures(model, torch.randint(5000, (64,)), {})
    assert [split.name for split in real.splits(64, "own", autocast)] == ["loss"]
    graph = real.in_parts(64, 0, 8, "own", autocast).graph
    assert [op.name for op in derived.graph.ops] == [op.name for op in graph.ops]
    sizes = [[(t.shape, t.size_bytes) for t in each.tensors] for each in (derived.graph, graph)]
    assert sizes[0] == sizes[1]
    with pytest.raises(InputError, match="a batch of 4 has no such parts"):
        captures.in_parts(4, 0, 8, "own", autocast)


class Otherwise(Loss):
    """Does something else with other batches than multiples of what it does with one."""

    def __init__(self, way: Any) -> None:
        super().__init__(32)
        self.way = way

    def forward(self, x: Any, y: Any) -> Any:
        return super().forward(x, y) + self.way(x)


@pytest.mark.parametrize(
    "way",
    [
        lambda x: sum(each.exp().mean() for each in x.chunk(48)),
        lambda x: x[: max(1, len(x) // 64)].exp().mean(),
        lambda x: x[: int(len(x) ** 0.5)].exp().mean(),
        lambda x: x.exp().mean() if len(x) < 1000 else x.mean(),
        lambda x: sum(each.exp().sum() for each in x),
        lambda x: sum(x[place].exp().sum() for place in range(len(x))),
    ],
    ids=["chunks", "part", "root", "branch", "samples", "places"],
)
def test_a_batch_that_is_not_as_derived_is_captured(way: Any) -> None:
    model = Otherwise(way)
    captures = PassCaptures(model, batch(16, 32), {})
    for samples in (4, 16):
        graph = captures.get(samples).graph
        real = PassCaptures(model, batch(samples, 32), {}).get(samples).graph
        assert [op.name for op in graph.ops] == [op.name for op in real.ops]
        assert [tensor.size_bytes for tensor in graph.tensors] == [tensor.size_bytes for tensor in real.tensors]


def test_a_loss_in_parts_is_advised_where_it_is_what_fits() -> None:
    # Logits take 512 * 5,000 * 4 bytes = 9.8 MiB, and three like them are there at once. Parameters, 8 * 5,000 * 2 +
    # 5,000, gradients and states are 85,000 * 4 * 4 bytes = 1.3 MiB.
    facts = found("8MiB", Words(), devices="cpu", args=torch.randint(5000, (512,)))
    best = facts.setups[0]
    assert best.fits
    assert best.batch * best.accumulation >= 512
    assert best.split.startswith("loss in ")
    assert best.pass_words.startswith(f"planned: {best.split}")
    assert "split=True" in best.code
    model, ids = Words(), torch.randint(5000, (best.batch * best.accumulation,))
    space = {"torch": torch, "placewright": placewright, "model": model, "batch": (ids,)}
    exec(best.code, space)
    start = best.code.index("step(*")
    held = sum(each.nbytes for each in (*model.parameters(), ids)) + best.optimizer_bytes
    again = compile(best.code[best.code.rindex("\n", 0, start) + 1 :], "advice", "exec")
    model.zero_grad(set_to_none=True)
    assert held + allocated_peak(lambda: exec(again, space)) <= best.limit_bytes


def test_a_loss_over_a_vocabulary_is_told_to_be_taken_in_chunks() -> None:
    facts = found("1GiB", Words(), args=(torch.randint(5000, (512,)),), time_limit=1e-6)
    assert "the loss whole; lower it by the loss in 16 parts (split=True): 2.81 MiB" in floor_words(facts.floors[0])


def test_where_nothing_fits_the_nearest_is_named() -> None:
    facts = found("1MiB")
    assert not any(each.fits for each in facts.setups)
    words = answer_words(facts)
    assert words.startswith(f"none of the {len(facts.setups)} that were tried fits in 1.00 MiB; nearest: batch ")
    assert words.endswith(" over")


def test_a_module_of_another_dtype_is_taken_as_it_is() -> None:
    facts = found("1GiB", Loss().bfloat16(), args=tuple(each.bfloat16() for each in batch()))
    assert {(each.dtype, each.autocast) for each in facts.setups} == {("bfloat16", False)}
    assert {each.parameter_bytes for each in facts.setups if "LoRA" not in each.changes} == {8 * (256 * 256 + 256) * 2}


def test_8_bit_adam_is_tried_for_the_dtypes_it_has() -> None:
    args = tuple(each.double() for each in batch(64))
    facts = found("64MiB", model=Loss().double(), args=args)
    assert {each.optimizer for each in facts.setups} == {"AdamW"}
    with pytest.raises(InputError, match="optimizer is adam8bit; bitsandbytes has none for float64"):
        found("64MiB", model=Loss().double(), args=args, optimizer="adam8bit")
    with pytest.raises(InputError, match="optimizer is adam8bit; bitsandbytes has none for CPUs"):
        found("64MiB", devices="cpu", args=batch(8), optimizer="adam8bit")
    # Only dtypes of trained parameters count, whichever layer comes first.
    mixed = Loss()
    mixed.layers[7].double().requires_grad_(False)
    assert PassCaptures(mixed, batch(8), {}).trained_dtypes == ["float32"]


def test_devices_are_looked_at_one_by_one_and_equal_ones_once() -> None:
    facts = found("64MiB", devices="cpu+2xh100", args=batch(64))
    assert {each.device for each in facts.setups} == {"cpu", "h100"}
    assert {floor.device for floor in facts.floors} == {"cpu", "h100"}
    # 8-bit Adam is for GPUs.
    assert {each.device for each in facts.setups if each.optimizer == "8-bit Adam"} == {"h100"}
    assert f" on {facts.setups[0].device}: " in answer_words(facts)


def test_devices_of_one_kind_with_different_limits_are_named() -> None:
    facts = found({"gpu0": "1GiB", "gpu1": "2GiB"}, devices="2xh100", args=batch(8), time_limit=1e-6)
    assert {(each.device, each.limit_bytes) for each in facts.setups} == {("gpu0", 2**30), ("gpu1", 2**31)}


def test_a_gpu_keeps_room_for_its_context_where_no_limit_is_given() -> None:
    facts = found(None, devices="rtx3090", args=batch(8), time_limit=1e-6)
    memory = as_machine("rtx3090").devices[0].memory_bytes
    assert memory is not None
    assert {each.limit_bytes for each in facts.setups} == {memory - CONTEXT_BYTES}
    assert "614 MiB more are left to CUDA's context" in about_words(facts)
    assert "context" not in about_words(found("1GiB", devices="rtx3090", args=batch(8), time_limit=1e-6))


class Fixed(Loss):
    """Refuses other batches."""

    def forward(self, x: Any, y: Any) -> Any:
        return super().forward(x.reshape(64, 256), y)


def test_what_refuses_another_batch_is_said_and_left_out() -> None:
    facts = found("1GiB", Fixed(), args=batch(64))
    assert {each.batch_words for each in facts.setups} == {"64"}
    assert any("PyTorch cannot trace Fixed with these arguments: " in each for each in facts.left_out)


def test_a_batch_is_taken_in_parts_that_it_has() -> None:
    facts = found("1GiB", args=batch(6))
    assert {each.batch_words for each in facts.setups} == {"6", "3 x 2", "3", "12", "24"}


def test_what_there_was_no_time_for_is_said() -> None:
    facts = found("1GiB", args=batch(8), time_limit=1e-6)
    assert {(each.batch_words, each.dtype) for each in facts.setups} == {("8", "float32")}
    assert "bfloat16 autocast: there was no time for it" in facts.left_out


def test_adapters_are_ranked_as_something_else() -> None:
    pytest.importorskip("peft")
    facts = found("1GiB", args=batch(8), adapters=True)
    adapted = [each for each in facts.setups if "LoRA" in each.changes]
    assert adapted
    # Each layer has two factors of rank 16 in addition to the frozen weights.
    assert {each.optimizer_bytes for each in adapted} == {2 * 8 * (256 * 16 + 16 * 256) * 4}


def test_whether_it_fits_is_one_line() -> None:
    own = batch(64)
    answer = placewright.fits(Loss(), own, "a100")
    assert answer
    assert str(answer).startswith("fits a100: batch 64, float32, AdamW needs ")
    assert "\n" not in str(answer)
    answer = placewright.fits(Loss(), own, "a100", memory_limit="1MiB")
    assert not answer
    assert str(answer).endswith(" too much; placewright.alternatives tells what fits")
    assert answer.facts.setup.peak_bytes > MIB
    with pytest.raises(InputError, match="'2xh100' has 2 devices; fits is asked of one"):
        placewright.fits(Loss(), own, "2xh100")


class Idle(Loss):
    """Has a parameter that nothing reads, about which a capture warns."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = torch.nn.Parameter(torch.randn(3))


def test_what_every_capture_warns_of_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    found("1GiB", Idle(), args=batch(8))
    own = [record.getMessage() for record in caplog.records if record.name.startswith("placewright")]
    assert len(own) == 1
    assert "the loss does not depend on 1 of the parameters (idle)" in own[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"args": ()}, "no argument of the module is a tensor with a batch dimension"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; it must be one of adamw, adam, adam8bit, sgd, sgd-momentum, or"),
        ({"optimizer": 7}, "optimizer is a int, and what it holds is not known; give Adam, AdamW or SGD"),
        ({"memory_limit": "8 apples"}, "size '8 apples' has the unknown unit 'apples'"),
        ({"time_limit": "soon"}, "soon"),
        ({"evaluations": 0}, "evaluations is 0; it must be a whole number from 1"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        placewright.alternatives(Loss(), "h100", **{"args": batch(8), **options})


def test_a_graph_has_no_other_batches() -> None:
    graph = placewright.from_torch(Loss(), batch(8), training=True)
    with pytest.raises(InputError, match=r"alternatives are of a PyTorch module, .* and this is a Graph"):
        placewright.alternatives(graph, "h100", args=batch(8))


def test_every_code_that_is_offered_runs_and_trains() -> None:
    codes: dict[Any, TrainingSetup] = {}
    for limit in ("30MiB", "1GiB"):
        for setup in found(limit, devices="cpu", args=batch(512), adapters=limit == "1GiB").setups:
            if setup.fits:
                kind = (setup.planned, setup.accumulation > 1, setup.autocast, setup.changes, setup.num_checkpointed)
                codes.setdefault(kind, setup)
    assert {kind[0] for kind in codes} == {kind[1] for kind in codes} == {kind[2] for kind in codes} == {True, False}
    for setup in codes.values():
        model, samples = Loss(), batch(setup.batch * setup.accumulation)
        space = {"torch": torch, "placewright": placewright, "model": model, "batch": samples}
        before = [each.detach().clone() for each in model.parameters() if each.requires_grad]
        exec(setup.code, space)
        after = [each.detach() for each in space["model"].parameters() if each.requires_grad]
        if not setup.changes:
            assert not any(torch.equal(now, then) for now, then in zip(after, before, strict=True)), setup.words
        assert all(bool(each.isfinite().all()) for each in after), setup.words
