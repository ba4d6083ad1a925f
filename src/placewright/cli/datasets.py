"""`placewright dataset`: makes sets of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
) -> int:
    """REGAL's synthetic graphs (appendix A.1.4), kept where BRKGA 10K is at least 18% better than BRKGA 1K."""
    from placewright.cli.counting import counting
    from placewright.datasets.synthetic import write_synthetic
    from placewright.files import make_folder

    make_folder(out)
    with counting(count, "graphs kept") as advance:
        files = write_synthetic(out, count, seed, on_kept=lambda kept, candidates: advance(kept, f"of {candidates:,}"))
    for split, path in files.items():
        typer.echo(f"{split}: {path}")
    return 0
