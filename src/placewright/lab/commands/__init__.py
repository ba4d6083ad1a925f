"""The laboratory's commands: `train`, `dataset`, `bench` and `policies`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from placewright.cli.extensions import Commands
from placewright.lab.commands import bench, datasets, policies, training

#: By command, what to type and what it does.
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "policies": {"placewright policies": "what plan --policy takes"},
    "dataset pack": {
        "placewright dataset pack models/ --out set": "train, valid and test parts",
        "placewright dataset pack a.onnx b.onnx --out all.graphs.gz": "one set of all",
    },
    "dataset synthetic": {"placewright dataset synthetic --count 120 --out set": "a small set"},
    "dataset zoo": {"placewright dataset zoo --out zoo": "about half an hour of two cores"},
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


def _types() -> Mapping[str, Any]:
    from placewright.lab.commands.schemas import TYPES

    return TYPES


#: The entry point `lab` of the group `placewright.commands`.
COMMANDS = Commands(add_to=_add_to, examples=EXAMPLES, types=_types)
