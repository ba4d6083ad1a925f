"""`placewright bench`: run methods over suites of graphs, and report the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.exit_codes import INTERRUPTED, complain
from placewright.cli.options import Dims, Plugins, Quiet, parse_dims
from placewright.cli.printing import emit
from placewright.importers.sources import test_part
from placewright.lab.commands.bench_report import report
from placewright.support.errors import InputError, shown
from placewright.support.quantities import counted

if TYPE_CHECKING:
    from placewright.lab.bench.protocol import BenchSuite, Run
    from placewright.lab.bench.rows import Results
    from placewright.lab.bench.runner import Pool
    from placewright.lab.bench.work import Job

#: Exit code when rows are missing although the run went to its end.
ROWS_MISSING = 1
_MAX_COMPLAINTS = 5

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run methods over many graphs; print tables.",
)


@app.command()
def run(
    suite: Annotated[
        Path,
        typer.Argument(
            metavar="SUITE",
            help="A suite (.toml), a graph set (.graphs.gz) or a folder of either, a graph, or example:NAME.",
            show_default=False,
        ),
    ],
    solvers: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Methods of plan or map, as --solver takes them; regal:P takes policy P.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Keeps the rows; a rerun adds what is missing.",
            show_default=False,
        ),
    ],
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices", "-d", metavar="MACHINE", help="For graphs that no suite describes; 2xideal/free by default."
        ),
    ] = None,
    dim: Dims = None,
    plugin: Plugins = None,
    evaluations: Annotated[
        str | None, typer.Option(metavar="N,...", help="Each a limit to run under; 5000 when no limit is given.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME,...", help="Each a limit to run under, like 1s,10s.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Seeds 0 to N-1, for methods that use one.")
    ] = 1,
    take: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only so many instances, spread over the suite.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes; as many as there are cores by default.")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Solve every instance with every method; each plan or map is checked and becomes a row."""
    import os

    from placewright.lab.bench.runner import Pool, missing_jobs, plan_runs
    from placewright.lab.bench.suites import find_suite
    from placewright.lab.datasets.problem_set import spread
    from placewright.lab.processes import ProcessActors
    from placewright.methods.plugins import load_plugins

    load_plugins(plugin or ())
    names, dims = [name.strip() for name in solvers.split(",")], parse_dims(dim)
    limits = _parse_limits(evaluations, time_limit)
    instances = find_suite(suite, devices, dims)
    plan_runs(instances, names, *limits, num_seeds=seeds)  # refuses a wrong solver before another one's code is found
    runs = plan_runs(instances, names, *limits, seeds, {name: instances.code_of(name) for name in names})
    if (part := test_part(suite)) is not None:
        _warn(f"'{suite}' is a split set; this runs its test part, {part.name}")
    results, chosen = _opened(out, instances, names), spread(len(instances.labels), take)
    _set_stale_aside(results, instances.labels, chosen, runs)
    todo = missing_jobs(instances.labels, chosen, runs, results.rows)
    try:
        count = min(jobs or os.cpu_count() or 1, len(todo))
        with ProcessActors() as actors:
            pool = Pool(actors, count, tuple(plugin or ()), find_suite, suite, devices, dims)
            num_failures = _work(pool, todo, results)
    except KeyboardInterrupt:
        kept = "1 row is kept" if len(results.rows) == 1 else f"{len(results.rows):,} rows are kept"
        _warn(f"{kept} and the same command goes on from there")
        return INTERRUPTED
    finally:
        results.close()
    emit(f"{counted(len(results.rows), 'row')} in {out}")
    if num_failures:
        complain(f"{counted(num_failures, 'failure')}, named above; the same command tries again what is missing")
        return ROWS_MISSING
    return 0


