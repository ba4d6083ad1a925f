"""The first call of a planned module beside eager's, graph by graph: what differs is said, or refused.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.support.errors import InputError, shown
from placewright.support.torch_threads import torch_threads

_LOGGER = logging.getLogger(__name__)
#: How many digits of its dtype a result may be from eager's, as a share of its largest value, before it counts as
#: another and not as rounded otherwise; of dtypes with less than three decimal digits fewer.
_MOST, _MOST_OF_FEW, _FEW = 200.0, 10.0, 1e-3
#: Gradients that are this many digits of the largest of all may be nothing but rounding.
_NOISE = 8.0


class SelfCheck:
    """One call of a module, each captured graph of which also runs op by op as eager does, on copies of its inputs.

    The module's own Python runs once, since what it does beside its results cannot be undone. threads: of an op.
    """

    def __init__(self, threads: int) -> None:
        self._graphs: list[_Beside] = []
        self._threads = threads

    def run(
        self, graph: torch.fx.GraphModule, planned: Callable[..., Any], names: Mapping[int, str], given: Any
    ) -> Any:
        """What the planned graph returns for its inputs. names: of these, by identity."""
        if any(map(_is_copied_in_part, _tensors(given))):
            _LOGGER.info("a graph is not compared with eager's: a parameter has hooks, or a dtype of gradients")
            return planned(*given)
        try:
            beside = _Beside(graph, names, given, self._threads)
        except Exception as error:
            _LOGGER.info("a graph is not compared with eager's: %s", error)
            return planned(*given)
        self._graphs.append(beside)
        return beside.run(planned)

    def compare(self, loss: Any = None) -> None:
        """Warn of results that are rounded otherwise than eager's, once the call is over.

        Raises InputError for others, with the module as it was before the call.
        loss: what the backward pass of the call began at, if it was all of one graph.
        """
        rounded, other = dict[str, float](), dict[str, float]()
        for beside in self._graphs:
            try:
                beside.compare_gradients(loss)
                is_told = not beside.other or beside.is_repeatable()
            except Exception as error:
                _LOGGER.info("a graph is not compared with eager's: %s", error)
                continue
            if is_told:
                rounded |= beside.rounded
                other |= beside.other
            else:
                _LOGGER.info("a graph is not compared with eager's, which is not the same twice")
        if other:
            for beside in reversed(self._graphs):
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


class _Beside:
    """A captured graph in eager, and its planned run.

    rounded, other: how far results, inputs and gradients are from eager's, by name, where they are rounded otherwise,
    and where they are others.
    """

    _end: int | None = None

    def __init__(
        self, graph: torch.fx.GraphModule, names: Mapping[int, str], given: Sequence[Any], threads: int
    ) -> None:
        self._graph = graph
        self._given = given
        self._threads = threads
        self._names = [names.get(id(value), f"input {place}") for place, value in enumerate(given)]
        self._gradients = [value.grad if _is_leaf(value) else None for value in given]
        self._drawn = torch.get_rng_state()
        # One copy of all: what is shared between inputs is shared between their copies.
        self._before = copy.deepcopy(
            [value.detach() if isinstance(value, torch.Tensor) else value for value in given]
        )  # fmt: skip
        self._before_gradients = [None if each is None else each.detach().clone() for each in self._gradients]
        self.rounded: dict[str, float] = {}
        self.other: dict[str, float] = {}
        self._theirs = self._in_eager()
        torch.set_rng_state(self._drawn)

    def run(self, planned: Callable[..., Any]) -> Any:
        """The planned run, whose results are compared before somebody writes to them."""
        self._results = planned(*self._given)
        self._note(self._after(self._given, self._results), self._after(*self._theirs[:2]))
        if not torch.equal(torch.get_rng_state(), self._theirs[2]):
            self.other["state of the generator of random numbers"] = float("inf")
        return self._results

    def compare_gradients(self, loss: Any) -> None:
        """Compares gradients, where the backward pass began at a result."""
        self._end = next((place for place, each in enumerate(self._results) if loss is not None and each is loss), None)
        if self._end is not None and not self._draws_twice():
            self._note(self._gradients_of(self._given), self._backward(self._theirs, self._end))

    def is_repeatable(self) -> bool:
        """Whether eager gives the same twice."""
        now = torch.get_rng_state()
        torch.set_rng_state(self._drawn)
        again = self._in_eager()
        torch.set_rng_state(now)
        if any(_differences(self._after(*self._theirs[:2]), self._after(*again[:2]))):
            return False
        return self._end is None or not any(
            _differences(self._gradients_of(self._theirs[0]), self._backward(again, self._end))
        )

    def _note(self, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        rounded, other = _differences(ours, theirs)
        self.rounded |= rounded
        self.other |= other

    def _draws_twice(self) -> bool:
        """Whether a checkpoint draws, which outside of a compiler draws other numbers in backward."""
        name = "tag_activation_checkpoint"
        has_checkpoint = any(getattr(node.target, "__name__", "") == name for node in self._graph.graph.nodes)
        return has_checkpoint and not torch.equal(self._drawn, self._theirs[2])

    def restore(self) -> None:
        """Puts inputs and gradients back to what they were."""
        with torch.no_grad():
            for value, before in zip(self._given, self._before, strict=True):
                if isinstance(value, torch.Tensor):
                    value.copy_(before)
            for value, gradient, before in zip(self._given, self._gradients, self._before_gradients, strict=True):
                if _is_leaf(value):
                    value.grad = gradient
                if gradient is not None:
                    gradient.copy_(before)
        torch.set_rng_state(self._drawn)

    def _in_eager(self) -> tuple[list[Any], Sequence[Any], Any]:
        """Copies of the inputs after a run, its results, and the state of the generator."""
        copies = copy.deepcopy(self._before)
        for value, other, gradient in zip(self._given, copies, self._before_gradients, strict=True):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                other.requires_grad_()
                other.grad = None if gradient is None else gradient.clone()
        with torch_threads(self._threads):
            results = self._graph(*copies)
        return copies, results, torch.get_rng_state()

    def _after(self, inputs: Sequence[Any], results: Sequence[Any]) -> dict[str, Any]:
        found = {f"result {place}": result for place, result in enumerate(results)}
        found |= {f"'{name}'": value for name, value in zip(self._names, inputs, strict=True)}
        return {name: _kept(value) for name, value in found.items() if isinstance(value, torch.Tensor)}

    def _backward(self, run: tuple[Sequence[Any], Sequence[Any], Any], end: int) -> dict[str, Any]:
        """Gradients of a run in eager, whose backward pass begins at a result."""
        with torch_threads(self._threads):
            run[1][end].backward()
        return self._gradients_of(run[0])

    def _gradients_of(self, inputs: Sequence[Any]) -> dict[str, Any]:
        return {
            f"gradient of '{name}'": _kept(value.grad)
            for name, value, given in zip(self._names, inputs, self._given, strict=True)
            if _is_leaf(given) and value.grad is not None
        }


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad


def _is_copied_in_part(parameter: Any) -> bool:
    if not _is_leaf(parameter):
        return False
    hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(hooks) or parameter.grad_dtype not in (None, parameter.dtype)


def _kept(tensor: Any) -> Any:
    """What can be compared."""
    tensor = tensor.detach()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """By name, how far from eager's: what is rounded otherwise, and what is another value."""
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
    """The largest difference; 0 where NaN alone stands against NaN."""
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
    """What the last digit counts in which a result is computed, which autocast may make larger."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    casts = [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return float(max(torch.finfo(each).eps for each in (dtype, *casts)))
