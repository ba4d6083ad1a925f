"""Optimizers and schedulers of random training loops, with options drawn for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import lr_scheduler

Options = dict[str, Any]


def some(choice: random.Random, **options: Sequence[Any]) -> Options:
    """Each of the options at a chance of a half, one of its values."""
    return {name: choice.choice(values) for name, values in options.items() if choice.random() < 0.5}


DECAY = (0.0, 0.01, 0.1)
OPTIMIZERS: dict[str, Callable[[random.Random], Options]] = {
    "SGD": lambda choice: choice.choice(
        [
            {},
            {"momentum": 0.9},
            {"momentum": 0.9, "nesterov": True},
            {"momentum": 0.8, "dampening": 0.1},
            {"weight_decay": 0.05},
        ]
    ),
    "Adam": lambda choice: some(choice, betas=[(0.8, 0.9), (0.9, 0.99)], amsgrad=[True], weight_decay=DECAY),
    "AdamW": lambda choice: some(choice, betas=[(0.8, 0.9), (0.9, 0.99)], amsgrad=[True], weight_decay=DECAY),
    "RMSprop": lambda choice: some(choice, centered=[True], momentum=[0.5], weight_decay=DECAY),
    "Adagrad": lambda choice: some(choice, lr_decay=[0.1], initial_accumulator_value=[0.1], weight_decay=DECAY),
    "Adadelta": lambda choice: some(choice, rho=[0.8], weight_decay=DECAY),
    "NAdam": lambda choice: some(choice, momentum_decay=[0.01], decoupled_weight_decay=[True], weight_decay=DECAY),
    "RAdam": lambda choice: some(choice, decoupled_weight_decay=[True], weight_decay=DECAY, betas=[(0.8, 0.9)]),
    "Adamax": lambda choice: some(choice, betas=[(0.8, 0.9)], weight_decay=DECAY),
    "ASGD": lambda choice: some(choice, lambd=[0.01], t0=[2.0], weight_decay=DECAY),
    "Rprop": lambda choice: some(choice, etas=[(0.4, 1.3)]),
    "Adafactor": lambda choice: some(choice, beta2_decay=[-0.7], d=[1.5], weight_decay=DECAY),
    "LBFGS": lambda choice: {"max_iter": 2, "history_size": 2},
}
PLANNED = ("SGD", "Adam", "AdamW")
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
RATES = (0.01, 0.03, 0.1)


def optimizer_options(choice: random.Random, name: str) -> Options:
    """Options of an optimizer: those of its own, and how it goes over the parameters."""
    options = {"lr": choice.choice(RATES), **OPTIMIZERS[name](choice)}
    if name == "LBFGS":
        return options
    ways: list[Options] = [{}, {"foreach": True}, {"foreach": False}]
    if name in FUSED:
        ways += [{"fused": True}] * 2
    options |= choice.choice(ways)
    if choice.random() < 0.2:
        options["maximize"] = True
    if name in PLANNED and options.get("foreach") is False and choice.random() < 0.4:
        options["tensor lr"] = True
    if name in ("RMSprop", "RAdam", "NAdam", "Adamax", *PLANNED[1:]) and choice.random() < 0.02:
        options["capturable"] = True
    return options


def subclass_of(kind: type[Any]) -> type[Any]:
    """An optimizer that pulls its parameters towards zero before each step, and counts its steps."""

    class Pulled(kind):
        steps_made = 0

        def step(self, closure: Any = None) -> Any:
            self.steps_made += 1
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(0.99)
            return super().step() if closure is None else super().step(closure)

    return Pulled


def groups_of(named: Sequence[tuple[str, Any]], count: int, left_out: bool, lr: float) -> list[Options]:
    """Parameters dealt to groups with rates of their own; of those left out is the first bias."""
    dealt: list[list[Any]] = [[] for _ in range(count)]
    bias = next((name for name, _ in named if "bias" in name), None) if left_out else None
    for number, (name, parameter) in enumerate(named):
        if name != bias:
            dealt[number % count].append(parameter)
    return [{"params": each, "lr": lr / (number + 1)} for number, each in enumerate(dealt) if each]


def made_optimizer(name: str, options: Options, model: Any, count: int, left_out: bool, subclass: bool) -> Any:
    """The optimizer, of the parameters that the model has now."""
    given = dict(options)
    kind = getattr(torch.optim, name)
    if subclass:
        kind = subclass_of(kind)
    named = list(model.named_parameters())
    if given.pop("tensor lr", False):
        given["lr"] = torch.tensor(given["lr"])
    if name == "LBFGS":
        return kind([parameter for _, parameter in named if parameter.requires_grad], **given)
    if count == 1 and not left_out:
        return kind(model.parameters(), **given)
    groups = groups_of(named, count, left_out, float(given["lr"]))
    if isinstance(given["lr"], torch.Tensor):
        for group in groups:
            group["lr"] = torch.tensor(group["lr"])
    return kind(groups, **given)


def made_scheduler(name: str, optimizer: Any, steps: int) -> Any:
    """A scheduler of the rates, or None."""
    if name == "StepLR":
        return lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    if name == "CosineAnnealingLR":
        return lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    if name == "OneCycleLR":
        group = optimizer.param_groups[0]
        cycle = "betas" in group or group.get("momentum", 0.0) > 0
        return lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=4 * steps + 8, cycle_momentum=cycle)
    if name == "LambdaLR":
        return lr_scheduler.LambdaLR(optimizer, lambda number: 0.7**number)
    if name == "ReduceLROnPlateau":
        return lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    return None


SCHEDULERS = ("StepLR", "CosineAnnealingLR", "OneCycleLR", "LambdaLR", "ReduceLROnPlateau")
