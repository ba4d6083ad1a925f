"""`placewright map`, and what the commands that read plans do with maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.exit_codes import INTERRUPTED
from placewright.cli.options import Dims, Json, Model, Quiet, parse_dims
from placewright.cli.printing import emit, is_watched, print_found
from placewright.importers.sources import place_of
from placewright.support.errors import InputError
from placewright.support.files import write_atomically

if TYPE_CHECKING:
    from placewright.search.run.budget import OnProgress, Progress


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
    evaluations: Annotated[
        int | None, typer.Option(metavar="N", help="Budget; reproducible. By default about a second's.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="Budget in time, like 1s; not reproducible.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same map.")] = 0,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trained policy: zero-shot maps with it as it is, egrl goes on from it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MAP", help="Write the map (.json or .json.gz).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to open in a browser.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find in which memory level of a chip every tensor lives."""
    from placewright.api.maps import map_memory
    from placewright.cli.interruption import Interruption
    from placewright.cli.outputs import check_outputs
    from placewright.terminal.map_summary import map_summary
    from placewright.terminal.map_tables import map_tables

    check_outputs({"--output": output, "--report": report}, inputs=[place_of(model), chip, policy])
    with Interruption() as interrupted:
        with _watched(model) as on_progress:
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
        if report is not None:
            found.write_report(report)
            written[str(report)] = "report"
        print_found(map_summary(found, written), map_tables(found, written), as_json)
        return INTERRUPTED if interrupted() else 0


@contextmanager
def _watched(model: str) -> Iterator[OnProgress | None]:
    """A line on stderr that follows the search; None when stderr is no terminal."""
    from placewright.memory_levels.words import format_ps

    if not is_watched():
        yield None
        return
    from rich.console import Console

    from placewright.terminal.text import printable

    def told(progress: Progress) -> str:
        return f"{progress.method}: {progress.evaluations:,} evaluations, best {format_ps(progress.best)}"

    with Console(stderr=True, highlight=False, markup=False).status(f"reading {printable(model)}") as status:
        yield lambda progress: status.update(told(progress))


def show_map(path: Path, as_json: bool) -> int:
    """`show` of a map."""
    from placewright.memory_levels.file import read_map
    from placewright.terminal.map_summary import map_summary
    from placewright.terminal.map_tables import map_tables

    found = read_map(path)
    print_found(map_summary(found), map_tables(found), as_json)
    return 0


def explain_map(path: Path, op: str | None, model: str | None, as_json: bool) -> int:
    """`explain` of a map."""
    from placewright.api.maps import why_in_level
    from placewright.memory_levels import explain
    from placewright.memory_levels.file import read_map
    from placewright.terminal.map_tables import map_explanation_tables, map_op_tables

    found = read_map(path)
    if op is not None:
        of_op = why_in_level(found, op, model, name=f"'{path}'")
        print_found(of_op, map_op_tables(of_op), as_json)
        return 0
    explained = explain.explain_map(found)
    print_found(explained, map_explanation_tables(found, explained), as_json)
    return 0


def diff_maps(first: Path, second: Path, as_json: bool) -> int:
    """`diff` of two maps."""
    from placewright.memory_levels.explain import compare_maps
    from placewright.memory_levels.file import read_map
    from placewright.terminal.map_tables import map_diff_tables

    maps = read_map(first), read_map(second)
    found = compare_maps(*maps)
    print_found(found, map_diff_tables(*maps, found), as_json)
    return 0


def check_map(model: str, path: Path, dims: dict[str, int], as_json: bool) -> int:
    """`check` of a map."""
    from placewright.api.maps import judge_map
    from placewright.memory_levels.file import read_map
    from placewright.terminal.map_tables import map_check_tables

    read = read_map(path)
    found = judge_map(read, model, dims=dims, name=f"'{path}'")
    print_found(found, map_check_tables(read, found.problems, found.unchecked), as_json)
    return 0 if found.correct else 1


def export_map(path: Path, target: str, output: Path) -> int:
    """`export` of a map."""
    from placewright.export import MAP_TARGETS
    from placewright.memory_levels.file import read_map

    if target not in MAP_TARGETS:
        raise InputError(f"'{path}' is a memory map, which is exported to {' or '.join(MAP_TARGETS)}, not to {target}")
    write_atomically(output, MAP_TARGETS[target](read_map(path)))
    emit(str(output))
    return 0
