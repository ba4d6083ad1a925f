"""Source lines in the texts of tracebacks, without their directories, and the layers of traced calls."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from placewright.graph import Phase

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def source_of_frames(trace: str) -> str:
    """ "file.py:line" of the deepest frame of a traceback's text that is model code; empty when none is."""
    source = innermost_frame(trace)
    return "" if source.startswith("torch/") else source


@lru_cache(maxsize=4096)
def innermost_frame(trace: str) -> str:
    """The deepest frame outside PyTorch and placewright; the deepest inside PyTorch when there is no other."""
    frames = [(without_directory(file), line) for file, line in _FRAME.findall(trace)]
    frames = [frame for frame in frames if not frame[0].startswith("placewright/")]
    model_code = [frame for frame in frames if not frame[0].startswith("torch/")]
    file, line = (model_code or frames or [("", "")])[-1]
    return f"{file}:{line}" if file else ""


@lru_cache(maxsize=4096)
def without_directory(file: str) -> str:
    """The path of a file inside the folder that packages are installed in; otherwise its name."""
    parts = PurePosixPath(file.replace("\\", "/")).parts
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") + 1 :])
    ours = [place for place in range(len(parts)) if parts[place : place + 2] == ("placewright", "importers")]
    return "/".join(parts[ours[-1] :] if ours else parts[-1:])


_PHASES: dict[str, Phase] = {"is_forward": "forward", "is_backward": "backward"}


def phase_of(node: Any) -> Phase:
    """The phase in a training step, forward or backward; empty in an inference."""
    return _PHASES.get(node.meta.get("partitioner_tag", ""), "")


def module_of(node: Any) -> str:
    """Dotted path of the innermost layer inside the model; for a gradient, that of the call whose gradient it is."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    return paths[-1].split("@")[0] if paths else ""


def source_of(node: Any) -> str:
    """ "file.py:line" of the model's code that made the call, without the directory the package is installed in."""
    return innermost_frame(node.meta.get("stack_trace") or "")