def _opened(out: Path, suite: BenchSuite, solvers: Sequence[str]) -> Results:
    """Open the folder's rows, with warnings about anything odd in them. Raises InputError where rows cannot be
    added."""
    from placewright.lab.bench.rows import Results

    results = Results(out, suite.header())
    _warn_of_damage(results.complaints)
    _refuse_other_policies(results, solvers, suite)
    return results


def _work(pool: Pool, jobs: list[Job], results: Results) -> int:
    """Run the jobs under a progress bar; return the number of failures."""
    from placewright.lab.bench.work import Failure
    from placewright.lab.commands.counting import counting
    from placewright.support.errors import printable

    failures: list[Failure] = []

    def on_failure(failure: Failure) -> None:
        failures.append(failure)
        solver = f"'{failure.run.solver}'" if failure.run else "any solver"
        # A method's defect comes with its traceback, line by line.
        reason = "\n".join(printable(line) for line in failure.reason.split("\n"))
        _warn(f"no row of {solver} on '{printable(failure.label)}': {reason}")

    present = len(results.rows)
    with counting(sum(len(job.runs) for job in jobs), "rows") as advance:
        pool.run(
            jobs,
            results,
            on_row=lambda row: advance(len(results.rows) - present, f"{row.solver} on {printable(row.graph)}"),
            on_failure=on_failure,
            on_death=lambda sentence: _warn(printable(sentence)),
        )
    return len(failures)


def _parse_limits(evaluations: str | None, time_limit: str | None) -> tuple[list[int], list[float]]:
    """Parse numbers of evaluations and seconds. Raises InputError for other text."""
    from placewright.api.arguments import budget

    counts, seconds = [], []
    for text in evaluations.split(",") if evaluations is not None else ():
        # A number with more digits is too large, and Python refuses to read thousands of them.
        is_number = text.strip().isdecimal() and len(text) < 100
        counts.append(budget(int(text) if is_number else shown(text), None, 0).evaluations)
    for text in time_limit.split(",") if time_limit is not None else ():
        limit = budget(None, text.strip(), 0).seconds
        assert limit is not None
        seconds.append(limit)
    return counts if counts or seconds else [5000], seconds


def _warn_of_damage(complaints: Sequence[str]) -> None:
    for complaint in complaints[:_MAX_COMPLAINTS]:
        _warn(f"{complaint}; its row is made again")
    if len(complaints) > _MAX_COMPLAINTS:
        _warn(f"and {len(complaints) - _MAX_COMPLAINTS:,} more damaged lines, all kept in rows.damaged")


def _set_stale_aside(results: Results, labels: Sequence[str], instances: Sequence[int], runs: Sequence[Run]) -> None:
    """Set rows that other code made aside, so that they are made again by this code."""
    from collections import Counter

    from placewright.lab.bench.runner import stale_keys

    stale = stale_keys(labels, instances, runs, results.rows)
    count = Counter((key[1], results.rows[key].code) for key in stale)
    code_of = {run.solver: run.code for run in runs}
    results.set_aside(stale)
    for (solver, code), number in sorted(count.items()):
        rows = counted(number, "row")
        were = f"of '{shown(solver)}' {'was' if number == 1 else 'were'} made by other code ({shown(code)}, "
        _warn(f"{rows} {were}not {code_of[solver]}): set aside in rows.stale and made again")


def _refuse_other_policies(results: Results, solvers: Sequence[str], suite: BenchSuite) -> None:
    """Raise InputError where kept rows came from another policy than the new rows would."""

    for solver in solvers:
        if (policy := suite.policy_of(solver)) is None:
            continue
        name = solver.partition(":")[0]
        own = f"{name}: {policy.title}"
        kept = {row.found_by for row in results.rows.values() if row.solver == solver and row.found_by != name}
        if others := sorted(kept - {own}):
            raise InputError(
                f"'{shown(solver)}' has rows of another policy there, '{shown(others[0])}', not '{own}': "
                "another --out starts anew"
            )


def _warn(sentence: str) -> None:
    typer.echo(f"placewright: {sentence}", err=True)


app.command()(report)
