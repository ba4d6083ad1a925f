"""The peak memory of a step that Inductor compiles, found before its kernels are compiled.

Inductor lowers a graph and writes the program that calls its kernels. That program runs here on fake tensors and with
kernels that do nothing, so that what it allocates, reuses and frees, and when, is Inductor's own.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.config
from torch import fx
from torch._functorch._aot_autograd import graph_compile
from torch._guards import TracingContext
from torch._inductor import async_compile, compile_fx
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from placewright.execution.pytorch.joint import is_tangent
from placewright.execution.pytorch.memory import allocated_peak
from placewright.execution.pytorch.offloading import OFFLOAD
from placewright.execution.pytorch.open_sizes import Sizes, lying_as

#: Namespaces of ops that belong to PyTorch.
_OF_PYTORCH = ("aten", "mkldnn", "mkl", "onednn", "quantized")

_Call = Callable[[list[Any]], Sequence[Any]]


class LoweredStep:
    """A step whose forward and backward Inductor compiles with the present settings.

    forward, backward: as Inductor's partitioner returns them; they are not changed. num_outputs: how many results of
    forward are returned; the others are kept for backward. sizes: for which the graphs were captured. workspaces: bytes
    that ops take while they compute, by op and arguments; unknown ones are measured and added.
    """

    def __init__(
        self,
        forward: fx.GraphModule,
        backward: fx.GraphModule,
        num_outputs: int,
        sizes: Sizes,
        workspaces: dict[Any, int],
    ) -> None:
        self._num_outputs = num_outputs
        self._workspaces = workspaces
        self._arguments = {node.name: node.meta.get("val") for node in forward.graph.find_nodes(op="placeholder")}
        self._read = {node.name: node.meta.get("val") for node in backward.graph.find_nodes(op="placeholder")}
        self._ends = [getattr(end, "name", "") for end in forward.graph.output_node().args[0]]
        arguments = list(self._arguments.values())
        self._forward = _lowered(
            forward,
            lambda graph, extra: compile_fx.compile_fx_forward(graph, arguments, num_outputs, len(arguments), extra),
        )
        with _on_fake_tensors():
            saved = self._run_forward([_like(value, sizes) for value in arguments])[0]
        # Backward is compiled for the strides of tensors after forward.
        lying = [lying_as(value, saved.get(name)) for name, value in self._read.items()]
        known = SimpleNamespace(bw_donated_idxs=_donated(forward, backward, num_outputs))
        with mock.patch.object(TracingContext.get(), "fw_metadata", known):
            self._backward = _lowered(
                backward, lambda graph, extra: compile_fx.compile_fx_backward(graph, lying, extra)
            )

    def peak_bytes(self, sizes: Sizes) -> int:
        """The most bytes in use at once with such sizes, parameters and arguments included."""
        with _on_fake_tensors():
            outlive = [_like(value, sizes) for value in self._arguments.values()]
            saved, first = self._run_forward(list(outlive))
            outlive += [saved[name] for name in self._ends[: self._num_outputs]]
            # Instead of a weight, Inductor may save a copy of it with other strides.
            given = [saved[name] if name in saved else _like(value, sizes) for name, value in self._read.items()]
            # Autograd holds the gradients that backward receives until it is over.
            tangents = [tensor for name, tensor in zip(self._read, given, strict=True) if name not in saved]
            del saved
            second = _Counting(self._workspaces, first.at_host)
            second.note([*outlive, *tangents])
            gradients = second.run(self._backward, given)
            second.note(gradients, sum(map(_copied_bytes, gradients)))
        return max(first.peak, second.peak)

    def _run_forward(self, arguments: list[Any]) -> tuple[dict[str, Any], _Counting]:
        """The results of forward, by name, and the counter of the bytes it has in use. Empties the list."""
        counting = _Counting(self._workspaces, {})
        return dict(zip(self._ends, counting.run(self._forward, arguments), strict=True)), counting


@contextmanager
def _on_fake_tensors() -> Iterator[None]:
    with _disable_current_modes(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        yield


def _like(value: Any, sizes: Sizes) -> Any:
    """A tensor with the layout of another, or a number."""
    if not isinstance(value, torch.Tensor):
        return sizes.number(value)
    shape, strides = (tuple(map(sizes.number, numbers)) for numbers in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)


def _copied_bytes(gradient: Any) -> int:
    """Bytes of the copy that autograd makes of a gradient whose elements share memory, such as an expanded number."""
    shares = isinstance(gradient, torch.Tensor) and gradient.nbytes > gradient.untyped_storage().nbytes()
    return int(gradient.nbytes) if shares else 0


def _donated(forward: fx.GraphModule, backward: fx.GraphModule, num_outputs: int) -> list[int]:
    """Places of saved tensors that nothing reads after backward, into which Inductor writes other results."""
    read, ends = backward.graph.find_nodes(op="placeholder"), forward.graph.output_node().args[0]
    arguments, returned, gradients, saved = (
        [node.meta.get("val") if isinstance(node, fx.Node) else None for node in nodes]
        for nodes in (
            forward.graph.find_nodes(op="placeholder"),
            ends[:num_outputs],
            backward.graph.output_node().args[0],
            [node for node in read if not is_tangent(node)],
        )
    )
    found: list[int] = graph_compile.collect_fw_donated_buffer_idxs(arguments, returned, gradients, saved)
    return found


class _WrittenError(BaseException):
    """Ends Inductor's compilation where the program is written. constants: those that the program reads, by name."""

    def __init__(self, program: str, constants: dict[str, Any]) -> None:
        super().__init__()
        self.program = program
        self.constants = constants


