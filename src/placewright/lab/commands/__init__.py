"""The laboratory's commands: `train`, `dataset`, `bench` and `policies`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from placewright.cli.extensions import Commands
from placewright.lab.commands import bench, datasets, policies, training
from placewright.lab.commands.example_lines import EXAMPLES


def _add_to(app: typer.Typer) -> None:
    app.command("policies")(policies.policies)
    app.command("train")(training.train)
    app.add_typer(datasets.app, name="dataset")
    app.add_typer(bench.app, name="bench")


def _types() -> Mapping[str, Any]:
    from placewright.lab.commands.schemas import TYPES

    return TYPES


#: The entry point `lab` of the group `placewright.commands`.
COMMANDS = Commands(add_to=_add_to, examples=EXAMPLES, types=_types)
