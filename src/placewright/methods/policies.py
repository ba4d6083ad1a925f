"""What a policy is, and the families of policies there are: those of extensions and those registered from outside."""

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
    """Turns an observation of a problem into a guide for a search. A policy file holds one."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str:
        """Who can read its file: the name of a `PolicyFamily`."""
        ...

    @property
    def configuration(self) -> Any:
        """A frozen dataclass of JSON values."""
        ...

    @property
    def weights(self) -> Weights: ...

    @property
    def record(self) -> Mapping[str, Any]:
        """How it was trained: JSON values."""
        ...

    @property
    def title(self) -> str:
        """Its name and a digest of what decides its guides, since two trainings may give one name."""
        ...

    def check(self, problem: Problem) -> None:
        """Raises InputError unless the policy is for such a problem."""
        ...

    def observe(self, problem: Problem, seed: int) -> Any:
        """What it sees of the problem."""
        ...

    def guide(self, problem: Problem, observation: Any, seed: int) -> Guide:
        """What it makes of that."""
        ...


class ReadPolicy(Protocol):
    """Makes a policy of what its file holds. Raises InputError where that is none."""

    def __call__(
        self, *, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]
    ) -> Policy: ...


@dataclass(frozen=True, kw_only=True)
class PolicyFamily:
    """A kind of policy: who reads its files, and how it is trained.

    name: as `train NAME` takes it and policy files state it. trainings: by the names that --config takes; the first
    is the one by default (of placewright.lab.learning.training.TrainingConfiguration). algorithm: what they learn by,
    as tables name it.
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
#: Packages name their families in this group of entry points: NAME = "module:FAMILY".
ENTRY_POINTS = "placewright.policies"


def add_families(*families: PolicyFamily) -> None:
    """Adds placewright's own, whose names nobody else can take."""
    for family in families:
        FAMILIES[family.name] = family
        _OWN.add(family.name)


def register_policy_family(family: PolicyFamily) -> PolicyFamily:
    """Make a kind of policy known to policy files and to `train`.

    Parameters
    ----------
    family
        What there is to know of the kind. One registered again replaces the one before.

    Returns
    -------
    PolicyFamily
        The same.

    Raises
    ------
    InputError
        Where its name is that of a family of placewright's, or it is no PolicyFamily.
    """
    if not isinstance(family, PolicyFamily):
        raise InputError(f"a family of policies must be a PolicyFamily, not {shown(type(family).__name__)}")
    load_extensions()
    if family.name in _OWN:
        raise InputError(f"placewright has a family of policies '{family.name}' of its own; give yours another name")
    FAMILIES[family.name] = family
    return family


def family_of(name: str) -> PolicyFamily:
    """The family of that name. Raises InputError when there is none."""
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