def _lowered(module: fx.GraphModule, compiled: Callable[[fx.GraphModule, Any], Any]) -> _Call:
    """The program that Inductor writes for a graph, with kernels that do nothing. compiled: compiles the graph."""

    def stop(program: str) -> None:
        raise _WrittenError(program, {**V.graph.constants})

    with unset_fake_temporarily():
        graph = copy.deepcopy(module)
    settings = torch._inductor.config.patch(force_disable_caches=True)
    with settings, mock.patch.object(GraphLowering, "save_output_code", staticmethod(stop)):
        try:
            compiled(graph, compile_fx.create_compiler_config_extra(graph))
        except _WrittenError as written:
            return _without_kernels(written)
    # The graph has no calls.
    return lambda arguments: module(*arguments)


def _without_kernels(written: _WrittenError) -> _Call:
    names: dict[str, Any] = {"__name__": __name__, **written.constants}
    with mock.patch.object(async_compile, "AsyncCompile", _Kernels):
        exec(compile(written.program, "<written by Inductor>", "exec"), names)
    # These are written in C++, and cannot take fake tensors.
    for name in [name for name in names if name.startswith("empty_strided_")]:
        names[name] = _empty_on(name.removeprefix("empty_strided_").removesuffix("_pinned"))
    names["reinterpret_tensor"] = _reinterpreted
    names["assert_size_stride"] = names["assert_alignment"] = lambda *_: None
    call: _Call = names["call"]
    return call


class _Kernel:
    """A kernel that does nothing."""

    def __call__(self, *_: Any, **__: Any) -> None:
        """Does nothing: kernels write to tensors that they are given, and return nothing."""

    run = __call__


class _Kernels:
    """A replacement for the compilers of kernels."""

    def __getattr__(self, name: str) -> Callable[..., _Kernel]:
        return lambda *_, **__: _Kernel()


