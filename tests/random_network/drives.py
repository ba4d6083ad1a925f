"""Ways to run a random module, and changes that its owner makes between two calls."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from random_modules import Case
from random_network.facts import Facts
from random_network.python import Python
from torch import nn


class Side:
    """A module with what belongs to it."""

    def __init__(self, case: Case, drive: Any) -> None:
        self.case = copy.copy(case)
        self.model = self.case.build()
        self.call: Any = self.model
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


#: Parts that PyTorch captures otherwise than it computes (docs/tutorials/running.md), and how far results may differ.
OTHER_BITS = {
    **dict.fromkeys(("lstm", "lstm_two", "lstm_both", "lstm_proj", "lstm_proj_drop", "lstm_packed", "lstm_state",
                     "gru", "gru_both", "gru_packed", "rnn", "rnn_relu"), 1e-4),
    **dict.fromkeys(("attention", "attention_first", "attention_weights", "encoder", "encoder_post", "decoder"), 1e-5),
    "prod": 1e-4,
    "dropout_bf16": 0.1,
}  # fmt: skip


class Drive:
    """The way to run a case, drawn at random: training or inference, steps and changes between them."""

    def __init__(self, case: Case) -> None:
        draw = case.source("drive")
        self.training = draw.random() < 0.55
        self.begins = draw.choices(["train", "eval", "mixed", "mixed_eval"], [3, 1, 0.6, 0.4])[0]
        self.grad = draw.choices(["grad", "no_grad", "inference", "autocast"], [4, 3, 0.5, 0.3])[0]
        self.optimizer: Any = None
        if self.training and draw.random() < 0.35:
            kind, options = draw.choice(OPTIMIZERS)
            self.optimizer = (kind, options, draw.random() < 0.2, draw.random() < 0.3, draw.random() < 0.2)
        if self.optimizer is not None and "adam" in self.optimizer[0]:
            kind, options, *rest = self.optimizer
            if any(part.tells in OTHER_BITS for part in case.build().parts):
                # Adam divides small gradients by small ones, which turns small differences into large ones.
                self.optimizer = (kind, {**options, "eps": 0.01}, *rest)
        self.kinds = [case.kinds(draw)]
        self.steps = draw.choice([2, 3, 3])
        for _ in range(self.steps):
            self.kinds.append(case.kinds(draw) if draw.random() < 0.25 else self.kinds[-1])
        self.changes = [draw.choice(list(CHANGES)) if draw.random() < 0.4 else None for _ in range(self.steps)]
        sees_gradients = {"grad", "penalty", "requires_grad", "x_requires_grad", "svd", "eigh"}
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
