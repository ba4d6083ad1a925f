"""The laboratory's commands: `train`, `dataset`, `bench`, `policies` and `map`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from placewright.cli.extensions import Commands, FileKind
from placewright.lab.commands import bench, datasets, policies, training
from placewright.lab.memory_levels.command import map_command

#: Example command lines with descriptions, by command.
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "map": {
        "placewright map example:resnet50-int8 --chip nnpi -o map.json": "tensors of ResNet-50 to SRAM, LLC and DRAM",
        "placewright map model.onnx --chip nnpi --time-limit 10s": "any model, as int8",
        "placewright map example:resnet50-int8 --chip nnpi --solver h6": "what a compiler would do",
    },
    "policies": {"placewright policies": "what plan --policy takes"},
    "dataset pack": {
        "placewright dataset pack models/ --out set": "train, valid and test parts",
        "placewright dataset pack a.onnx b.onnx --out all.graphs.gz": "one set of all",
    },
    "dataset synthetic": {"placewright dataset synthetic --count 120 --out set": "a small set"},
    "bench run": {
        "placewright bench run set --solvers auto,brkga,etf --out r": "the test part of a split set",
        "placewright bench run model.onnx -d 2xh100 --solvers auto,etf --out r": "one graph on real devices",
        "placewright bench run set --plugin mine.py --solvers mine,etf --out r": "a method of your own",
    },
    "bench report": {
        "placewright bench report r": "all tables and figures",
        "placewright bench report r --table heuristics": "one table",
    },
    "train": {
        "placewright train regal --data set --out mine": "on a set that dataset made",
        "placewright train regal --data set --out quick --steps 200": "to try",
        "placewright train gdp --data set --out places": "one that places ops at once",
    },
}


def _add_to(app: typer.Typer) -> None:
    app.command("policies")(policies.policies)
    app.command("train")(training.train)
    app.add_typer(datasets.app, name="dataset")
    app.add_typer(bench.app, name="bench")
    app.command("map")(map_command)


def _types() -> Mapping[str, Any]:
    from placewright.lab.commands.schemas import TYPES

    return TYPES


def _kinds() -> Iterable[FileKind]:
    from placewright.lab.memory_levels.kind import MAP_FILES

    return (MAP_FILES,)


#: The entry point `lab` of the group `placewright.commands`.
COMMANDS = Commands(add_to=_add_to, examples=EXAMPLES, types=_types, kinds=_kinds)
