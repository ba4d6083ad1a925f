"""Runs a random module as planned beside the same module in eager, and tells every difference."""

from __future__ import annotations

import collections
import contextlib
import copy
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from random_modules import LOSSES, Case
from random_parts import Python
from torch import nn

import placewright
from placewright.execution.pytorch import profile as profiling
from placewright.importers.torch_trace import default_loss, mode_set
from placewright.support.errors import PlacewrightError

_OF_MODULES = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "training"}


class Facts:
    """What is there: by path, values of tensors and Python's, and which of them share memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ids: dict[str, int] = {}
        self._first: dict[int, str] = {}
        self._memory: dict[int, str] = {}
        self.ties: dict[str, str] = {}
        self.memory: dict[str, str] = {}
        self._alive: list[Any] = []

    def module(self, model: Any) -> Facts:
        for path, module in model.named_modules(remove_duplicate=False):
            for key, value in vars(module).items():
                # PyTorch's old hooks of weights keep there what the last call has computed.
                if key not in _OF_MODULES and not (key == "weight" and type(module) is nn.Linear):
                    self.read(f"{path}.{key}", value)
            for key in _OF_MODULES - {"_modules"}:
                if isinstance(found := vars(module).get(key), dict):
                    self.values[f"{path}.{key}"] = len(found)
            self.values[f"{path}()"] = (type(module).__name__, list(dict(module.named_children())))
        return self

    def read(self, path: str, value: Any, depth: int = 0) -> None:
        self._alive.append(value)
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif depth > 7 or isinstance(value, (nn.Module, type)) or callable(value):
            self.values[path] = type(value)
        elif isinstance(value, dict):
            self.values[path] = [type(value), [str(key) for key in value]]
            for key, each in value.items():
                self.read(f"{path}.{key}", each, depth + 1)
        elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            self.values[path] = [type(value), len(value)]
            for key, each in enumerate(value):
                self.read(f"{path}.{key}", each, depth + 1)
        elif hasattr(value, "__dict__") and type(value).__module__.split(".")[0] not in ("torch", "numpy"):
            self.values[path] = type(value)
            self.read(f"{path}.", vars(value), depth + 1)
        elif hasattr(value, "__slots__"):
            for key in value.__slots__:
                self.read(f"{path}.{key}", getattr(value, key, None), depth + 1)
        else:
            self.values[path] = (type(value), repr(value))

    def _tensor(self, path: str, tensor: Any) -> None:
        self.values[path] = Seen(tensor)
        self.ids[path] = id(tensor)
        self.ties[path] = self._first.setdefault(id(tensor), path)
        if tensor.numel() and not tensor.is_sparse:
            self.memory[path] = self._memory.setdefault(tensor.untyped_storage().data_ptr(), path)
        if tensor.is_leaf and tensor.grad is not None:
            self.read(f"{path}.grad", tensor.grad)

    def generators(self) -> Facts:
        self.values["python's generator"] = random.getstate()
        self.values["numpy's generator"] = repr(np.random.get_state())
        self.values["pytorch's generator"] = Seen(torch.get_rng_state())
        self.values["modes"] = (
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip
        return self


class Seen:
    """A tensor as it was."""

    def __init__(self, tensor: Any) -> None:
        self.requires_grad, self.dtype, self.shape = tensor.requires_grad, tensor.dtype, tuple(tensor.shape)
        self.kind, self.leaf = type(tensor), tensor.is_leaf
        strides = tensor.stride() if tensor.layout == torch.strided else ()
        self.stride = tuple(stride for stride, size in zip(strides, tensor.shape, strict=False) if size > 1)
        dense = tensor.detach()
        self.value = (dense.to_dense() if tensor.is_sparse else dense).clone().resolve_conj()

    def difference(self, other: Any, tolerance: float = 0.0) -> str | None:
        if not isinstance(other, Seen):
            return f"tensor and {other!r}"
        for what in ("kind", "dtype", "shape", "requires_grad", "leaf"):
            if getattr(self, what) != getattr(other, what):
                return f"{what} {getattr(self, what)} != {getattr(other, what)}"
        one, two = self.value, other.value
        if torch.equal(one, two) or same_bits(one, two):
            return None if self.stride == other.stride or one.numel() < 2 else f"stride {self.stride} != {other.stride}"
        gap = (one.to(torch.complex128) - two.to(torch.complex128)).abs().nan_to_num(9e9).max().item()
        return None if gap <= tolerance else f"bits: {gap:.3g}"


def same_bits(one: Any, two: Any) -> bool:
    return bool(((one == two) | ((one != one) & (two != two))).all())


def differences(eager: Facts, ours: Facts, tolerance: float = 0.0, *, ids: bool = False) -> Iterator[str]:
    for path in {**eager.values, **ours.values}:
        if path not in eager.values or path not in ours.values:
            yield f"{path}: only {'ours' if path in ours.values else 'eager'}"
            continue
        one, two = eager.values[path], ours.values[path]
        if isinstance(one, Seen):
            if why := one.difference(two, tolerance):
                yield f"{path}: {why}"
        elif isinstance(two, Seen) or one != two:
            yield f"{path}: {str(one)[:60]} != {str(two)[:60]}"
    for path in eager.ties:
        if path in ours.ties and eager.ties[path] != ours.ties[path]:
            yield f"{path}: tie {eager.ties[path]} != {ours.ties[path]}"
    for path in eager.memory:
        if path in ours.memory and eager.memory[path] != ours.memory[path]:
            yield f"{path}: memory {eager.memory[path]} != {ours.memory[path]}"
    if ids:
        for path in eager.ids:
            if path in ours.ids and eager.ids[path] != ours.ids[path]:
                yield f"{path}: another tensor"


class Side:
    """A module with what belongs to it."""

    def __init__(self, case: Case, drive: Any) -> None:
        self.case = copy.copy(case)
        self.model = self.case.build()
        self.prepare(drive)
        self.optimizer, self.scheduler = make_optimizer(drive, self.model)
        self.args: Any = None

    def prepare(self, drive: Any) -> None:
        if drive.begins == "eval":
            self.model.eval()
        elif drive.begins == "mixed":
            for number, module in enumerate(list(self.model.modules())[1:]):
                module.training = bool((number + self.case.seed) % 2)
        elif drive.begins == "mixed_eval":
            self.model.eval()
            for number, module in enumerate(list(self.model.modules())[1:]):
                module.training = bool((number + self.case.seed) % 2)

    def facts(self) -> Facts:
        found = Facts().module(self.model)
        found.read("args", self.args)
        found.read("outside", self.case.outside)
        found.read("log", self.case.log)
        if self.optimizer is not None:
            found.read("optimizer", {
                "state": [dict(self.optimizer.state.get(p, {})) for p in self.model.parameters()],
                "groups": [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups],
                "scheduler": None if self.scheduler is None else {
                    k: v for k, v in vars(self.scheduler).items() if k in ("last_epoch", "_step_count", "_last_lr")
                },
            })  # fmt: skip
        return found.generators()


def make_optimizer(drive: Any, model: Any) -> tuple[Any, Any]:
    parameters = list(model.parameters())
    if drive.optimizer is None or not parameters:
        return None, None
    kind, options, groups, scheduled, hooked = drive.optimizer
    given: Any = parameters
    if groups and len(parameters) > 1:
        given = [{"params": parameters[::2], "lr": 0.03}, {"params": parameters[1::2]}]
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](
        given, **copy.deepcopy(options)
    )
    if hooked:
        optimizer.register_step_post_hook(lambda o, a, k: o.param_groups[0].update(lr=o.param_groups[0]["lr"] * 0.9))
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if scheduled else None


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("sgd", {"lr": 0.1, "momentum": 0.5, "dampening": 0.1, "maximize": True, "foreach": True}),
    ("adam", {"lr": 0.01}),
    ("adam", {"lr": 0.01, "amsgrad": True, "foreach": True}),
    ("adam", {"lr": 0.01, "fused": True}),
    ("adamw", {"lr": 0.01}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    ("adam", {"lr": torch.tensor(0.01), "weight_decay": 0.1}),
    ("adamw", {"lr": 0.01, "betas": (0.5, 0.9), "foreach": False}),
]


class Drive:
    """How a case is run."""

    def __init__(self, case: Case) -> None:
        draw = case.source("drive")
        self.training = draw.random() < 0.55
        self.begins = draw.choices(["train", "eval", "mixed", "mixed_eval"], [3, 1, 0.6, 0.4])[0]
        self.grad = draw.choices(["grad", "no_grad", "inference", "autocast"], [4, 3, 0.5, 0.3])[0]
        self.optimizer = None
        if self.training and draw.random() < 0.35:
            kind, options = draw.choice(OPTIMIZERS)
            self.optimizer = (kind, options, draw.random() < 0.2, draw.random() < 0.3, draw.random() < 0.2)
        self.kinds = [case.kinds(draw)]
        self.steps = draw.choice([2, 3, 3])
        for _ in range(self.steps):
            self.kinds.append(case.kinds(draw) if draw.random() < 0.25 else self.kinds[-1])
        self.changes = [draw.choice(list(CHANGES)) if draw.random() < 0.4 else None for _ in range(self.steps)]
        sees_gradients = {"grad", "penalty", "requires_grad", "x_requires_grad"}
        if not self.training and sees_gradients & {part.tells for part in case.build().parts}:
            # An inference is captured as it is without gradients.
            self.grad = "no_grad"

    def tells(self) -> str:
        last = None
        kinds = []
        for each in self.kinds:
            kinds.append("same" if each is last else str({k: v for k, v in each.items() if v != "absent"}))
            last = each
        way = f"training, optimizer {self.optimizer}" if self.training else "inference"
        return f"{way}, begins {self.begins}, {self.grad}, {kinds}, changes {self.changes}"


def _linears(model: Any) -> list[tuple[Any, str]]:
    return [
        (module, name) for module in model.modules() for name, child in module.named_children()
        if type(child) is nn.Linear
    ]  # fmt: skip


def _values(side: Side) -> None:
    with torch.no_grad():
        for parameter in side.model.parameters():
            parameter.mul_(0.9)


def _data(side: Side) -> None:
    for parameter in side.model.parameters():
        parameter.data = parameter.data * 0.9


def _replace_layer(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        old = getattr(module, name)
        torch.manual_seed(1)
        setattr(module, name, nn.Linear(4, old.out_features, dtype=old.weight.dtype))


def _replace_kind(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        old = getattr(module, name)
        torch.manual_seed(1)
        setattr(module, name, nn.Sequential(nn.Linear(4, old.out_features, dtype=old.weight.dtype), nn.Tanh()))


def _replace_parameter(side: Side) -> None:
    for module in side.model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                setattr(module, name, nn.Parameter(parameter.detach() * 0.5, requires_grad=parameter.requires_grad))
                return


def _replace_buffer(side: Side) -> None:
    for module in side.model.modules():
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_floating_point():
                setattr(module, name, buffer * 0.5)


def _hook(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        getattr(module, name).register_forward_hook(lambda m, a, out: out * 2)


def _tensor_hook(side: Side) -> None:
    for parameter in [p for p in side.model.parameters() if p.requires_grad][:1]:
        parameter.register_hook(lambda g: g * 2)


def _dropout(side: Side) -> None:
    for module in side.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.7
        if isinstance(module, (nn.LSTM, nn.GRU)):
            module.dropout = 0.1


def _attribute(side: Side) -> None:
    for part in side.model.parts:
        for name, value in (("number", 2), ("flag", True), ("name", "b"), ("factor", 3), ("scaled", True)):
            if hasattr(part, name):
                setattr(part, name, value)


def _load(side: Side) -> None:
    state = {key: value * 0.5 if value.is_floating_point() else value for key, value in
             side.model.state_dict().items() if isinstance(value, torch.Tensor)}  # fmt: skip
    side.model.load_state_dict(state, strict=False)


def _load_assigned(side: Side) -> None:
    state = {key: value * 0.5 if value.is_floating_point() else value for key, value in
             side.model.state_dict().items() if isinstance(value, torch.Tensor)}  # fmt: skip
    side.model.load_state_dict(state, strict=False, assign=True)


def _tie(side: Side) -> None:
    found = [getattr(module, name) for module, name in _linears(side.model)]
    if len(found) > 1 and found[0].weight.shape == found[1].weight.shape:
        found[1].weight = found[0].weight


def _untie(side: Side) -> None:
    for part in side.model.parts:
        if part.tells == "tied":
            part.layer[2].weight = nn.Parameter(part.layer[2].weight.detach().clone())


def _freeze(side: Side) -> None:
    for parameter in list(side.model.parameters())[:1]:
        parameter.requires_grad_(not parameter.requires_grad)


def _grads(side: Side) -> None:
    for number, parameter in enumerate(side.model.parameters()):
        if parameter.requires_grad and parameter.is_floating_point():
            parameter.grad = torch.full_like(parameter, 0.5 * number, requires_grad=False)


def _shared_grads(side: Side) -> None:
    """A gradient that a parameter has in common with what the user keeps."""
    kept = torch.zeros(100, dtype=side.case.dtype)
    side.case.outside.append(kept)
    for parameter in [p for p in side.model.parameters() if p.requires_grad and p.dtype == kept.dtype][:1]:
        if parameter.numel() <= 100:
            parameter.grad = kept[: parameter.numel()].view(parameter.shape)


def _kept_grads(side: Side) -> None:
    """Gradients of the step before are kept by the user."""
    side.case.outside += [p.grad for p in side.model.parameters() if p.grad is not None]


def _settings(side: Side) -> None:
    if side.optimizer is not None:
        for group in side.optimizer.param_groups:
            group["lr"] = 0.003
            group["weight_decay"] = 0.2


def _optimizer_state(side: Side) -> None:
    if side.optimizer is not None:
        side.optimizer.load_state_dict(copy.deepcopy(side.optimizer.state_dict()))


def _outside(side: Side) -> None:
    with torch.no_grad():
        for tensor in side.case.outside:
            if tensor.is_floating_point():
                tensor.mul_(0.5)


def _put(side: Side) -> None:
    for part in side.model.parts:
        if hasattr(part, "_put"):
            part._put(torch.rand(3, 4, generator=torch.Generator().manual_seed(2), dtype=side.case.dtype))


def _swap(side: Side) -> None:
    parts = side.model.parts
    if len(parts) > 1:
        parts[0], parts[1] = parts[1], parts[0]


def _drop_part(side: Side) -> None:
    if len(side.model.parts) > 1:
        del side.model.parts[-1]
        del side.model.back[-1]


def _forward(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        layer = getattr(module, name)
        layer.forward = lambda x, layer=layer: torch.tanh(x @ layer.weight.t())


def _log(side: Side) -> None:
    side.case.log.append("by hand")
    for part in side.model.parts:
        if isinstance(part, Python):
            part.log.append(2.0)


def _one_eval(side: Side) -> None:
    side.model.parts[0].eval()


def _one_train(side: Side) -> None:
    side.model.parts[-1].train()


def _double(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        getattr(module, name).bias = None


def _parametrize(side: Side) -> None:
    for module, name in _linears(side.model)[:1]:
        torch.nn.utils.parametrizations.weight_norm(getattr(module, name))


def _momentum(side: Side) -> None:
    for module in side.model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.momentum = 0.5
            module.eps = 0.01


def _zero_none(side: Side) -> None:
    side.model.zero_grad(set_to_none=True)


def _zero(side: Side) -> None:
    side.model.zero_grad(set_to_none=False)


CHANGES: dict[str, Callable[[Side], None]] = {
    "values": _values, "data": _data, "layer": _replace_layer, "kind": _replace_kind, "parameter": _replace_parameter,
    "buffer": _replace_buffer, "hook": _hook, "tensor_hook": _tensor_hook, "dropout": _dropout,
    "attribute": _attribute, "load": _load, "load_assigned": _load_assigned, "tie": _tie, "untie": _untie,
    "freeze": _freeze, "grads": _grads, "shared_grads": _shared_grads, "kept_grads": _kept_grads,
    "settings": _settings, "optimizer_state": _optimizer_state, "outside": _outside, "put": _put, "swap": _swap,
    "drop_part": _drop_part, "forward": _forward, "log": _log, "one_eval": _one_eval, "one_train": _one_train,
    "no_bias": _double, "parametrize": _parametrize, "momentum": _momentum, "zero_none": _zero_none, "zero": _zero,
    "eval": lambda side: side.model.eval(), "train": lambda side: side.model.train(),
}  # fmt: skip


class Refused(Exception):  # noqa: N818
    """Placewright raised one of its errors; where is "compile" or "call"."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(str(error))
        self.where = where


