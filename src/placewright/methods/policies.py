"""Policies, and the families of policies: those of extensions and those registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.guide import Guide
from placewright.problem import Problem
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.modules import FAILURES, described, lacking, load_extensions

Weights: TypeAlias = Mapping[str, NDArray[np.float32]]


class Policy(Protocol):
    """Turns an observation of a problem into a guide for a search. A policy file stores one policy."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str:
        """The name of the `PolicyFamily` that can read its file."""
        ...

    @property
    def configuration(self) -> Any:
        """A frozen dataclass of JSON values."""
        ...

    @property
    def weights(self) -> Weights: ...

    @property
    def record(self) -> Mapping[str, Any]:
        """The record of its training, in JSON values."""
        ...

    @property
    def title(self) -> str:
        """The policy's name and a digest of all that determines its guides, since two trainings may use one name."""
        ...

    def check(self, problem: Problem) -> None:
        """Raise InputError unless the policy is for such a problem."""
        ...

    def observe(self, problem: Problem, seed: int) -> Any:
        """Return the policy's observation of the problem."""
        ...

    def guide(self, problem: Problem, observation: Any, seed: int) -> Guide:
        """Return a guide for a search, from an observation."""
        ...


class ReadPolicy(Protocol):
    """Builds a policy from the content of its file. Raises InputError for invalid content."""

    def __call__(
        self, *, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]
    ) -> Policy: ...


@dataclass(frozen=True, kw_only=True)
class PolicyFamily:
    """A kind of policy: the reader of its files, and its trainings.

    name: as in `train NAME` and in policy files. trainings: configurations by the names that --config takes, the
    default first (of placewright.lab.learning.training.TrainingConfiguration). algorithm: the learning algorithm, as
    named in tables.
    """

    name: str
    read: ReadPolicy
    trainings: Callable[[], Mapping[str, Any]]
    algorithm: str = "REINFORCE"


#: By name.
FAMILIES: dict[str, PolicyFamily] = {}
#: Policies that come with the package or an extension, by the names that --policy takes.
NAMED_POLICIES: dict[str, Callable[[], Policy]] = {}
_OWN = set[str]()
#: The group of entry points in which packages name their families: NAME = "module:FAMILY".
ENTRY_POINTS = "placewright.policies"


def add_families(*families: PolicyFamily) -> None:
    """Add placewright's own families, whose names nobody else can take."""
    for family in families:
        FAMILIES[family.name] = family
        _OWN.add(family.name)


def register_policy_family(family: PolicyFamily) -> PolicyFamily:
    """Make a kind of policy known to policy files and to `train`.

    Parameters
    ----------
    family
        The family to register. It replaces an earlier one of the same name.

    Returns
    -------
    PolicyFamily
        The same.

    Raises
    ------
    InputError
        Where its name is that of one of placewright's own families, or it is no PolicyFamily.
    """
    if not isinstance(family, PolicyFamily):
        raise InputError(f"a family of policies must be a PolicyFamily, not {shown(type(family).__name__)}")
    load_extensions()
    if family.name in _OWN:
        raise InputError(f"placewright has a family of policies '{family.name}' of its own; give yours another name")
    FAMILIES[family.name] = family
    return family


def family_of(name: str) -> PolicyFamily:
    """Find the family of that name. Raises InputError when there is none."""
    if name not in FAMILIES:
        load_extensions()
    if name not in FAMILIES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _load_entry_point(entry)
    if name not in FAMILIES:
        raise InputError(
            f"there is no family of policies '{shown(name)}'{did_you_mean(name, FAMILIES)}; "
            f"--plugin FILE loads one of your own (docs/lab/own-policies.md){lacking()}"
        )
    return FAMILIES[name]


def _load_entry_point(entry: EntryPoint) -> None:
    try:
        register_policy_family(entry.load())
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}") from error
