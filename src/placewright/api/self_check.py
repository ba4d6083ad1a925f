"""A comparison of a planned module's first call with eager's, whole or by graphs; it warns of differences or refuses.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import logging
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from placewright.importers.torch.autocast import without_autocast
from placewright.support.errors import InputError, shown
from placewright.support.torch_threads import torch_threads

_LOGGER = logging.getLogger(__name__)
#: The most machine epsilons, relative to its largest value, by which a result that is rounded otherwise may differ from
#: eager's; beyond, it is another value. Fewer for dtypes whose epsilon is at least _FEW.
_MOST, _MOST_OF_FEW, _FEW = 200.0, 10.0, 1e-3
#: Gradients of this many machine epsilons, relative to the largest of all, may be nothing but rounding.
_NOISE = 8.0


class SelfCheck:
    """A comparison of one call of a module with eager's, on copies: the whole call, or each captured graph.

    Where forward changes something outside of the module, its Python runs only once, and graphs are compared. threads:
    of an op.
    """

    def __init__(self, threads: int) -> None:
        self._beside: list[_Beside] = []
        self._threads = threads

    def run_call(
        self,
        given: tuple[torch.nn.Module, Sequence[Any], Mapping[str, Any]],
        eager: Callable[..., Any],
        planned: Callable[[], Any],
    ) -> Any:
        """Return the result of a planned call. given: a model and arguments. eager: calls these, up to a loss."""

        def named(tree: Any) -> dict[str, Any]:
            model, *others = tree
            found = {f"argument {place}": leaf for place, leaf in enumerate(_tensors(others))}
            return {**dict(model.named_parameters()), **dict(model.named_buffers()), **found}

        return self._run(_Run(given, given, named, eager, self._threads, has_backward=True), planned)

    def run_graph(
        self, graph: torch.fx.GraphModule, planned: Callable[..., Any], names: Mapping[int, str], given: Sequence[Any]
    ) -> Any:
        """Return the result of a planned graph for its inputs. names: of these, by identity."""
        own = [names.get(id(value), f"input {place}") for place, value in enumerate(given)]

        def named(tree: Any) -> dict[str, Any]:
            return {name: value for name, value in zip(own, tree, strict=True) if isinstance(value, torch.Tensor)}

        copied = [value.detach() if isinstance(value, torch.Tensor) else value for value in given]
        run = _Run(given, copied, named, graph, self._threads)
        # Outside of a compiler, PyTorch's checkpoint op draws other numbers in backward than in forward.
        nodes = graph.graph.nodes
        run.redraws = any(getattr(node.target, "__name__", "") == "tag_activation_checkpoint" for node in nodes)
        return self._run(run, lambda: planned(*given))

    def _run(self, run: _Run, planned: Callable[[], Any]) -> Any:
        if any(map(_is_copied_in_part, run.named(run.given).values())):
            _LOGGER.info("a run is not compared with eager's: a parameter has hooks, or a dtype of gradients")
            return planned()
        try:
            beside = _Beside(run)
        except Exception as error:
            _LOGGER.info("a run is not compared with eager's: %s", error)
            return planned()
        self._beside.append(beside)
        return beside.beside(planned)

    def compare(self, loss: Any = None) -> None:
        """Warn of results that are rounded otherwise than eager's, once the call is over.

        Raises InputError for others, with the module as it was before the call.
        loss: the tensor from which the call's backward pass began, if the call was all of one graph.
        """
        rounded, other = dict[str, float](), dict[str, float]()
        for beside in self._beside:
            try:
                beside.compare_gradients(loss)
                is_told = not beside.other or beside.is_repeatable()
            except Exception as error:
                _LOGGER.info("a run is not compared with eager's: %s", error)
                continue
            if is_told:
                rounded |= beside.rounded
                other |= beside.other
            else:
                _LOGGER.info("a run is not compared with eager's, which is not the same twice")
        if other:
            for beside in reversed(self._beside):
                beside.restore()
            name, most = max(other.items(), key=lambda each: each[1])
            raise InputError(
                f"the first planned call gives another {shown(name)} than eager (by {most:.1e}); the module is as it "
                "was before. PyTorch captures it otherwise than it runs: run it without a plan, or pass verify=False "
                "where the difference is meant"
            )
        if rounded:
            name, most = max(rounded.items(), key=lambda each: each[1])
            warnings.warn(
                f"{len(rounded)} results of the first planned call are rounded otherwise than eager's, {shown(name)} "
                f"the most (by {most:.1e})",
                stacklevel=4,
            )


@dataclass(eq=False)
class _Run:
    """The inputs of a run, and functions for it; `copied` can be copied. named: its tensors by name.

    eager: returns results for a copy. has_backward: whether the planned run includes the backward pass, if there is
    one. redraws: whether eager draws again in backward what is drawn once.
    """

    given: Any
    copied: Any
    named: Callable[[Any], dict[str, Any]]
    eager: Callable[..., Any]
    threads: int
    has_backward: bool = False
    redraws: bool = False


class _Beside:
    """A run in eager to compare the planned one with.

    rounded, other: how far results, inputs and gradients are from eager's, by name, where they are rounded otherwise,
    and where they are other values.
    """

    def __init__(self, run: _Run) -> None:
        self._run = run
        given = run.named(run.given)
        self._leaves = {name: value for name, value in given.items() if _is_leaf(value)}
        self._gradients = {name: value.grad for name, value in self._leaves.items()}
        self._gradients_before = {
            name: None if each is None else each.clone() for name, each in self._gradients.items()
        }
        self._with_gradient = {name for name, value in given.items() if value.requires_grad}
        self._values = {name: value.detach().clone() for name, value in given.items()}
        self._generators = _generators()
        # One copy of all: what is shared between inputs is shared between their copies.
        self._before = copy.deepcopy(run.copied)
        self._end: int | None = None
        self._their_gradients: dict[str, Any] = {}
        self.rounded: dict[str, float] = {}
        self.other: dict[str, float] = {}
        self._theirs = self._in_eager()

    def beside(self, planned: Callable[[], Any]) -> Any:
        """Makes the planned run, and compares its results before the caller writes to them."""
        result = planned()
        self._results = _tensors(result)
        self._drawn = torch.get_rng_state()
        if not self._run.has_backward:
            self._compare_tensors()
        return result

    def compare_gradients(self, loss: Any) -> None:
        """Compares gradients, where the backward pass began at a result, and what is drawn."""
        ends = (place for place, each in enumerate(self._results) if loss is not None and each is loss)
        self._end = next(ends, None)
        drawn = self._theirs[2]
        if self._run.redraws and not torch.equal(self._generators[2], drawn):
            self._end = None
        if self._end is not None:
            self._their_gradients, drawn = self._backward(self._theirs, self._end)
            self._note(self._gradients_of(self._run.given), self._their_gradients)
        if self._run.has_backward:
            self._compare_tensors()
        if not torch.equal(self._drawn, drawn if self._run.has_backward else self._theirs[2]):
            self.other["state of the generator of random numbers"] = float("inf")

    def is_repeatable(self) -> bool:
        """True if eager returns the same twice."""
        again = self._in_eager()
        gradients = {} if self._end is None else self._backward(again, self._end)[0]
        return not any(_differences(self._their_gradients, gradients)) and not any(
            _differences(self._after(*self._theirs[:2]), self._after(*again[:2]))
        )

    def restore(self) -> None:
        """Restores inputs and gradients."""
        given = self._run.named(self._run.given)
        with torch.no_grad():
            for name, before in self._values.items():
                given[name].copy_(before)
            for name, leaf in self._leaves.items():
                leaf.grad, before = self._gradients[name], self._gradients_before[name]
                if before is not None:
                    leaf.grad.copy_(before)
        _set_generators(self._generators)

    def _in_eager(self) -> tuple[Any, list[Any], Any]:
        """Copies of the inputs after a run, its results, and the state of the generator."""
        tree = copy.deepcopy(self._before)
        for name, value in self._run.named(tree).items():
            if name in self._with_gradient:
                value.requires_grad_()
        now = _generators()
        _set_generators(self._generators)
        try:
            with torch_threads(self._run.threads):
                results = _tensors(self._run.eager(*tree))
            return tree, results, torch.get_rng_state()
        finally:
            _set_generators(now)

    def _compare_tensors(self) -> None:
        self._note(self._after(self._run.given, self._results), self._after(*self._theirs[:2]))

    def _note(self, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        rounded, other = _differences(ours, theirs)
        self.rounded |= rounded
        self.other |= other

    def _after(self, tree: Any, results: Sequence[Any]) -> dict[str, Any]:
        found = {f"result {place}": result for place, result in enumerate(results)}
        found |= {f"'{name}'": value for name, value in self._run.named(tree).items()}
        return {name: _kept(value) for name, value in found.items()}

    def _backward(self, run: tuple[Any, list[Any], Any], end: int) -> tuple[dict[str, Any], Any]:
        """Gradients of a run in eager, whose backward pass begins at a result, and the state of the generator.

        Raises InputError where the loss reads the tensors themselves, of which the run had copies.
        """
        tensors, names = self._run.named(run[0]), list(self._leaves)
        leaves = [*(tensors[name] for name in names), *self._leaves.values()]
        now = _generators()
        torch.set_rng_state(run[2])
        try:
            with torch_threads(self._run.threads), without_autocast():
                found = torch.autograd.grad(run[1][end], leaves, allow_unused=True)
            drawn = torch.get_rng_state()
        finally:
            _set_generators(now)
        if any(each is not None for each in found[len(names) :]):
            raise InputError("the loss reads the module itself")
        sums = {
            name: before if new is None else new if before is None else before + new
            for name, before, new in zip(names, self._gradients_before.values(), found, strict=False)
        }
        return self._named(sums), drawn

    def _gradients_of(self, tree: Any) -> dict[str, Any]:
        tensors = self._run.named(tree)
        return self._named({name: tensors[name].grad for name in self._leaves})

    def _named(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        return {f"gradient of '{name}'": _kept(each) for name, each in gradients.items() if each is not None}


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad


def _is_copied_in_part(parameter: Any) -> bool:
    if not _is_leaf(parameter):
        return False
    hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(hooks) or parameter.grad_dtype not in (None, parameter.dtype)


def _kept(tensor: Any) -> Any:
    """The tensor, detached and dense."""
    tensor = tensor.detach()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Relative differences from eager's by name: of values that are rounded otherwise, and of other values."""
    rounded: dict[str, float] = {}
    other: dict[str, float] = {}
    gradients = [tensor for name, tensor in theirs.items() if name.startswith("gradient")]
    noise = _NOISE * max((_largest(tensor) for tensor in gradients), default=0.0)
    for name in dict.fromkeys((*ours, *theirs)):
        one, two = ours.get(name), theirs.get(name)
        if one is None or two is None or (one.shape, one.dtype) != (two.shape, two.dtype):
            other[name] = float("inf")
        elif not torch.equal(one, two) and (apart := _apart(one, two)):
            digit = _digit(one.dtype)
            most = (_MOST if digit < _FEW else _MOST_OF_FEW) * digit * _largest(two)
            if name.startswith("gradient"):
                most = max(most, noise * digit)
            (rounded if apart <= most else other)[name] = apart / max(_largest(two), 1e-30)
    return rounded, other


def _apart(one: Any, two: Any) -> float:
    """The largest difference; for integers how many elements differ. NaN equals NaN."""
    if not (one.is_floating_point() or one.is_complex()):
        return float((one != two).sum())
    differs = ~((one == two) | (one.isnan() & two.isnan()))
    wide = torch.complex128 if one.is_complex() else torch.float64
    apart = (one.to(wide) - two.to(wide)).abs()[differs]
    return float(apart.nan_to_num(nan=float("inf")).max()) if apart.numel() else 0.0


def _largest(tensor: Any) -> float:
    """The largest finite value of a tensor."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    values = tensor.abs()
    return float(torch.where(values.isfinite(), values, 0.0).max())


def _digit(dtype: torch.dtype) -> float:
    """The machine epsilon of the dtype in which a result is computed, larger under autocast; 0 for integers."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    casts = [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return float(max(torch.finfo(each).eps for each in (dtype, *casts)))


def _generators() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _set_generators(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