class EagerRaises(Exception):  # noqa: N818
    """The module itself cannot be called so."""


def seeded(case: Case, step: int) -> None:
    torch.manual_seed(case.seed + step)
    random.seed(case.seed + step)
    np.random.seed((case.seed + step) % 2**32)


def _context(name: str) -> Any:
    return {
        "grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    }[name]()  # fmt: skip


def eager_step(side: Side, drive: Drive, loss: Any) -> Any:
    args, kwargs = side.args
    with mode_set(side.model, drive.training):
        if not drive.training:
            with _context(drive.grad):
                return side.model(*args, **kwargs)
        value = loss(side.model(*args, **kwargs))
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise EagerRaises("no loss")
        value.backward()
    if side.optimizer is not None:
        side.optimizer.step()
        for parameter in side.model.parameters():
            parameter.grad = None
        if side.scheduler is not None:
            side.scheduler.step()
    return value.detach()


#: What PyTorch captures otherwise than it computes (docs/tutorials/running.md), and how far results may differ.
_OTHER_BITS = {
    **dict.fromkeys(("lstm", "lstm_two", "lstm_both", "lstm_proj", "lstm_proj_drop", "lstm_packed", "lstm_state",
                     "gru", "gru_both", "gru_packed", "rnn", "rnn_relu"), 1e-4),
    **dict.fromkeys(("attention", "attention_first", "attention_weights", "encoder", "encoder_post", "decoder"), 1e-5),
    "dropout_bf16": 0.1,
}  # fmt: skip


def tolerance(case: Case, drive: Drive) -> float:
    """How far results may differ; an Adam divides small gradients by small ones."""
    found = max((_OTHER_BITS.get(part.tells, 0.0) for part in case.build().parts), default=0.0)
    return 1.0 if found and drive.optimizer is not None and "adam" in drive.optimizer[0] else found


def run(case: Case, drive: Drive | None = None) -> list[str]:
    """Every difference between a case in eager and as planned; raises what placewright raises other than its errors.

    Raises Refused where it is refused, and EagerRaises where the module itself raises.
    """
    drive = drive or Drive(case)
    loss = LOSSES[case.loss]
    eager = Side(case, drive)
    ours = Side(case, drive)
    ours.args = ours.case.arguments(0, drive.kinds[0])
    # Whether the module runs at all, on a third one.
    third = Side(case, drive)
    third.args = third.case.arguments(0, drive.kinds[0])
    seeded(case, 0)
    try:
        eager_step(third, drive, loss or default_loss)
    except Exception as error:
        raise EagerRaises(f"{type(error).__name__}: {error}") from error
    seeded(case, 77)
    before = ours.facts()
    found = []
    compiled = None
    try:
        try:
            compiled = placewright.compile(
                ours.model, ours.args[0], kwargs=ours.args[1], training=drive.training,
                loss=loss if drive.training else None, optimizer=ours.optimizer, devices="cpu:0,cpu:1",
                solver="random-placement", seed=case.seed, evaluations=30,
            )  # fmt: skip
        except PlacewrightError as error:
            found += [f"compile (refused) changes {each}" for each in differences(before, ours.facts(), ids=True)]
            if found:
                return found
            raise Refused("compile", error) from error
        found += [f"compile changes {each}" for each in differences(before, ours.facts(), ids=True)]
        if not found:
            found = _steps(case, drive, eager, ours, compiled, loss)
    finally:
        if compiled is not None:
            compiled.close()
    return found


def _steps(case: Case, drive: Drive, eager: Side, ours: Side, compiled: Any, loss: Any) -> list[str]:
    for step in range(drive.steps):
        change = drive.changes[step - 1] if step else None
        if change is not None:
            try:
                CHANGES[change](eager)
            except Exception as error:
                raise EagerRaises(f"change {change}: {error}") from error
            CHANGES[change](ours)
        kinds = drive.kinds[step]
        for side in (eager, ours):
            side.args = side.case.arguments(step, kinds)
        seeded(case, step)
        try:
            wanted = eager_step(eager, drive, loss or default_loss)
        except Exception as error:
            raise EagerRaises(f"step {step}: {type(error).__name__}: {error}") from error
        expected = eager.facts()
        expected.read("result", wanted)
        seeded(case, step)
        before = ours.facts()
        try:
            with _context(drive.grad) if not drive.training else contextlib.nullcontext():
                result = compiled(*ours.args[0], **ours.args[1])
            if drive.training and ours.scheduler is not None:
                ours.scheduler.step()
        except PlacewrightError as error:
            if found := [f"step {step} (refused: {error}) changes {each}" for each in
                         differences(before, ours.facts(), ids=True)]:  # fmt: skip
                return found
            raise Refused(f"step {step}", error) from error
        got = ours.facts()
        got.read("result", result)
        if found := [f"step {step}: {each}" for each in differences(expected, got, tolerance(case, drive))]:
            return found
    return []


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Ops are timed seldom, on one thread each; PyTorch's warnings are not shown."""
    before = profiling._PASSES_NS, profiling._MIN_PASSES, torch.get_num_threads()
    profiling._PASSES_NS, profiling._MIN_PASSES = 0, 1
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        profiling._PASSES_NS, profiling._MIN_PASSES = before[:2]
        torch.set_num_threads(before[2])
        logging.disable(logging.NOTSET)


def smaller(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case with parts left out as long as it still fails."""
    keep: Sequence[int] = case.keep
    shrunk = True
    while shrunk and len(keep) > 1:
        shrunk = False
        for number in keep:
            other = copy.copy(case)
            other.keep = [each for each in keep if each != number]
            if fails(other):
                case, keep, shrunk = other, other.keep, True
                break
    return case
