"""The common part of the families of policies: a network's weights, a title, their file, and the problems they are
for."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.support.errors import InputError, shown

C = TypeVar("C")


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkPolicy(ABC):
    """A policy whose guides a network makes.

    weights: float32 arrays by their names in the network. record: of its training, JSON values. family: name of its
    `PolicyFamily`. configured_by: the class of its configuration, a frozen dataclass of JSON values.

    Raises InputError when the weights are not those of such a network.
    """

    name: str
    configuration: Any
    weights: Weights
    record: Mapping[str, Any] = field(default_factory=dict)
    family: ClassVar[str]
    configured_by: ClassVar[type[Any]]

    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the network's arrays, by name."""

    def __post_init__(self) -> None:
        shapes = self.shapes()
        if set(self.weights) != set(shapes):
            strange = min(set(self.weights) ^ set(shapes))
            raise InputError(f"policy '{shown(self.name)}' has not the weights of its network: see '{shown(strange)}'")
        for name, shape in shapes.items():
            array = self.weights[name]
            if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
                raise InputError(
                    f"policy '{shown(self.name)}': '{name}' is not {' x '.join(map(str, shape))} finite float32 numbers"
                )

    @classmethod
    def read(cls, *, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]) -> Self:
        """Return the policy in a file. Raises InputError where it is not of this family."""
        settings = configuration_of(cls.configured_by, configuration)
        return cls(name=name, configuration=settings, weights=weights, record=record)

    @cached_property
    def title(self) -> str:
        """The name and eight digits of a digest of all that determines its guides: two trainings may use one name."""
        digest = hashlib.sha256(self.settings_in_title().encode())
        for name in sorted(self.weights):
            digest.update(np.ascontiguousarray(self.weights[name], "<f4").tobytes())
        return f"{self.name} {digest.hexdigest()[:8]}"

    def settings_in_title(self) -> str:
        return json.dumps(asdict(self.configuration), sort_keys=True)

    @property
    def called(self) -> str:
        """The policy's name in messages."""
        return f"policy '{shown(self.name)}'"

    def check(self, problem: object) -> None:
        """Raise InputError unless the policy is for such a problem: of its objective and number of devices."""
        own, given = self.configuration, self.placing(problem)
        if (own.objective, own.num_devices) != (given.objective, given.machine.num_devices):
            raise InputError(
                f"{self.called} is for {own.objective} on {own.num_devices} devices, "
                f"not for {given.objective} on {given.machine.num_devices}"
            )

    def placing(self, problem: object) -> Problem:
        """Return the problem. Raises InputError for one of mapping tensors to memory levels."""
        if not isinstance(problem, Problem):
            raise InputError(f"{self.called} places ops on devices, and maps no tensors to memory levels")
        return problem


def configuration_of(kind: type[C], values: Mapping[str, Any]) -> C:
    """Make a policy's configuration, a dataclass, from the JSON values of its file.

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
