"""Records of the state after a training loop, and differences of two such records; `library_steps.py` imports this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_GENERATOR = "generator of random numbers"


def state_of(module: Any, optimizer: Any) -> dict[str, Any]:
    """Copies by name: of parameters, of all buffers, of the optimizer's states, and of the generator."""
    generator = torch.get_rng_state()
    found: dict[str, Any] = {f"parameter {name}": each for name, each in module.named_parameters()}
    found |= {f"buffer {name}": each for name, each in module.named_buffers()}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            found[f"state {key} of {name}"] = value
    kept = {name: each.detach().clone() if isinstance(each, torch.Tensor) else each for name, each in found.items()}
    return {**kept, _GENERATOR: generator}


def difference(
    losses: Sequence[Any], state: Mapping[str, Any], wanted_losses: Sequence[Any], wanted_state: Mapping[str, Any]
) -> str:
    """The differences in words, with the largest one and its place; empty if there is none."""
    found = {**{f"loss {number}": loss for number, loss in enumerate(losses, start=1)}, **state}
    wanted = {**{f"loss {number}": loss for number, loss in enumerate(wanted_losses, start=1)}, **wanted_state}
    told = [f"{name} is missing" for name in wanted if name not in found]
    told += [f"{name} is additional" for name in found if name not in wanted]
    distances = {name: _distance(found[name], wanted[name]) for name in wanted if name in found}
    off = {name: distance for name, distance in distances.items() if distance is not None}
    if off:
        worst = max(off, key=off.__getitem__)
        rest = f", first {next(iter(off))}" + (f", {_GENERATOR}" if _GENERATOR in off else "")
        told.append(f"{len(off)} of {len(wanted)} values, by at most {off[worst]:.3g} in {worst}{rest}")
    return "; ".join(told[:4])


def _distance(found: Any, wanted: Any) -> float | None:
    """The largest difference; None if the bits are the same, infinite if no number measures it."""
    if not isinstance(found, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return None if type(found) is type(wanted) and found == wanted else float("inf")
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if torch.equal(_bits(found), _bits(wanted)):
        return None
    apart = torch.view_as_real(found - wanted) if found.is_complex() else found.double() - wanted.double()
    largest = float(apart.abs().max())
    return largest if largest == largest else float("inf")


def _bits(tensor: Any) -> Any:
    """The tensor's bytes, so that NaNs and signs of zeros count as well."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
