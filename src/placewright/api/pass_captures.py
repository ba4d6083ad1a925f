"""Forward and backward passes of a module, for other batches and dtypes than it is called with, captured as needed."""

from __future__ import annotations

import copy
import importlib.util
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from placewright.graph import Graph
from placewright.importers import builder
from placewright.importers.batches import TRACED_BATCH, of_batch
from placewright.importers.forward_backward import ForwardBackward
from placewright.support.errors import InputError, shown
from placewright.support.garbage import collection_paused
from placewright.support.modules import described

#: What is trained: the module as it is, its weights in bfloat16, or low-rank adapters next to frozen weights.
Trained = Literal["own", "bfloat16", "lora"]
#: The rank of low-rank adapters.
LORA_RANK = 16
#: The op that changes a dtype.
_CAST = "aten._to_copy.default"
#: The batch, what is trained, and the device whose autocast rules apply.
_Key = tuple[int, Trained, str | None]


@dataclass(frozen=True, kw_only=True)
class Split:
    """A stretch of ops that can run in parts: its name, and numbers of parts worth trying, in ascending order."""

    name: str
    counts: list[int]


def is_torch_module(model: Any) -> bool:
    """True if the model is a torch.nn.Module; PyTorch is not imported, as no module exists without it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


class PassCaptures:
    """Passes of a module, each captured once; other batches than the module is called with come from one capture.

    samples: in the batch that it is called with. dtype: of its parameters. trained_dtypes: of those that are trained.
    """

    def __init__(
        self, model: Any, args: Any, kwargs: Mapping[str, Any], loss: Callable[[Any], Any] | None = None
    ) -> None:
        if not is_torch_module(model):
            raise InputError(
                "alternatives are of a PyTorch module, which can be captured for other batches, and this is a "
                f"{shown(type(model).__name__)}"
            )
        import torch
        from torch.utils import _pytree as pytree

        from placewright.importers.torch.module import positional

        self.model = model
        self._loss = loss
        self._leaves, self._structure = pytree.tree_flatten((positional(args), dict(kwargs)))
        sizes = [leaf.shape[0] for leaf in self._leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
        if not sizes:
            raise InputError("no argument of the module is a tensor with a batch dimension")
        self.samples = int(sizes[0])
        floating = [each.dtype for each in model.parameters() if each.dtype.is_floating_point]
        self.dtype = str(floating[0] if floating else torch.float32).removeprefix("torch.")
        trained = {str(each.dtype).removeprefix("torch.") for each in model.parameters() if each.requires_grad}
        self.trained_dtypes = sorted(trained)
        self._models: dict[Trained, Any] = {"own": model}
        self._traced: dict[_Key, Any] = {}
        self._captured: dict[_Key, ForwardBackward] = {}
        self._derived: dict[_Key, ForwardBackward] = {}
        self._splits: dict[_Key, list[Any]] = {}
        self._parted: dict[tuple[_Key, int, int], ForwardBackward] = {}
        self._warned: set[str] = set()
        #: Whether other batches can be derived from one capture; None if not checked yet.
        self._is_derivable: bool | None = None

    def get(self, batch: int, trained: Trained = "own", autocast: str | None = None) -> ForwardBackward:
        """The passes for one batch. Raises InputError where PyTorch cannot trace them."""
        key = batch, trained, autocast
        if self._is_given(key):
            return self._capture(*key)
        if key not in self._derived:
            try:
                self._check_derived(trained, autocast)
                self._derived[key] = of_batch(self._capture(TRACED_BATCH, trained, autocast), batch)
            except InputError:
                # The module may take some batches only, or do something else with other batches.
                self._derived[key] = self._capture(*key)
        return self._derived[key]

    def _check_derived(self, trained: Trained, autocast: str | None) -> None:
        """Raises InputError where the capture of the given batch differs from what is derived for it.

        Under autocast equal ops of equal shapes, without casts, are enough, as another capture takes long.
        """
        if self._is_derivable is None:
            given = self._capture(self.samples).graph
            self._is_derivable = False
            if not _takes_samples_apart(given, self.samples):
                derived = of_batch(self._capture(TRACED_BATCH, trained, autocast), self.samples).graph
                is_other = trained != "own" or autocast is not None
                if is_other and _work(derived) != _work(given):
                    derived, is_other = of_batch(self._capture(TRACED_BATCH), self.samples).graph, False
                self._is_derivable = is_other or _facts(derived) == _facts(given)
        if not self._is_derivable:
            raise InputError(f"{type(self.model).__name__} depends on the batch in other ways than by multiples of it")

    def splits(self, batch: int, trained: Trained = "own", autocast: str | None = None) -> list[Split]:
        """Stretches of ops that can run in parts in the passes for a batch."""
        key = self._traced_as(batch, trained, autocast)
        if key not in self._splits:
            from placewright.importers.torch.forward_backward import splits_of

            with collection_paused():
                self._splits[key] = splits_of(self._traced[key])
        return [Split(name=each.name, counts=each.counts) for each in self._splits[key]]

    def in_parts(
        self, batch: int, split: int, num_parts: int, trained: Trained = "own", autocast: str | None = None
    ) -> ForwardBackward:
        """The passes with one of the splits, by number. Raises InputError where parts are no whole number of rows."""
        self.splits(batch, trained, autocast)
        key = self._traced_as(batch, trained, autocast)
        parted = (key, split, num_parts)
        if parted not in self._parted:
            from placewright.importers.torch.forward_backward import in_parts

            name, choice = type(self.model).__name__, self._splits[key][split]
            with _each_warning_once(self._warned), collection_paused():
                self._parted[parted] = in_parts(self._traced[key], name, choice, num_parts)
        passes = self._parted[parted]
        return passes if key[0] == batch else of_batch(passes, batch)

    def _traced_as(self, batch: int, trained: Trained, autocast: str | None) -> _Key:
        """The capture from which the passes of a batch are derived."""
        key = batch, trained, autocast
        self.get(*key)
        return key if key in self._captured else (TRACED_BATCH, trained, autocast)

    def _is_given(self, key: _Key) -> bool:
        return key == (self.samples, "own", None)

    def _capture(self, batch: int, trained: Trained = "own", autocast: str | None = None) -> ForwardBackward:
        from torch.utils import _pytree as pytree

        from placewright.importers.torch.forward_backward import forward_backward, traced_pass

        key = batch, trained, autocast
        if key not in self._captured:
            leaves = [_of_samples(leaf, self.samples, batch, trained) for leaf in self._leaves]
            args, kwargs = pytree.tree_unflatten(leaves, self._structure)
            model = self._model(trained)
            with _each_warning_once(self._warned), collection_paused():
                traced = traced_pass(model, args, kwargs, loss=self._loss, autocast=autocast)
                self._captured[key] = forward_backward(traced, type(model).__name__)
            self._traced[key] = traced
        return self._captured[key]

    def _model(self, trained: Trained) -> Any:
        """The module, or a copy that holds no memory. Raises InputError where it cannot be made."""
        if trained not in self._models:
            import torch

            made = _without_memory(self.model)
            self._models[trained] = made.to(torch.bfloat16) if trained == "bfloat16" else _with_adapters(made)
        return self._models[trained]


def _takes_samples_apart(graph: Graph, samples: int) -> bool:
    """True if all samples of a tensor are taken one by one, which would be millions of ops in the traced batch."""
    taken: Counter[int] = Counter()
    for op in graph.ops:
        if op.target in ("aten.unbind.int", "aten.select.int"):
            shape = graph.tensors[op.inputs[0]].shape or ()
            apart = [tensor for tensor in op.outputs if graph.tensors[tensor].shape == shape[1:]]
            taken[op.inputs[0]] += len(apart) if shape[:1] == (samples,) else 0
    return any(count >= samples for count in taken.values())


def _work(graph: Graph) -> Counter[object]:
    """Counts the ops that compute something by what they make, in whatever dtype."""
    ops = (op for op in graph.ops if op.kind not in ("view", "copy") and op.target != _CAST)
    return Counter((op.target, *(graph.tensors[tensor].shape for tensor in op.outputs)) for op in ops)


def _facts(graph: Graph) -> object:
    """The ops, attributes, shapes and sizes on which costs depend."""
    ops = [(op.name, dict(op.attributes)) for op in graph.ops]
    return ops, [(tensor.shape, tensor.size_bytes) for tensor in graph.tensors]


def _of_samples(leaf: Any, samples: int, batch: int, trained: Trained) -> Any:
    """An argument for another batch, without memory where it is larger."""
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    dtype = torch.bfloat16 if trained == "bfloat16" and leaf.is_floating_point() else leaf.dtype
    if not leaf.dim() or leaf.shape[0] != samples or batch == samples:
        return leaf.to(dtype)
    if batch < samples:
        return leaf[:batch].to(dtype)
    last = torch.channels_last if leaf.dim() == 4 and not leaf.is_contiguous() else torch.contiguous_format
    shape = (batch, *leaf.shape[1:])
    return torch.empty(shape, dtype=dtype, device="meta", memory_format=last).requires_grad_(leaf.requires_grad)


def _without_memory(model: Any) -> Any:
    """A copy whose parameters are on the meta device."""
    import torch

    known: dict[int, Any] = {}
    for each in model.parameters():
        empty = torch.empty_like(each, device="meta", requires_grad=False)
        known[id(each)] = torch.nn.Parameter(empty, requires_grad=each.requires_grad)
    try:
        return copy.deepcopy(model, known)
    except Exception as error:
        raise InputError(f"{type(model).__name__} cannot be copied: {described(error)}") from error


def lora_layers(model: Any) -> list[str]:
    """The names of the layers that get adapters: all that are `torch.nn.Linear`."""
    import torch

    return [name for name, each in model.named_modules() if type(each) is torch.nn.Linear and name]


def can_have_adapters(model: Any) -> bool:
    """True if peft is installed, and the module has layers for it."""
    return importlib.util.find_spec("peft") is not None and bool(lora_layers(model))


def _with_adapters(model: Any) -> Any:
    try:
        from peft import LoraConfig, get_peft_model

        return get_peft_model(model, LoraConfig(r=LORA_RANK, target_modules=lora_layers(model)))
    except Exception as error:
        raise InputError(f"peft makes no adapters for {type(model).__name__}: {described(error)}") from error


@contextmanager
def _each_warning_once(known: set[str]) -> Iterator[None]:
    """A context in which captures do not log messages in `known`; messages that they do log are added to it."""
    logger = logging.getLogger(builder.__name__)

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message in known:
            return False
        known.add(message)
        return True

    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)
