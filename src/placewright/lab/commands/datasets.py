"""`placewright dataset`: makes sets of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placewright.cli.options import Dims, Quiet, parse_control, parse_dims
from placewright.cli.printing import emit
from placewright.support.quantities import counted

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, help="Make sets of graphs for benchmarks."
)

Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the sets; made if need be.", show_default=False)
]


@app.command()
def synthetic(
    out: Out,
    count: Annotated[int, typer.Option(metavar="N", help="Graphs in all, split 10 : 1 : 1.")] = 12000,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed and count, same bytes.")] = 0,
    control: Annotated[
        str, typer.Option(metavar="MODE", help="What control dependencies mean to it: order, transfer or signal.")
    ] = "order",
    quiet: Quiet = False,
) -> int:
    """REGAL's synthetic graphs (appendix A.1.4), kept where BRKGA 10K is at least 18% better than BRKGA 1K."""
    from placewright.lab.commands.counting import counting
    from placewright.lab.datasets.synthetic import write_synthetic

    reading = parse_control(control)
    with counting(count, "graphs kept") as advance:
        files = write_synthetic(out, count, seed, lambda kept, candidates: advance(kept, f"of {candidates:,}"), reading)
    for split, path in files.items():
        emit(f"{split}: {path}")
    return 0


@app.command()
def pack(
    graphs: Annotated[
        list[str],
        typer.Argument(
            metavar="GRAPHS...", help="Model or graph files, folders of them, sets, examples.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for train, valid and test; or NAME.graphs.gz for one set of all.",
            show_default=False,
        ),
    ],
    device: Annotated[
        str, typer.Option(metavar="NAME", help="Its roofline times the ops that state no time.")
    ] = "p100",
    dim: Dims = None,
    quiet: Quiet = False,
) -> int:
    """A set of your own graphs, split 3 : 1 : 1 by size, for `train` and `bench run`."""
    from placewright.lab.datasets.pack import pack as pack_graphs

    for path, count in pack_graphs(graphs, out, device, parse_dims(dim)).items():
        emit(f"{path}: {counted(count, 'graph')}")
    return 0
