"""The backend "placewright" of torch.compile: every graph that PyTorch captures, forward and backward, runs as planned.

Imported by PyTorch through the entry point `torch_dynamo_backends`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch._dynamo.exc import ShortenTraceback

from placewright.api.captured_graphs import compile_graph
from placewright.api.local_devices import Devices
from placewright.api.planned_graphs import GraphPlanner, Wishes
from placewright.api.profiles import Profile
from placewright.execution.pytorch.places import first_line, out_of_memory
from placewright.support.errors import DeviceError, InputError


class RefusedError(InputError, ShortenTraceback):
    """An InputError that leaves `torch.compile` unchanged: PyTorch wraps other errors that a backend raises.

    Parameters
    ----------
    error
        The InputError.
    """

    def __init__(self, error: InputError) -> None:
        ShortenTraceback.__init__(self, str(error), first_useful_frame=None)
        self.error = error
        self._sentence = str(error)

    def __str__(self) -> str:
        """The sentence alone; PyTorch would add advice on finding faults of its own."""
        return self._sentence


class FailedError(DeviceError, ShortenTraceback):
    """A DeviceError that leaves `torch.compile` as it is.

    Parameters
    ----------
    error
        The DeviceError.
    """

    def __init__(self, error: DeviceError) -> None:
        ShortenTraceback.__init__(self, str(error), first_useful_frame=None)
        self._sentence = str(error)

    def __str__(self) -> str:
        """The sentence."""
        return self._sentence


def backend(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile one graph of `torch.compile(model, backend="placewright", options={"devices": "cpu:0,cpu:1"})`.

    Forward and backward of a graph are planned together when it is captured; a graph without a backward pass, or with
    open sizes, when it first runs.

    Parameters
    ----------
    module, example_inputs
        The graph that PyTorch captured, and its inputs.
    options
        `devices`, `inductor`, and whatever else `placewright.compile` takes as options of the plan.

    The logger `placewright.api.dynamo` says at level INFO what is planned for each graph: its time, compared with the
    best single device's, and its peak memory.

    A graph with open sizes, from `dynamic=True` or a second shape, is planned for each new set of sizes; the latest
    plans are kept.

    Raises
    ------
    InputError
        Without devices, where one does not exist here, with the option `measured` or `cuda_graph`, for an op that a
        plan cannot run, or where no plan is found that keeps a memory limit.
    """
    with passed_through():
        return compile_graph(_planner(options or {}), module, example_inputs)


@contextmanager
def passed_through() -> Iterator[None]:
    """Let errors that are raised within leave `torch.compile` as the errors they are."""
    try:
        yield
    except RefusedError:
        raise
    except InputError as error:
        raise RefusedError(error) from error
    except DeviceError as error:
        raise FailedError(error) from error
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise FailedError(DeviceError(f"there is too little memory to time ops: {first_line(error)}")) from error


def _planner(options: Mapping[str, Any]) -> GraphPlanner:
    given = dict(options)
    devices, inductor = given.pop("devices", None), bool(given.pop("inductor", False))
    if devices is None:
        raise InputError(
            'the backend needs devices: torch.compile(model, backend="placewright", options={"devices": "cpu:0,cpu:1"})'
        )
    if "cuda_graph" in given:
        raise InputError("the backend launches ops one by one; placewright.compile records steps with cuda_graph=True")
    if "measured" in given:
        raise InputError("the backend measures every graph that PyTorch captures; leave the option 'measured' out")
    return GraphPlanner(_shared(devices), Wishes(options=given, inductor=inductor))


_LOCK = threading.Lock()
_SHARED: dict[tuple[str, ...], Devices] = {}


def _shared(devices: str | Sequence[str]) -> Devices:
    """The devices of these names; all graphs for them take turns on the same threads, and on the same streams."""
    profile = Profile(None)
    machine, _ = profile.machine(devices)
    names = tuple(device.name for device in machine.devices)
    with _LOCK:
        if names not in _SHARED:
            _SHARED[names] = Devices(machine, profile)
        return _SHARED[names]
