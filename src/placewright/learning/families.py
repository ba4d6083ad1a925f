"""The families of policies there are: placewright's and those registered from outside."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from placewright.learning.egrl.policy import EGRL
from placewright.learning.family import PolicyFamily
from placewright.learning.gdp.family import GDP
from placewright.learning.learned_list.family import LEARNED_LIST
from placewright.learning.regal.family import REGAL
from placewright.support.errors import InputError, shown
from placewright.support.modules import FAILURES, described
from placewright.support.suggestion import did_you_mean

FAMILIES: dict[str, PolicyFamily] = {family.name: family for family in (REGAL, GDP, EGRL, LEARNED_LIST)}
BUILT_IN = frozenset(FAMILIES)
#: Packages name their families in this group of entry points: NAME = "module:FAMILY".
ENTRY_POINTS = "placewright.policies"


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
    if family.name in BUILT_IN:
        raise InputError(f"placewright has a family of policies '{family.name}' of its own; give yours another name")
    FAMILIES[family.name] = family
    return family


def family_of(name: str) -> PolicyFamily:
    """The family of that name. Raises InputError when there is none."""
    if name not in FAMILIES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _load_entry_point(entry)
    if name not in FAMILIES:
        raise InputError(
            f"there is no family of policies '{shown(name)}'{did_you_mean(name, FAMILIES)}; "
            "--plugin FILE loads one of your own (docs/own-policies.md)"
        )
    return FAMILIES[name]


def _load_entry_point(entry: EntryPoint) -> None:
    try:
        register_policy_family(entry.load())
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}") from error
