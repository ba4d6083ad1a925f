"""`placewright map`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placewright.cli.exit_codes import INTERRUPTED
from placewright.cli.options import Dims, Evaluations, Json, Model, Quiet, TimeLimit, parse_dims
from placewright.cli.printing import print_found
from placewright.importers.sources import place_of


def map_command(
    model: Model,
    chip: Annotated[
        str,
        typer.Option(
            "--chip",
            "-c",
            metavar="CHIP",
            show_default=False,
            help="nnpi, nnpi-50tops, nnpi-tight, nnpi-prefetch, h100+host, or a chip.toml.",
        ),
    ],
    dim: Dims = None,
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, exact, annealing, marginal, density, alike, local-search, greedy-dp, random; ea, pg, egrl, "
            "which learn; a compiler's rules: h0, h1, h6; or zero-shot, which takes a policy.",
        ),
    ] = "auto",
    evaluations: Evaluations = None,
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same map.")] = 0,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trained policy: zero-shot maps with it as it is, egrl goes on from it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MAP", help="Write the map (.json or .json.gz).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find in which memory level of a chip every tensor lives."""
    from placewright.cli.outputs import check_outputs
    from placewright.cli.progress import watched
    from placewright.lab.memory_levels.maps import map_memory
    from placewright.lab.memory_levels.summary import map_summary
    from placewright.lab.memory_levels.tables import map_tables
    from placewright.lab.memory_levels.words import format_ps
    from placewright.support.interruption import Interruption

    check_outputs({"--output": output}, inputs=[place_of(model), chip, policy])
    with Interruption() as interrupted:
        with watched(model, format_ps) as on_progress:
            found = map_memory(
                model,
                chip,
                solver=solver,
                evaluations=evaluations,
                time_limit=time_limit,
                seed=seed,
                policy=policy,
                dims=parse_dims(dim),
                on_progress=on_progress,
                interrupted=interrupted,
            )
        written: dict[str, str] = {}
        if output is not None:
            found.save(output)
            written[str(output)] = "map"
        print_found(map_summary(found, written), map_tables(found, written), as_json)
        return INTERRUPTED if interrupted() else 0