def _empty_on(device: str) -> Callable[..., Any]:
    def empty(size: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Any:
        return torch.empty_strided(size, strides, dtype=dtype, device=device)

    return empty


def _reinterpreted(tensor: Any, size: Sequence[int], strides: Sequence[int], offset: int = 0) -> Any:
    return torch.as_strided(tensor, size, strides, tensor.storage_offset() + offset)


class _Counting(TorchDispatchMode):
    """Counts the most bytes in use at once of tensors that it notes and that ops return.

    at_host: the memory, by address, of tensors moved to the host, which does not count. Moves add to it.
    """

    supports_higher_order_operators = True

    def __init__(self, workspaces: dict[Any, int], at_host: dict[int, StorageWeakRef]) -> None:
        super().__init__()
        self.peak = 0
        self.at_host = at_host
        self._workspaces = workspaces
        self._in_use: dict[int, tuple[StorageWeakRef, int]] = {}

    def run(self, call: _Call, given: list[Any]) -> Sequence[Any]:
        """Makes a call, which empties the list that it is given."""
        self.note(given)
        with self:
            return call(given)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is OFFLOAD:
            storage = result.untyped_storage()
            self.at_host[storage._cdata] = StorageWeakRef(storage)
        self.note(tree_leaves(result), self._workspace_bytes(func, args, kwargs or {}))
        return result

    def _workspace_bytes(self, func: Any, args: Any, kwargs: Any) -> int:
        if isinstance(func, torch._ops.HigherOrderOperator):
            # Operators that run an op with a state of the generator take the op, and then its arguments.
            place = next((place for place, each in enumerate(args) if isinstance(each, torch._ops.OpOverload)), None)
            return 0 if place is None else self._workspace_bytes(args[place], args[place + 1 :], kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        if func.is_view or not _may_run(func, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]):
            return 0
        key = (func, spec, *(_described(leaf) for leaf in leaves))
        if key not in self._workspaces:
            self._workspaces[key] = _measured(func, args, kwargs)
        return self._workspaces[key]

    def note(self, results: Iterable[Any], workspace_bytes: int = 0) -> None:
        """Counts the tensors among these."""
        for storage in (result.untyped_storage() for result in results if isinstance(result, torch.Tensor)):
            if storage._cdata not in self.at_host:
                self._in_use.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self._in_use = {key: known for key, known in self._in_use.items() if not known[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._in_use.values()) + workspace_bytes)


def _described(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    return leaf.shape, leaf.stride(), leaf.dtype, leaf.device


def _may_run(func: Any, tensors: Sequence[Any]) -> bool:
    """True if an op computes alike on whatever numbers it is given.

    Whole numbers are positions in other tensors, or the inside of another op's workspace; and an op that is not
    PyTorch's own could have effects. The workspaces of such ops are not counted.
    """
    return func.namespace in _OF_PYTORCH and all(
        each.is_floating_point() or each.dtype is torch.bool for each in tensors
    )


def _measured(func: Any, args: Any, kwargs: Any) -> int:
    """Bytes that an op takes while it computes, beyond its results; 0 where it fails on ones."""
    device = next((each.device for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)), None)
    gpus = [device.index] if device is not None and device.type == "cuda" else []
    with _disable_current_modes(), torch.random.fork_rng(gpus):
        given, named = tree_map_only(torch.Tensor, _filled, (args, kwargs))
        results: list[Any] = []
        try:
            peak = allocated_peak(lambda: results.append(func(*given, **named)), device or torch.device("cpu"))
        except (IndexError, RuntimeError, ValueError):
            return 0
        tensors = [leaf for leaf in tree_leaves((given, named)) if isinstance(leaf, torch.Tensor)]
        before = {tensor.untyped_storage()._cdata for tensor in tensors}
        made: dict[int, int] = {
            storage._cdata: storage.nbytes()
            for result in tree_leaves(results)
            if isinstance(result, torch.Tensor) and (storage := result.untyped_storage())._cdata not in before
        }
    return max(0, peak - sum(made.values()))


def _filled(tensor: Any) -> Any:
    """A real tensor of ones with the layout of a fake one."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    memory = torch.ones(count, dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
