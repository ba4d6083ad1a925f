"""Events of random training loops: hooks, the optimizer, and PyTorch around the loop; and the table of all events."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from training_loop_changes import (
    all_to_train,
    change_loss_weight,
    drop_gradient,
    freeze,
    gradient_by_hand,
    load,
    move_dtype,
    noise,
    other_zero_grad,
    parameter,
    parametrize_or_not,
    part,
    part_to_eval,
    prune_or_not,
    replace_buffer,
    replace_data,
    replace_parameter,
    save,
    scale_gradient,
    swap_part,
    unfreeze,
    validate,
    write_parameter,
)
from training_loop_parts import WIDTH

if TYPE_CHECKING:
    from training_loop_runs import Run

Event = Callable[["Run", random.Random], None]

# Hooks


def tensor_hook(run: Run, choice: random.Random) -> None:
    run.handles.append(parameter(run, choice).register_hook(lambda gradient: gradient * 0.5))


def accumulated_hook(run: Run, choice: random.Random) -> None:
    seen = run.log

    def hook(each: Any) -> None:
        seen.append(each.grad.clone())
        each.grad.clamp_(-0.01, 0.01)

    run.handles.append(parameter(run, choice).register_post_accumulate_grad_hook(hook))


def optimizer_in_backward(run: Run, choice: random.Random) -> None:
    own = torch.optim.SGD([found := parameter(run, choice)], lr=0.05, momentum=0.5)

    def hook(each: Any) -> None:
        own.step()
        own.zero_grad()

    run.handles.append(found.register_post_accumulate_grad_hook(hook))


def module_hook(run: Run, choice: random.Random) -> None:
    found, sort = part(run, choice), choice.choice(["before", "after", "backward"])
    if sort == "before":
        handle = found.register_forward_pre_hook(lambda module, args: (args[0] * 1,))
    elif sort == "after":
        handle = found.register_forward_hook(lambda module, args, output: output * 0.5)
    else:
        seen = run.log
        handle = found.register_full_backward_hook(lambda module, into, out: seen.append(out[0].clone()))
    run.handles.append(handle)


def remove_hooks(run: Run, choice: random.Random) -> None:
    while run.handles:
        run.handles.pop().remove()


# The optimizer


def step_hook(run: Run, choice: random.Random) -> None:
    seen, sort = run.log, choice.choice(["before", "after", "all", "weights"])

    def clamp(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.grad is not None and not each.grad.is_sparse:
                    each.grad.clamp_(-0.02, 0.02)

    def count(optimizer: Any, args: Any, kwargs: Any) -> None:
        seen.append(len(optimizer.state))

    def project(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for each in group["params"]:
                each.data.clamp_(-0.5, 0.5)

    if sort == "before":
        run.handles.append(run.optimizer.register_step_pre_hook(clamp))
    elif sort == "all":
        run.handles.append(register_optimizer_step_post_hook(count))
    else:
        run.handles.append(run.optimizer.register_step_post_hook(count if sort == "after" else project))


def replace_step(run: Run, choice: random.Random) -> None:
    """A step of one's own on the instance, as learning rate wrappers and schedulers set it."""
    inner = run.optimizer.step

    def step(optimizer: Any, closure: Any = None) -> Any:
        for group in optimizer.param_groups:
            for each in group["params"]:
                each.data.mul_(0.995)
        return inner() if closure is None else inner(closure)

    run.optimizer.step = types.MethodType(step, run.optimizer)


def restore_step(run: Run, choice: random.Random) -> None:
    vars(run.optimizer).pop("step", None)


def change_group(run: Run, choice: random.Random) -> None:
    group = choice.choice(run.optimizer.param_groups)
    name = choice.choice(["lr", "lr", "weight_decay", "betas", "momentum", "amsgrad", "maximize", "foreach", "fused"])
    if name not in group:
        name = "lr"
    values = {"lr": 0.02, "weight_decay": 0.2, "betas": (0.7, 0.95), "momentum": 0.6, "foreach": False}
    if name == "lr" and isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(0.02)
    else:
        group[name] = values.get(name, True)


def add_group(run: Run, choice: random.Random) -> None:
    """Parameters in no group yet get one; where there are none, one is taken out of its group."""
    groups = run.optimizer.param_groups
    known = {id(each) for group in groups for each in group["params"]}
    rest = [each for each in run.model.parameters() if id(each) not in known]
    if rest and run.description.optimizer != "LBFGS":
        run.optimizer.add_param_group({"params": rest})
    elif len(groups[-1]["params"]) > 1:
        run.optimizer.state.pop(groups[-1]["params"].pop(), None)


def new_optimizer(run: Run, choice: random.Random) -> None:
    run.renew_optimizer()


# PyTorch around the loop


def seed(run: Run, choice: random.Random) -> None:
    torch.manual_seed(choice.randrange(1 << 30))


def draw(run: Run, choice: random.Random) -> None:
    run.log.append(torch.rand(choice.randrange(1, 20)))


def anomaly(run: Run, choice: random.Random) -> None:
    torch.autograd.set_detect_anomaly(not torch.is_anomaly_enabled())


def autocast(run: Run, choice: random.Random) -> None:
    run.autocast = not run.autocast


def settings(run: Run, choice: random.Random) -> None:
    sort = choice.choice(["deterministic", "onednn", "denormal", "precision"])
    if sort == "deterministic":
        torch.use_deterministic_algorithms(True)
    elif sort == "onednn":
        torch.backends.mkldnn.set_flags(False)
    elif sort == "denormal":
        torch.set_flush_denormal(True)
    else:
        torch.set_float32_matmul_precision("medium")


def bad_batch(run: Run, choice: random.Random) -> None:
    """A batch that the model cannot read, whose error the loop catches."""
    try:
        run.way(noise((3, WIDTH + 5, 2), choice), torch.zeros(3, dtype=torch.int64))
    except Exception:
        run.log.append("raised")


def gradient_of_arguments(run: Run, choice: random.Random) -> None:
    run.arguments_require_grad = not run.arguments_require_grad


def infinite(run: Run, choice: random.Random) -> None:
    """A batch of which one number is infinite, as a scaler of gradients looks for."""
    run.infinite = True


#: When each may happen, before forward, between backward and the optimizer's step, or after that; and how often.
EVENTS: dict[str, tuple[Event, str, float]] = {
    each.__name__: (each, when, often)
    for when, often, several in (
        ("before", 3.0, (freeze, unfreeze, part_to_eval, all_to_train, change_loss_weight, seed, load)),
        ("before", 2.0, (swap_part, gradient_by_hand, other_zero_grad, autocast, gradient_of_arguments, step_hook)),
        ("before", 1.5, (write_parameter, replace_data, replace_parameter, replace_buffer, remove_hooks, add_group)),
        ("before", 1.0, (move_dtype, parametrize_or_not, prune_or_not, tensor_hook, accumulated_hook, module_hook)),
        ("before", 1.0, (anomaly, bad_batch, settings, infinite, replace_step, restore_step)),
        ("before", 0.5, (optimizer_in_backward,)),
        ("between", 2.0, (scale_gradient, drop_gradient)),
        ("after", 2.0, (save, change_group, validate, draw)),
        ("after", 1.0, (new_optimizer,)),
    )
    for each in several
}
