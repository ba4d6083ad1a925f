"""Docstrings as a user reads them in an editor or on the site: each public name explains all of its arguments."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property

import pytest

import placewright
from placewright.analysis.frontier import Frontier, FrontierPoint, Rival
from placewright.api.questions import Answer, Check
from placewright.costs.estimate import TimeSources
from placewright.lab import memory_levels
from placewright.lab.memory_levels import record as map_record
from placewright.plans import record
from placewright.problem.objective import Metrics

#: Classes that the public functions return, and classes of their fields.
RETURNED = [Answer, Check, Metrics, TimeSources, record.ScheduledOp, record.Transfer, record.Buffer]
RETURNED += [Frontier, FrontierPoint, Rival]
RETURNED += [map_record.MappedOp, map_record.MappedTensor, map_record.MemoryMap]
RETURNED += [record.MemoryCurve, record.BaselineOutcome, record.OneDevice, record.Plan]
PUBLIC = {name: getattr(placewright, name) for name in placewright.__all__ if name != "__version__"}
PUBLIC |= {name: getattr(memory_levels, name) for name in memory_levels.__all__}
CLASSES = {one.__qualname__: one for one in [*PUBLIC.values(), *RETURNED] if inspect.isclass(one)}


def functions() -> Iterator[tuple[str, Callable[..., object]]]:
    yield from ((name, one) for name, one in PUBLIC.items() if not inspect.isclass(one))
    for owner, one in CLASSES.items():
        own = {name for name in vars(one) if not name.startswith("_")}
        members = inspect.getmembers(one, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
        yield from ((f"{owner}.{name}", member) for name, member in members if name in own)


def explained(thing: object, section: str) -> set[str]:
    """The names in a section of a docstring in NumPy style: the lines that are not indented within it."""
    found = re.search(rf"^{section}\n-+\n(.*?)(\n\n\S|\Z)", inspect.getdoc(thing) or "", re.DOTALL | re.MULTILINE)
    lines = found[1].splitlines() if found else []
    return {name for line in lines if line and not line.startswith(" ") for name in line.split(", ")}


@pytest.mark.parametrize("function", [pytest.param(function, id=name) for name, function in functions()])
def test_every_parameter_of_a_public_function_is_explained(function: Callable[..., object]) -> None:
    assert inspect.getdoc(function)
    assert explained(function, "Parameters") == set(inspect.signature(function).parameters) - {"self"}


@pytest.mark.parametrize(
    "one", [one for one in CLASSES.values() if is_dataclass(one)], ids=lambda one: one.__qualname__
)
def test_every_field_of_a_public_record_is_explained(one: type) -> None:
    described = one if "Attributes\n" in (one.__doc__ or "") else one.__base__
    assert explained(described, "Attributes") == {field.name for field in fields(one)}


def test_properties_of_public_records_say_what_they_are() -> None:
    silent = [
        f"{owner}.{name}"
        for owner, one in CLASSES.items()
        for name, member in vars(one).items()
        if not name.startswith("_") and isinstance(member, property | cached_property) and not inspect.getdoc(member)
    ]
    assert silent == []
