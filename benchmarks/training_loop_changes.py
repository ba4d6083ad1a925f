"""Events of random training loops: what a user's loop does to modules, parameters and gradients between steps.

Each takes the run and a generator that the event's own number seeds, so that every run of a loop makes the same
choices.
"""

from __future__ import annotations

import copy
import io
import random
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from training_loop_parts import PARTS

if TYPE_CHECKING:
    from training_loop_runs import Run


def noise(shape: Any, choice: random.Random) -> Any:
    """Random numbers of a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(choice.randrange(1 << 30)))


def part(run: Run, choice: random.Random) -> Any:
    return choice.choice([run.model.stem, *run.model.trunk])


def parameter(run: Run, choice: random.Random) -> Any:
    return choice.choice([each for each in run.model.parameters() if each.requires_grad and each.numel() > 1])


def linear(run: Run, choice: random.Random) -> Any:
    """A linear layer whose weight is an ordinary parameter, or the head."""
    layers = [each for each in run.model.modules() if type(each) is nn.Linear and "weight" in each._parameters]
    return choice.choice(layers or [run.model.head])


def with_gradient(run: Run, choice: random.Random) -> Any:
    return choice.choice([each for each in run.model.parameters() if each.grad is not None] or [None])


# Modes, freezing, modules


def freeze(run: Run, choice: random.Random) -> None:
    part(run, choice).requires_grad_(False)


def unfreeze(run: Run, choice: random.Random) -> None:
    run.model.requires_grad_(True)


def part_to_eval(run: Run, choice: random.Random) -> None:
    part(run, choice).eval()


def all_to_train(run: Run, choice: random.Random) -> None:
    run.model.train()


def validate(run: Run, choice: random.Random) -> None:
    """The model itself in evaluation, as between epochs."""
    run.model.eval()
    with torch.no_grad():
        run.log.append(run.model(*run.batch(run.number)))
    run.model.train()


def swap_part(run: Run, choice: random.Random) -> None:
    if len(run.model.trunk) == 0:
        return
    name = choice.choice(["linear", "layer norm", "residual", "dropout"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(choice.randrange(1 << 30))
        new = PARTS[name](choice).to(run.dtype)
    run.model.trunk[choice.randrange(len(run.model.trunk))] = new
    run.renew_optimizer()


def move_dtype(run: Run, choice: random.Random) -> None:
    run.dtype = choice.choice([torch.bfloat16, torch.float64, torch.float32])
    run.model.to(run.dtype)
    run.model.zero_grad()
    run.renew_optimizer()


def parametrize_or_not(run: Run, choice: random.Random) -> None:
    found = [each for each in run.model.modules() if parametrize.is_parametrized(each, "weight")]
    if found and choice.random() < 0.5:
        parametrize.remove_parametrizations(choice.choice(found), "weight")
    else:
        layer = linear(run, choice)
        if parametrize.is_parametrized(layer):
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(choice.randrange(1 << 30))
            choice.choice([parametrizations.weight_norm, parametrizations.spectral_norm])(layer)
    run.renew_optimizer()


def prune_or_not(run: Run, choice: random.Random) -> None:
    layers = [each for each in run.model.modules() if hasattr(each, "weight_mask")]
    if layers and choice.random() < 0.5:
        prune.remove(choice.choice(layers), "weight")
    else:
        layer = linear(run, choice)
        if not parametrize.is_parametrized(layer):
            prune.l1_unstructured(layer, "weight", amount=0.3)
    if choice.random() < 0.5:
        run.renew_optimizer()


# Parameters and buffers


def write_parameter(run: Run, choice: random.Random) -> None:
    with torch.no_grad():
        parameter(run, choice).mul_(0.9)


def replace_data(run: Run, choice: random.Random) -> None:
    """Other memory for a parameter, laid out as before or not."""
    found = parameter(run, choice)
    data = found.detach().clone()
    if data.dim() == 2 and choice.random() < 0.5:
        data = data.t().contiguous().t()
    found.data = data * 0.9


def replace_parameter(run: Run, choice: random.Random) -> None:
    layer = linear(run, choice)
    if "weight" in layer._parameters:
        layer.weight = nn.Parameter(layer.weight.detach() * 0.9)
        run.renew_optimizer()


def replace_buffer(run: Run, choice: random.Random) -> None:
    if choice.random() < 0.5:
        run.model.scale = torch.full((), 0.7, dtype=run.model.scale.dtype)
    else:
        for module in run.model.modules():
            if isinstance(getattr(module, "running_mean", None), torch.Tensor):
                module.running_mean = torch.zeros_like(module.running_mean)


def change_loss_weight(run: Run, choice: random.Random) -> None:
    sort = choice.choice(["attribute", "tensor", "function"])
    if sort == "attribute":
        run.model.weight *= 0.5
    elif sort == "tensor":
        run.model.scale.fill_(0.3)
    run.weights["weight"] *= 0.5


def save(run: Run, choice: random.Random) -> None:
    run.saved = copy.deepcopy((run.model.state_dict(), run.optimizer.state_dict()))


def load(run: Run, choice: random.Random) -> None:
    """What was saved, or what there is now through a file, comes back."""
    states = run.saved
    if states is None or choice.random() < 0.4:
        file = io.BytesIO()
        torch.save((run.model.state_dict(), run.optimizer.state_dict()), file)
        file.seek(0)
        states = torch.load(file)
    assign = choice.random() < 0.25
    run.model.load_state_dict(states[0], assign=assign)
    if assign:
        run.renew_optimizer()
    run.optimizer.load_state_dict(copy.deepcopy(states[1]))


# Gradients


def gradient_by_hand(run: Run, choice: random.Random) -> None:
    found = parameter(run, choice)
    # An expanded gradient comes seldom: to add to it is an error in eager.
    sort = choice.choices(["new", "none", "transposed", "zero", "shared", "expanded"], [4, 2, 4, 2, 2, 1])[0]
    gradient = noise(found.shape, choice).to(found.dtype)
    if sort == "none":
        found.grad = None
    elif sort == "transposed" and found.dim() == 2:
        found.grad = gradient.t().contiguous().t()
    elif sort == "expanded":
        found.grad = torch.ones((), dtype=found.dtype).expand(found.shape)
    elif sort == "shared":
        for each in run.model.parameters():
            if each.shape == found.shape:
                each.grad = gradient
    else:
        found.grad = gradient if sort == "new" else torch.zeros_like(found)


def scale_gradient(run: Run, choice: random.Random) -> None:
    found = with_gradient(run, choice)
    if found is not None:
        found.grad.mul_(2)


def drop_gradient(run: Run, choice: random.Random) -> None:
    found = with_gradient(run, choice)
    if found is not None:
        found.grad = None


def other_zero_grad(run: Run, choice: random.Random) -> None:
    run.to_none = not run.to_none
