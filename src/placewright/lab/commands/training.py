"""`placewright train`: makes policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.exit_codes import INTERRUPTED, complain
from placewright.cli.options import Plugins, Quiet
from placewright.cli.printing import emit
from placewright.support.errors import InputError, did_you_mean
from placewright.support.quantities import signed_percent

if TYPE_CHECKING:
    from placewright.lab.learning.training import TrainingConfiguration


def train(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help="regal, gdp, or one that a plugin registers.", show_default=False)
    ],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder with train.graphs.gz and valid.graphs.gz.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="For the policy; a training that was killed there continues.",
            show_default=False,
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Settings by name, as `placewright policies` lists them; the family's first by default.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Gradient steps.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same weights.")] = 0,
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="All cores by default; the weights do not depend on it.")
    ] = None,
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> int:
    """Train a policy; needs the extra `train`."""
    import os

    from placewright.lab.commands.counting import counting
    from placewright.methods.plugins import load_plugins
    from placewright.methods.policies import family_of
    from placewright.support.quantities import whole_number

    try:
        load_plugins(plugin or ())
        trainings = family_of(family).trainings()
        if not trainings:
            raise InputError(f"policies of the family '{family}' are not trained on sets of graphs")
        config = next(iter(trainings)) if config is None else config
        configuration = _configuration(trainings, config, steps)
        cores = os.cpu_count() or 1 if processes is None else whole_number("processes", processes, 1, 1024)
        from placewright.lab.learning.trainer import TrainingProgress, train
    except ImportError as error:
        raise InputError(
            "training needs PyTorch: pip install torch==2.13.0, then 'path/to/placewright[train]'"
        ) from error
    stopped = list[str]()
    with counting(configuration.steps, "steps") as advance:

        def on_progress(progress: TrainingProgress) -> None:
            best = "" if progress.best is None else f", {signed_percent(progress.best / 100, 2)} at best"
            reward = "imitation" if progress.reward is None else f"reward {progress.reward:.4f}"
            advance(progress.step, f"{reward}{best}")
            if progress.stopped is not None:
                stopped.append(f"the training stopped at step {progress.step}, as {progress.stopped}")

        try:
            path = train(
                data,
                configuration,
                out,
                # The folder is part of the name, so that no plan mistakes the policy for a shipped one.
                name=f"{config}/{out.resolve().name}",
                seed=whole_number("seed", seed, 0, 2**63 - 1),
                processes=cores,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            typer.echo(f"placewright: {_what_is_kept(out)}", err=True)
            return INTERRUPTED
    emit(f"policy: {path}")
    for reason in stopped:
        complain(reason)
    return 1 if stopped else 0


def _configuration(
    trainings: Mapping[str, TrainingConfiguration], name: str, steps: int | None
) -> TrainingConfiguration:
    """Return the named configuration, with the number of steps if one is given. Raises InputError for an unknown
    name."""
    from placewright.support.quantities import whole_number

    if name not in trainings:
        raise InputError(f"there is no configuration '{name}'{did_you_mean(name, trainings)}")
    configuration = trainings[name]
    if steps is None:
        return configuration
    number = whole_number("steps", steps, 1, 10**9)
    return replace(configuration, steps=number, imitation_steps=min(number, configuration.imitation_steps))


def _what_is_kept(out: Path) -> str:
    """Say after Ctrl-C what can be used, and how to go on."""
    from placewright.lab.learning.trainer import BEST

    usable = f"{out / BEST} is usable" if (out / BEST).exists() else "there is no policy yet"
    kept = (out / "checkpoint.pt").exists()
    return f"{usable}; the same command {'goes on from the last checkpoint' if kept else 'begins anew'}"
