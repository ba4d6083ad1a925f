"""The calls of PyTorch that a module makes while it is traced, each seen before it is made.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils import checkpoint

from placewright.importers.source_lines import is_model_code, without_directory
from placewright.importers.torch.ops import only_acts, sentence_on_effects
from placewright.importers.torch.recurrent import RECURRENT, layer_by_layer
from placewright.support.errors import InputError

#: What a refusal recommends: the backend sees Python itself and what it changes.
BACKEND = 'torch.compile(model, backend="placewright") runs such a module'
#: The frame below which there is no code of the model, and those that only pass a call on.
_RUNS_THE_MODEL = "placewright/importers/torch/trace.py"
_MODES = frozenset({torch.overrides.__file__})
_PASSES_ON = _MODES | {torch._tensor.__file__}
#: Where they are written.
_FAKE = "torch/_subclasses/"
#: Types of arguments that are compared from run to run.
_PLAIN = frozenset({bool, int, float, complex, str, torch.dtype})
#: Operators that overwrite what they are called on.
_WRITING = frozenset({"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__ipow__"})
#: Hooks on tensors: whatever they do beside what they return would be done once, while the module is traced.
_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook"})
#: What calls that read, set and delete an attribute of a tensor are named.
_OF_ATTRIBUTES = frozenset({"__get__", "__set__", "__delete__"})
#: Questions whose answers depend on whether gradients are on, and on whether somebody traces.
_OF_GRADIENTS = frozenset({"is_leaf", "requires_grad", "grad_fn"})
#: Whose code computes the same, but for last bits, whatever it is told of gradients and of exporting.
LIBRARIES = tuple(
    f"{name}/"
    for name in (
        "torch",
        "torchvision",
        "torchaudio",
        "transformers",
        "diffusers",
        "timm",
        "torch_geometric",
        "pytorchcv",
    )
)
#: What gives a tensor other memory; below autograd nothing of it is seen.
_MEMORY = frozenset({"set_", "resize_", "resize_as_", "untyped_storage", "storage"})


class Calls(TorchFunctionMode):
    """Gives every call stand-ins for the tensors that outlive it, and notes for the tracer where it was made.

    stand_ins: by identity of a tensor. unknown: what stands for a tensor that has none; it may be that tensor.
    made: told every result. notes_source: whether the tracer is told the line of each call. is_strict: whether a call
    that a trace cannot stand for is an error. trains: whether it has a backward pass.
    """

    def __init__(
        self,
        stand_ins: dict[int, Any],
        unknown: Callable[[Any], Any],
        made: Callable[[Any], None] | None = None,
        *,
        notes_source: bool,
        is_strict: bool,
        trains: bool,
    ) -> None:
        super().__init__()
        self._stand_ins = stand_ins
        self._unknown = unknown
        self._made = made
        self._notes_source = notes_source
        self._is_strict = is_strict
        self._trains = trains
        self._settings = _settings()
        #: Of each call its name and the plain values among its arguments.
        self.made_with: list[tuple[str, tuple[str, ...]]] = []
        #: What code of the user's own has asked about gradients, where, and what it was told.
        self.asked: list[tuple[str, str, Any]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Makes the call with stand-ins."""
        name = getattr(function, "__name__", "")
        if (op := _op_of_fake_tensors()) is not None:
            # Of `set_` no call is seen but this one.
            if self._is_strict and op in _MEMORY:
                _refuse_memory(op)
            return function(*args, **(kwargs or {}))
        if self._is_strict and name in _HOOKS:
            raise InputError(
                f"forward registers a hook on a tensor (in {_place()}), and what that does beside returning a gradient "
                f"would be done only once; {BACKEND}"
            )
        if self._is_strict and only_acts(function):
            raise InputError(f"{sentence_on_effects(function)} (in {_place()})")
        attribute = getattr(function.__self__, "__name__", "") if name in _OF_ATTRIBUTES else ""
        of_data = name == "__set__" and attribute == "data"
        if self._is_strict and attribute == "grad" and args and self._outlives(args[0]):
            raise InputError(
                f"forward reads or sets the gradient of a tensor that outlives the call (in {_place()}), which a plan "
                f"would do only once; {BACKEND}"
            )
        if self._is_strict and _settings() != self._settings:
            raise InputError(
                "forward changes PyTorch's default dtype or its choice of deterministic algorithms (before "
                f"{_place()}), which a planned step would not do; {BACKEND}"
            )
        if self._is_strict and self._trains:
            check_saved_as_they_are()
        if self._is_strict and (name == "requires_grad_" or (name == "__set__" and attribute == "requires_grad")):
            self._check_stays_wanted(*args, **(kwargs or {}))
        if self._is_strict and name == "random_" and len(args) + len(kwargs or {}) > 2:
            raise InputError(
                f"random_ draws between two bounds (in {_place()}), which PyTorch's tracer cannot write down; call "
                "torch.randint"
            )
        if self._is_strict and (of_data or name in _MEMORY):
            _refuse_memory(".data =" if of_data else name)
        leaves, structure = pytree.tree_flatten((args, kwargs or {}))
        self.made_with.append((name, tuple(repr(leaf) for leaf in leaves if type(leaf) in _PLAIN)))
        args, kwargs = pytree.tree_unflatten([self.instead(leaf) for leaf in leaves], structure)
        if self._is_strict and _writes(name) and leaves and _overlaps_itself(leaves[0]):
            raise InputError(
                f"{name} writes to a tensor whose elements share memory (in {_place()}), and in what order they are "
                "written cannot be captured; write to a clone of it"
            )
        if self._notes_source:
            fx_traceback.current_meta["stack_trace"] = 'File "{}", line {}'.format(*_caller())
        result = layer_by_layer(function, args) if name in RECURRENT and not kwargs else function(*args, **kwargs)
        if self._made is not None:
            self._made(result)
        if attribute in _OF_GRADIENTS:
            self.note(attribute, result if attribute != "grad_fn" else result is not None)
        return result

    def note(self, question: str, answer: Any) -> None:
        """Notes a question about gradients where it is one of the user's own code."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in _PASSES_ON | {__file__}:
            frame = frame.f_back
        file = "" if frame is None else frame.f_code.co_filename
        if is_model_code(file) and not without_directory(file).startswith(LIBRARIES):
            self.asked.append((question, f"{without_directory(file)}:{frame.f_lineno}", answer))

    def _check_stays_wanted(self, tensor: Any, requires_grad: bool = True) -> None:
        """Raises InputError where something that outlives the call wants a gradient afterwards that it did not want, or
        does no longer."""
        if bool(requires_grad) != tensor.requires_grad and self._outlives(tensor):
            raise InputError(
                f"forward sets requires_grad of a tensor that outlives the call (in {_place()}), which a plan would "
                "not do; set it before, or of value.detach()"
            )

    def _outlives(self, tensor: Any) -> bool:
        """Whether a tensor is one that outlives the call, or its stand-in."""
        return id(tensor) in self._stand_ins or any(tensor is each for each in self._stand_ins.values())

    def instead(self, value: Any) -> Any:
        """The stand-in of a tensor, and any other value as it is."""
        if not isinstance(value, torch.Tensor):
            return value
        # Transforms such as vmap wrap what they have been given, which may be a stand-in.
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            return value
        stand_in = self._stand_ins.get(id(value))
        return self._unknown(value) if stand_in is None else stand_in


def _settings() -> tuple[Any, ...]:
    """What calls depend on beside their arguments, whoever makes them."""
    return torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()


def check_saved_as_they_are() -> None:
    """Raises InputError where hooks are told of the tensors that autograd saves."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise InputError(
            "saved_tensors_hooks, such as those of save_on_cpu, are around forward or in it, and a planned step keeps "
            f"tensors without them; leave them out, or {BACKEND}"
        )


