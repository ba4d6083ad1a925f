"""What makes a kind of policy known: who reads its files, and how it is trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from placewright.learning.protocols import Policy, Weights
from placewright.learning.training import TrainingConfiguration
from placewright.support.errors import InputError, shown

C = TypeVar("C")


class ReadPolicy(Protocol):
    """Makes a policy of what its file holds. Raises InputError where that is none."""

    def __call__(
        self, *, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]
    ) -> Policy: ...


@dataclass(frozen=True, kw_only=True)
class PolicyFamily:
    """name: as `train NAME` takes it and policy files state it. trainings: by the names that --config takes; the first
    is the one by default. algorithm: what they learn by, as tables name it."""

    name: str
    read: ReadPolicy
    trainings: Callable[[], Mapping[str, TrainingConfiguration]]
    algorithm: str = "REINFORCE"


def configuration_of(kind: type[C], values: Mapping[str, Any]) -> C:
    """A policy's configuration, a dataclass, from the JSON values of its file.

    Raises InputError naming the first value that is wrong or unknown.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        found = TypeAdapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"its configuration's {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if strange := set(values) - set(asdict(found)):  # type: ignore[call-overload]
        raise InputError(f"its configuration has '{shown(min(strange))}', which this placewright does not know")
    return found
