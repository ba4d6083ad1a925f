"""Sessions of ONNX Runtime: how they are set up, and what they raise in one sentence.

Imported only where onnxruntime is known to be present.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnxruntime

from placewright.support.errors import InputError, shown

#: Of what ONNX Runtime says, the error code and the place in its own sources in front of it.
_PREAMBLE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |\S+\.(cc|h):\d+ \S+ ")
#: How an error begins that a run with bound values raises, which is no more than a RuntimeError.
_OF_A_RUN = "Error in execution: "
_ERRORS_ONLY = 3


def planned_options(cores: frozenset[int]) -> Any:
    """For a file whose nodes stand in plan order: they run in this order, unchanged, and memory is taken when it is
    needed and given back when its last reader has run, neither kept for a later tensor nor laid out in one piece."""
    options = _options(len(cores))
    # The thread that calls computes too; a core is numbered from 1. Threads that spin would take the cores of others.
    if others := sorted(cores)[1:]:
        affinities = ";".join(str(core + 1) for core in others)
        options.add_session_config_entry("session.intra_op_thread_affinities", affinities)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    options.enable_mem_reuse = False
    return options


def usual_options(cores: frozenset[int]) -> Any:
    """What ONNX Runtime does with so many cores when nobody says how: its own optimisations, its own order."""
    options = _options(len(cores))
    # Threads that go on spinning after a run would slow down whatever is measured next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def parallel_options(cores: Sequence[frozenset[int]]) -> Any:
    """ONNX Runtime's parallel mode: ops that do not wait for each other run at once, one for each device, each on as
    many threads as a device has cores."""
    options = usual_options(cores[0])
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = len(cores)
    # It has none in this mode, and would say so.
    options.enable_mem_pattern = False
    return options


def profiled(options: Any, prefix: Path) -> Any:
    """The same options, with a profile written to a file whose name begins so."""
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    return options


def _options(num_threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    return options


def session(model: bytes, options: Any, weights: Path, name: str) -> Any:
    """A session on the CPU. weights: the folder of files that the model names. name: what errors call the model."""
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    with told_as_input_error(name):
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def optimise(model: bytes, weights: Path, name: str, folder: Path) -> bytes:
    """The model as ONNX Runtime's basic and extended optimisations leave it, its larger weights in a file in `folder`.

    Layouts that only one sort of core knows are left alone, so that every host can load the result.
    """
    path = folder / "optimised.onnx"
    options = _options(1)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    session(model, options, weights, name)
    return path.read_bytes()


@contextmanager
def told_as_input_error(name: str) -> Iterator[None]:
    """What ONNX Runtime says against a model or its inputs, as one sentence about `name`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    refusals = (
        *(state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile),
        *(state.NotImplemented, state.RuntimeException, state.EPFail),
    )
    try:
        yield
    except (*refusals, RuntimeError) as error:
        said = str(error).strip().partition("\n")[0]
        if not isinstance(error, refusals) and not said.startswith(_OF_A_RUN):
            raise
        said = _PREAMBLE.sub("", _PREAMBLE.sub("", said.removeprefix(_OF_A_RUN)))
        raise InputError(f"ONNX Runtime cannot run '{shown(name)}': {shown(said, 300)}") from error