def _caller() -> tuple[str, int]:
    """File and line of the model's own code that makes a call; of PyTorch's where no other is on the way."""
    frame: Any = sys._getframe(1)
    inside = ("", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_model_code(file):
            return file, frame.f_lineno
        if file.endswith(_RUNS_THE_MODEL):
            break
        if not inside[0] and file != __file__ and file not in _MODES:
            inside = (file, frame.f_lineno)
        frame = frame.f_back
    return inside


def _op_of_fake_tensors() -> str | None:
    """The op for which fake tensors make a call for themselves; None where the call is another's. They ask for the
    storage of what a Function saves, for one, and keep a tensor in its stead."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _PASSES_ON:
        frame = frame.f_back
    op: str | None = None
    while frame is not None and without_directory(frame.f_code.co_filename).startswith(_FAKE):
        op = op or ""
        if isinstance(func := frame.f_locals.get("func"), torch._ops.OpOverload):
            op = func.overloadpacket.__name__
        frame = frame.f_back
    return op


def _refuse_memory(name: str) -> None:
    raise InputError(
        f"forward gives a tensor other memory, or writes to its storage ('{name}' in {_place()}), which a planned step "
        "would not do; write to it by copy_ under torch.no_grad()"
    )


def _place() -> str:
    """The same in a sentence."""
    file, line = _caller()
    return f"{without_directory(file)}:{line}"


def _writes(name: str) -> bool:
    """Whether a call of that name overwrites its first argument."""
    return name.endswith("_") and (not name.startswith("__") or name in _WRITING)


def _overlaps_itself(value: Any) -> bool:
    """Whether two elements of a tensor may lie in one place."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.numel() < 2:
        return False
    reach = 1
    for stride, extent in sorted(zip(value.stride(), value.shape, strict=True)):
        if extent > 1 and stride < reach:
            return True
        reach += (extent - 1) * stride
    return False


@contextmanager
def questions_noted(note: Callable[[str, Any], None]) -> Iterator[None]:
    """Each time that an autograd.Function asks which of its arguments want a gradient is noted."""
    base: Any = torch.autograd.function.BackwardCFunction
    answers = base.needs_input_grad
    thread = threading.get_ident()

    def asked(context: Any) -> Any:
        answer = answers.__get__(context)
        if threading.get_ident() == thread:
            note("needs_input_grad", answer)
        return answer

    base.needs_input_grad = property(asked)
    try:
        yield
    finally:
        if isinstance(answers, property):
            base.needs_input_grad = answers
        else:
            del base.needs_input_grad


@contextmanager
def layers_noted(model: Any) -> Iterator[None]:
    """Every traced call gets the path and class of each module whose forward it is made in. Of several paths of a
    module that is the first below the one that calls it, or else the first."""
    paths_of: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths_of.setdefault(id(module), []).append(path)
    entered: list[tuple[str, Any]] = []
    thread = threading.get_ident()  # The hooks below are those of all threads.

    def note() -> None:
        fx_traceback.current_meta["nn_module_stack"] = {str(depth): entry for depth, entry in enumerate(entered)}

    def enter(module: Any, args: Any) -> None:
        if threading.get_ident() == thread:
            paths, above = paths_of.get(id(module), [""]), f"{entered[-1][0]}." if entered and entered[-1][0] else ""
            entered.append((next((path for path in paths if path.startswith(above)), paths[0]), type(module)))
            note()

    def leave(module: Any, args: Any, result: Any) -> None:
        if threading.get_ident() == thread:
            entered.pop()
            note()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for key in ("nn_module_stack", "stack_trace"):
            fx_traceback.current_meta.pop(key, None)


@contextmanager
def without_checkpoints(written: Callable[[], Any] | None, *, is_strict: bool) -> Iterator[None]:
    """`torch.utils.checkpoint` keeps what it would drop: the numbers are the same, and what is recomputed is a plan's
    to say. Its recomputation reads and sets the generator of random numbers, which no traced call can show.

    written: what has been written so far that outlives the call; None where nothing will be recomputed. is_strict:
    whether one that draws other numbers when it recomputes, or writes a second time, is an error.
    """

    def check(preserves: bool) -> None:
        if is_strict and not preserves:
            raise InputError(
                "forward has a checkpoint with preserve_rng_state=False, which may draw other numbers when it "
                "recomputes; leave the argument out"
            )

    @contextmanager
    def writing_nothing() -> Iterator[None]:
        before = written() if written else None
        yield
        if is_strict and written and written() != before:
            raise InputError(
                "forward has a checkpoint around code that writes to what outlives the call, such as the statistics of "
                "a batch normalization, which PyTorch writes again when it recomputes; leave that code out of it"
            )

    def kept(function: Any, preserve: bool, *args: Any, **kwargs: Any) -> Iterator[None]:
        check(preserve)
        with writing_nothing():
            yield

    class Kept:
        @staticmethod
        def apply(function: Any, preserve: bool, *args: Any) -> Any:
            check(preserve)
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            # Where none of its arguments wants a gradient, this sort of checkpoint gives none to the parameters.
            wanted = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
            with torch.set_grad_enabled(wanted), writing_nothing() if wanted else nullcontext():
                return function(*args)

    before = checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction
    checkpoint._checkpoint_without_reentrant_generator = kept
    checkpoint.CheckpointFunction = Kept
    try:
        yield
    finally:
        checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction = before
