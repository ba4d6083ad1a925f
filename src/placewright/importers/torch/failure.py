"""The reason why PyTorch could not trace a module, and the place in the module, in one sentence.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
import re
import sysconfig
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException
from torch._subclasses import fake_tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from placewright.importers.source_lines import module_of, source_of, source_of_frames
from placewright.support.errors import InputError

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


@contextlib.contextmanager
def in_one_sentence(model: Any) -> Iterator[None]:
    """A context that turns PyTorch's errors into an InputError that names the layer and the line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = _of_dynamo(error) if isinstance(error, TorchDynamoException) else reason(error, model)
        raise InputError(f"PyTorch cannot trace {type(model).__name__} with these arguments: {why}") from error


def _of_dynamo(error: TorchDynamoException) -> str:
    """The code that Dynamo could not read, and the line of the user's code with it."""
    text = getattr(error, "msg", None) or str(error)
    title = text.strip().splitlines()[0].rstrip(".")
    explained = _EXPLANATION.search(text)
    raised = _RAISED.search(text)
    if raised is not None:
        kind, what = raised.group(1), raised.group(3)
        by_values = kind in ("DataDependentOutputException", "DynamicOutputShapeException")
        why = f"what {what} gives {_BY_VALUES}" if by_values else what.split("\\n")[0].rstrip(".")
    elif title in _INSTEAD:
        why = _INSTEAD[title]
    else:
        why = (explained.group(1) if explained else title).split(". ")[0].rstrip(".")
    frames = getattr(error, "real_stack", None) or ()
    where = source_of_frames("\n".join(f'File "{each.filename}", line {each.lineno}' for each in frames))
    return f"{why} (in {where})" if where else why


#: The problem of code whose results depend on values.
_BY_VALUES = "depends on values, which are not known before it runs"
#: The remedy, where it is plain, by Dynamo's titles.
_INSTEAD = {
    "Data-dependent branching": f"a branch {_BY_VALUES}; write it with torch.where or torch.cond",
    "Data-dependent assertion failed (cannot compile partial graph)": f"an assertion {_BY_VALUES}; leave it out",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": f"a number {_BY_VALUES}; keep it a tensor",
}
_EXPLANATION = re.compile(r"^  Explanation: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"got (\w+)\((['\"])(.*)\2\)")


def reason(error: BaseException, model: Any) -> str:
    """The problem, with the innermost layer of the model and the line of its code where it occurred."""
    frames = list(traceback.walk_tb(error.__traceback__))
    call = next((call for frame, _ in reversed(frames) if (call := _traced_call(frame)) is not None), None)
    if call is not None:
        parts = [module_of(call), source_of(call)]
    else:
        parts = [_layer(frames, model), _line(frames) or source_of_frames(str(error))]
    where = ", ".join(filter(None, parts))
    return f"{_complaint(error)} (in {where})" if where else _complaint(error)


def _complaint(error: BaseException) -> str:
    if isinstance(error, (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)):
        return f"what {error.func} gives depends on values, which are not known before it runs"
    if isinstance(error, GuardOnDataDependentSymNode):
        return f"a size or a branch depends on values, which are not known before it runs: {error.cond}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _traced_call(frame: FrameType) -> Any | None:
    """The node that a frame of PyTorch's interpreter runs, where an already traced graph is traced again."""
    node = frame.f_locals.get("n")
    return node if frame.f_code.co_name == "run_node" and isinstance(node, torch.fx.Node) else None


def _layer(frames: list[tuple[FrameType, int]], model: Any) -> str:
    """The dotted path of the module in whose method the error occurred; the sentence names the model itself."""
    path_of = {id(module): path for path, module in model.named_modules() if path != "_guards_fn"}
    holders = [path_of.get(id(frame.f_locals.get("self"))) for frame, _ in frames]
    return next((path for path in reversed(holders) if path is not None), "")


def _line(frames: list[tuple[FrameType, int]]) -> str:
    files = [(frame.f_code.co_filename, line) for frame, line in frames]
    own = [(file, line) for file, line in files if "site-packages" in file or not file.startswith(_STANDARD_LIBRARY)]
    return source_of_frames("\n".join(f'File "{file}", line {line}' for file, line in own if file[:1] != "<"))
