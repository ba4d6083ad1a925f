"""Train, valid and test of which no network, family or topology is in two.

`library_networks.py` imports this.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from library_captures import Capture

#: A family with more graphs is learned from: as a part to measure on it would be most of it.
_LARGEST_MEASURED = 24
Parts: TypeAlias = Mapping[str, Sequence[Capture]]


def clans(captures: Collection[Capture]) -> list[list[Capture]]:
    """Captures that belong together, each in one clan: of one network, of one family by the library's modules, of names
    that begin alike (resnet50 of one library and resnet18 of another), or of which one repeats the other."""
    above: dict[str, str] = {}

    def root(key: str) -> str:
        while above.setdefault(key, key) != key:
            key = above[key]
        return key

    for capture in captures:
        keys = [f"family {_plain(capture.family)}", f"family {_stem(capture)}"]
        keys += [f"topology {capture.topology}"] if capture.topology else []
        for key in keys[1:]:
            above[root(key)] = root(keys[0])
    found: dict[str, list[Capture]] = defaultdict(list)
    for capture in captures:
        if capture.is_kept:
            found[root(f"family {_plain(capture.family)}")].append(capture)
    return list(found.values())


def split(captures: Collection[Capture], num_measured: int, apart: Collection[str] = ()) -> Parts:
    """Parts by name: of whole clans so many graphs to validate on, as many to test on, and the rest.

    num_measured: of either; some more, as clans are whole, or fewer, where topologies are left out. apart: topologies
    of another test set, which are left out.

    Libraries have the share in each part that they have in all, as far as small clans allow.
    """
    groups = clans(captures)
    total = sum(map(len, groups)) or 1
    quota = {library: num_measured * count / total for library, count in _by_library(groups).items()}
    parts: dict[str, list[Capture]] = {"test": [], "valid": [], "train": []}
    for group in sorted(groups, key=_drawn):
        part = next((name for name in ("test", "valid") if _fits(group, parts[name], quota)), "train")
        parts[part] += group
    left = {name: [each for each in part if each.topology not in apart] for name, part in parts.items()}
    return {name: sorted(part, key=lambda each: (each.num_ops, each.name)) for name, part in left.items()}


def _fits(group: Sequence[Capture], part: Sequence[Capture], quota: Mapping[str, float]) -> bool:
    """Whether the part lacks graphs of the library that most of the group is of."""
    libraries = [capture.library for capture in group]
    library = max(sorted(set(libraries)), key=libraries.count)
    return len(group) <= _LARGEST_MEASURED and sum(each.library == library for each in part) < quota[library]


def _by_library(groups: Sequence[Sequence[Capture]]) -> Mapping[str, int]:
    count: dict[str, int] = defaultdict(int)
    for group in groups:
        for capture in group:
            count[capture.library] += 1
    return count


def _drawn(group: Sequence[Capture]) -> str:
    """A sequence that looks random and is the same each time, whatever else is captured."""
    return hashlib.sha256(min(capture.label for capture in group).encode()).hexdigest()


def _plain(family: str) -> str:
    """Of modules like "resnet_cifar" the architecture."""
    return re.sub(r"_(cifar10|cifar|coco|cub)$", "", family.lower())


def _stem(capture: Capture) -> str:
    """The letters that the network's own name begins with."""
    name = capture.label.removeprefix(f"{capture.library}_").lower()
    return re.match(r"[a-z]*", name)[0]  # type: ignore[index]
