"""The optimizer of a training step: the user's or another, its states, and the code for it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from placewright.importers.forward_backward import StepOptimizer, Stepping
from placewright.support.errors import InputError, shown

#: The default optimizer.
USUAL = "adamw"
#: Dtypes of parameters that bitsandbytes has kernels for.
_8_BIT_OF = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class OwnOptimizer:
    """An optimizer that steps. name: shown to users. keeps: its kind of states. made_by: its class.

    settings: its arguments, without the parameters. changes: what is trained differently than by the user's; "" where
    nothing is. in_backward: whether it steps there, where one pass makes a step. offloaded: whether its states lie in
    the host's memory.
    """

    name: str
    keeps: StepOptimizer
    made_by: str
    settings: Mapping[str, Any]
    stepping: Stepping = "fused"
    changes: str = ""
    in_backward: bool = False
    offloaded: bool = False

    @property
    def is_apart(self) -> bool:
        """True if it steps one parameter at a time, so that less is held."""
        return self.in_backward or self.offloaded

    @property
    def code(self) -> str:
        """The expression that makes it."""
        settings = (f"{name}={value!r}" for name, value in self.settings.items())
        made = f"{self.made_by}({', '.join(['model.parameters()', *settings])})"
        if self.offloaded:
            made = f"placewright.offload_states({made})"
        return f"placewright.step_in_backward({made})" if self.in_backward else made


_EIGHT_BIT = OwnOptimizer(name="8-bit Adam", keeps="adam8bit", made_by="bitsandbytes.optim.Adam8bit", settings={})
#: Optimizers by the names that users can give. One kernel for each parameter's step makes no other tensors.
_NAMED: Mapping[str, OwnOptimizer] = {
    **{
        name.lower(): OwnOptimizer(name=name, keeps="adam", made_by=f"torch.optim.{name}", settings={"fused": True})
        for name in ("AdamW", "Adam")
    },
    "adam8bit": _EIGHT_BIT,
    "sgd": OwnOptimizer(name="SGD", keeps="sgd", made_by="torch.optim.SGD", settings={"fused": True}),
    "sgd-momentum": OwnOptimizer(
        name="SGD with momentum",
        keeps="sgd-momentum",
        made_by="torch.optim.SGD",
        settings={"momentum": 0.9, "fused": True},
    ),
}


def optimizers_to_try(optimizer: Any, *, on_cpu: bool, dtypes: Sequence[str]) -> list[OwnOptimizer]:
    """Return the user's optimizer as it is, and ways to step it in less memory.

    Fused where it is not; in backward, with states at the host of a GPU, or both; with 8-bit states where bitsandbytes
    has them. optimizer: a name, an optimizer, or None. dtypes: of what is trained. Raises InputError for other
    optimizers.
    """
    is_named = optimizer is None or isinstance(optimizer, str)
    own = _named(optimizer or USUAL) if is_named else _made(optimizer, on_cpu=on_cpu)
    has_kernels = not on_cpu and set(dtypes) <= set(_8_BIT_OF)
    if own.keeps == "adam8bit" and not has_kernels:
        raise InputError(f"optimizer is adam8bit; bitsandbytes has none for {'CPUs' if on_cpu else ', '.join(dtypes)}")
    found = [own]
    if own.stepping != "fused":
        settings = {name: value for name, value in own.settings.items() if name != "foreach"}
        found.append(replace(own, name=f"fused {own.name}", settings={**settings, "fused": True}, stepping="fused"))
    fused = found[-1]
    if fused.keeps != "adam8bit":
        found.append(replace(fused, in_backward=True))
        if fused.keeps != "sgd" and not on_cpu:
            found += [replace(each, offloaded=True) for each in (fused, found[-1])]
    if own.keeps == "adam" and has_kernels:
        found.append(replace(_EIGHT_BIT, changes="states in 8 bits"))
    return found


def _named(name: str) -> OwnOptimizer:
    if name not in _NAMED:
        raise InputError(
            f"optimizer is '{shown(name)}'; it must be one of {', '.join(_NAMED)}, or an optimizer of torch.optim"
        )
    return _NAMED[name]


def _made(optimizer: Any, *, on_cpu: bool) -> OwnOptimizer:
    """Describe an optimizer of torch.optim that the user has made."""
    kind = type(optimizer).__name__
    if kind not in ("Adam", "AdamW", "SGD") or not type(optimizer).__module__.startswith("torch.optim."):
        raise InputError(
            f"optimizer is a {shown(kind)}, and what it holds is not known; give Adam, AdamW or SGD of torch.optim, "
            f"or one of {', '.join(_NAMED)}"
        )
    settings = optimizer.param_groups[0]
    if kind == "SGD":
        keeps: StepOptimizer = "sgd-momentum" if settings["momentum"] else "sgd"
    else:
        keeps = "adam-amsgrad" if settings["amsgrad"] else "adam"
    asked = settings["foreach"]
    # PyTorch steps all parameters at once by default on GPUs.
    stepping: Stepping = "foreach" if asked or (asked is None and not on_cpu) else "each"
    return OwnOptimizer(
        name="SGD with momentum" if keeps == "sgd-momentum" else kind,
        keeps=keeps,
        made_by=f"torch.optim.{kind}",
        settings=_settings(optimizer),
        stepping="fused" if settings["fused"] else stepping,
    )


def _settings(optimizer: Any) -> dict[str, Any]:
    """The settings it was made with, where they are not the defaults."""
    usual = inspect.signature(type(optimizer)).parameters
    return {
        name: value
        for name, value in optimizer.defaults.items()
        if name in usual and isinstance(value, int | float | tuple) and value != usual[name].default
    }
