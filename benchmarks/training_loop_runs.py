"""A training loop while it runs: model, optimizer and what belongs to them, and the call that makes a training step."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import swa_utils
from training_loop_events import EVENTS
from training_loop_networks import CLASSES, STEMS, VOCABULARY, Objective, Output
from training_loop_optimizers import made_optimizer, made_scheduler
from training_loop_records import Record, flat, kept, of_module, shared_memory, states_of

import placewright

if TYPE_CHECKING:
    from training_loops import Loop

WAYS = ("fit", "fit-limit", "fit-optimizer", "backend", "dynamo")
#: Plans are found quickly: only equality counts.
PLANNING: dict[str, Any] = {"evaluations": 20, "seed": 1}
#: After so many refusals a loop is given up, since each of them may take a second.
MOST_REFUSALS = 3
AMPLE = "1GiB"


class CallError(Exception):
    """The call of a training step raised; its cause is what it raised."""


def reset() -> None:
    """Take back what events change in PyTorch."""
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(False)
    torch.backends.mkldnn.set_flags(True)
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")
    torch._dynamo.reset()
    random.seed(0)


def sentence(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def loss_function(weights: dict[str, float], scaler: Any) -> Callable[[Any], Any]:
    """What makes a scalar of the objective's output, in eager and in a planned step."""

    def scaled(output: Any) -> Any:
        if isinstance(output, Output):
            loss = output.loss
        else:
            loss = output if output.dim() == 0 else output.square().mean() * weights["weight"]
        return loss if scaler is None else scaler.scale(loss)

    return scaled


