"""A policy's configuration from its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from placewright.support.errors import InputError, shown

C = TypeVar("C")


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