class Run:
    """A loop that runs in one way. log: what hooks saw; held: gradients and losses that the loop keeps."""

    def __init__(self, description: Loop, way: str) -> None:
        self.description, self.name, self.number = description, way, 0
        torch.manual_seed(description.seed)
        self.model = Objective(description.stem, description.parts, description.style, description.seed)
        self.dtype, self.autocast, self.infinite = torch.float32, False, False
        self.to_none, self.arguments_require_grad = description.to_none, description.arguments_require_grad
        self.log: list[Any] = []
        self.held: dict[str, Any] = {}
        self.handles: list[Any] = []
        self.refusals: list[tuple[int, str, str]] = []
        self.weights, self.reruns = {"weight": 1.0}, 0
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2) if description.scaler else None
        if self.scaler is not None:
            self.scaler.scale(torch.ones(()))
        self.loss = loss_function(self.weights, self.scaler)
        self.planned: Any = None
        self.renew_optimizer()
        self.forward: Any = self.model
        if way in ("backend", "dynamo"):
            self.forward = self.compiled()
        elif way.startswith("fit") and description.planned_early:
            self.refusable(lambda: self.plan(self.batch(0)))

    def renew_optimizer(self) -> None:
        """An optimizer of the parameters that there are now, and what hangs on it."""
        given = self.description
        self.optimizer = made_optimizer(
            given.optimizer, given.options, self.model, given.groups, given.left_out, given.subclass
        )
        self.scheduler = made_scheduler(given.scheduler, self.optimizer, len(given.batches))
        average = None if given.ema == "average" else swa_utils.get_ema_multi_avg_fn(0.9)
        averaging = {"multi_avg_fn": average, "use_buffers": given.ema == "ema buffers"}
        self.ema = swa_utils.AveragedModel(self.model, **averaging) if given.ema else None
        self.saved: Any = None
        if self.name == "fit-optimizer":
            self.forget()

    def compiled(self) -> Any:
        if self.name == "dynamo":
            return torch.compile(self.model, backend="aot_eager")
        return torch.compile(self.model, backend="placewright", options={"devices": "cpu:0", **PLANNING})

    def fitted(self, args: Any, limit: int | str) -> Any:
        loss = self.loss if self.scaler is not None or self.description.style == "function" else None
        optimizer = self.optimizer if self.name == "fit-optimizer" else None
        return placewright.fit(self.model, args, limit, loss=loss, optimizer=optimizer, **PLANNING)

    def plan(self, args: Any) -> None:
        """Compile the step, with a limit below the peak of a first plan where the way has one."""
        if self.name != "fit-limit":
            self.planned = self.fitted(args, AMPLE)
            return
        with self.fitted(args, AMPLE) as first:
            # What is captured as several graphs has no plan before its first call.
            peak = first.plan.peak_bytes[0] if first.plans else 2**30
        try:
            self.planned = self.fitted(args, peak * 8 // 10)
        except Exception as error:
            if "plan" not in str(error):
                raise
            self.planned = self.fitted(args, peak * 9 // 10)

    def forget(self) -> None:
        if self.planned is not None:
            self.planned.close()
        self.planned = None

    def autocasting(self) -> Any:
        return torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext()

    def eager(self, *args: Any) -> Any:
        with self.autocasting():
            loss = self.loss(self.forward(*args))
        loss.backward()
        if self.description.inside:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def way(self, *args: Any) -> Any:
        """A training step in the run's way."""
        if not self.name.startswith("fit"):
            return self.eager(*args)
        with self.autocasting():
            if self.planned is None:
                self.plan(args)
            result = self.planned(*args)
            self.reruns = max(self.reruns, *(len(plan.reruns) for plan in self.planned.plans))
            return result

    def refusable(self, call: Callable[[], Any]) -> Any:
        """What a call gives, or None where it raises, which is kept as a refusal."""
        try:
            return call()
        except Exception as error:
            self.refusals.append((self.number, type(error).__name__, sentence(error)))
            self.forget()
            if len(self.refusals) >= MOST_REFUSALS:
                raise CallError from error
            return None

    def call(self, *args: Any) -> Any:
        """A training step. A refused one is planned once more, then left to the model itself, as a user would."""
        if not self.name.startswith("fit"):
            try:
                return self.way(*args)
            except Exception as error:
                raise CallError from error
        compiled_before = self.planned is not None
        loss = self.refusable(lambda: self.way(*args))
        if loss is None and compiled_before:
            loss = self.refusable(lambda: self.way(*args))
        return self.eager(*args) if loss is None else loss

    def batch(self, number: int, part: int = 0) -> tuple[Any, Any]:
        """The same input and target for a step and pass of every run."""
        generator = torch.Generator().manual_seed(self.description.seed * 1000 + number * 10 + part)
        size, stem = self.description.batches[number], self.description.stem
        target = torch.randint(CLASSES, (size,), generator=generator)
        shape = (size, *STEMS[stem][1])
        if stem == "tokens":
            return torch.randint(VOCABULARY, shape, generator=generator), target
        x = torch.randn(shape, generator=generator).to(self.dtype)
        if self.infinite:
            x.view(-1)[0], self.infinite = float("inf"), False
        return x.requires_grad_(self.arguments_require_grad), target

    def fire(self, when: str) -> None:
        for each in self.description.happenings:
            event, at, _ = EVENTS[each.name]
            if each.step == self.number and at == when:
                event(self, random.Random(each.number))

    def zero_grad(self) -> None:
        owner = self.model if self.description.zero_at == "model" else self.optimizer
        owner.zero_grad(set_to_none=self.to_none)

    def passes(self) -> list[tuple[Any, Any]]:
        """Batches of a step and their losses, gradients added up."""
        done = []
        for part in range(self.description.passes):
            args = self.batch(self.number, part)
            done.append((args, self.call(*args)))
        return done

    def optimized(self) -> None:
        """Unscaling, clipping, and the optimizer's step."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        clip, parameters = self.description.clip, list(self.model.parameters())
        if clip == "value":
            torch.nn.utils.clip_grad_value_(parameters, 0.05)
        elif clip:
            foreach = True if clip == "norm foreach" else None
            self.log.append(torch.nn.utils.clip_grad_norm_(parameters, 0.3, foreach=foreach))
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def closed(self) -> list[tuple[Any, Any]]:
        """The optimizer's step with a closure that makes the passes, as often as it likes."""
        done: list[tuple[Any, Any]] = []

        def closure() -> Any:
            self.zero_grad()
            done.extend(self.passes())
            return done[-1][1]

        self.optimizer.step(closure)
        return done

    def step(self, number: int) -> Record:
        """One step of the loop, and what it leaves."""
        self.number = number
        at = self.description.zero_at
        if at in ("begin", "model") or (at == "second" and number % 2 == 0):
            self.zero_grad()
        self.fire("before")
        if self.description.closure:
            done = self.closed()
            self.fire("between")
        else:
            done = self.passes()
            self.fire("between")
            if not self.description.inside:
                self.optimized()
        if self.scheduler is not None:
            plateau = self.description.scheduler == "ReduceLROnPlateau"
            self.scheduler.step(*([float(done[-1][1])] if plateau else []))
        if self.ema is not None:
            self.ema.update_parameters(self.model)
        self.fire("after")
        record = self.record(done)
        self.hold(done)
        if at == "end":
            self.zero_grad()
        return record

    def record(self, done: list[tuple[Any, Any]]) -> Record:
        record: Record = {}
        for number, (args, loss) in enumerate(done):
            record[f"loss {number}"] = kept(loss)
            record[f"gradient of argument {number}"] = None if args[0].grad is None else kept(args[0].grad)
        record |= flat("log", self.log)
        record |= of_module("model", self.model)
        record |= flat("optimizer", self.optimizer.state_dict())
        record["steps of the optimizer"] = getattr(self.optimizer, "steps_made", None)
        for name, each in (("scheduler", self.scheduler), ("scaler", self.scaler)):
            record |= flat(name, each.state_dict() if each is not None else {})
        if self.ema is not None:
            record |= of_module("average", self.ema)
        return record | {"generator of torch": torch.get_rng_state()}

    def hold(self, done: list[tuple[Any, Any]]) -> None:
        """Keep what the step gave, as a loop does that logs it: later steps may not write to it unless eager does."""
        for number, (args, loss) in enumerate(done):
            self.held |= {f"{self.number} loss {number}": loss, f"{self.number} argument {number}": args[0]}
            self.held[f"{self.number} gradient of argument {number}"] = args[0].grad
        for path, parameter in self.model.named_parameters():
            self.held[f"{self.number} gradient {path}"] = parameter.grad

    def end(self) -> Record:
        """What was held, and which tensors share memory."""
        parameters, buffers = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        named = self.held | states_of(self.optimizer) | parameters | buffers
        held = {f"held {name}": None if each is None else kept(each) for name, each in self.held.items()}
        return held | {"shared memory": str(shared_memory(named))}

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.forget()
