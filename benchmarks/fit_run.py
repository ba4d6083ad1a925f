"""Training steps under memory limits, run on the CPU by the own executor, compared with the modules themselves.

    taskset -c 0 python benchmarks/fit_run.py                    all networks on one core; rows that there are are kept
    python benchmarks/fit_run.py --networks timm_resnet10t       of the zoo, or of a library
    python benchmarks/fit_run.py --table                         the table of the rows that there are

The limit is a share of the way from the least that is not ruled out to the peak of the captured order, the first of
--shares for which a plan is found. Bytes are counted by the allocator. Loss, gradients and buffers of a step are
compared with the module's bit by bit. Times are the least of --steps, which alternate: as planned, without a limit, in
eager.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from library_builders import LIBRARIES, Entry, built, entries
from zoo_modules import module_of

import placewright
from placewright.execution.devices import available_cores
from placewright.importers.torch.results import default_loss
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.support.errors import InputError

OUT = Path(__file__).parent / "results" / "fit" / "run.jsonl"
NETWORKS = (
    *("timm_lcnet_050", "timm_mnasnet_small", "timm_tinynet_e", "timm_mobilenetv3_small_050"),
    *("pytorchcv_resnet20_cifar10", "pytorchcv_sepreresnet20_cifar10", "pytorchcv_nin_cifar10"),
    *("torchvision_mnasnet0_5", "torchvision_shufflenet_v2_x0_5", "torchvision_mobilenet_v3_small"),
    *("timm_regnetx_002", "timm_dla46_c", "timm_mobilevit_xxs", "timm_convnext_atto", "timm_edgenext_xx_small"),
    *("timm_semnasnet_075", "timm_spnasnet_100", "timm_pit_ti_224", "timm_xcit_nano_12_p16_224"),
    *("pytorchcv_densenet40_k12_cifar10", "pytorchcv_ror3_56_cifar10"),
    *("pytorchcv_diaresnet20_cifar10", "pytorchcv_menet108_8x1_g3", "pytorchcv_fdmobilenet_wd4"),
    *("bert_tiny", "preact_resnet110", "squeezenet_1_1", "mobilenet_v2", "resnet18", "shufflenet_v2"),
    *("ghostnet", "mobilenet_v3_large", "regnet_x_400mf", "efficientnet_b0", "vit_small12", "googlenet", "bert_small"),
    *("edsr", "ddpm_cifar", "densenet121", "convnext_tiny", "mixer_s16"),
)
#: Settings of networks that library_steps.toml does not name and that cannot use its sizes.
OWN_SETTINGS = {"timm_pit_ti_224": {"input": (3, 224, 224)}}
SHARES, BATCH = (0.5, 0.7, 0.9), 2
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network under one limit. planned_bytes, measured_bytes: the plan's peak. whole: the step without a limit.
    is_equal: whether loss, parameters, gradients and buffers are the module's."""

    network: str
    share: float
    limit_bytes: int
    planned_bytes: int
    measured_bytes: int
    eager_bytes: int
    num_reruns: int
    planned_ns: int
    measured_ns: int
    whole_planned_ns: int
    whole_measured_ns: int
    eager_ns: int
    is_equal: bool


@dataclass(frozen=True, kw_only=True)
class Network:
    """A module, and the arguments of a step."""

    model: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def network_of(name: str) -> Network:
    """A network of the zoo, or of a library."""
    if any(network.name == name for network in all_networks()):
        model, args = module_of(name, BATCH)
        return Network(model=model, args=args, kwargs={})
    library = next(library for library in LIBRARIES if name.startswith(f"{library}_"))
    own = Entry(library=library, name=name.removeprefix(f"{library}_"), settings=OWN_SETTINGS.get(name, {}))
    found = built(next((entry for entry in entries() if entry.label == own.label), own), seed=7, steps=1)
    ((args, kwargs),) = found.batches
    return Network(model=found.module, args=args, kwargs=kwargs)


def row_of(name: str, shares: Sequence[float], steps: int) -> Row:
    """The row of the first share for which a plan is found. Raises InputError if there is none."""
    found = network_of(name)
    model, args, kwargs = found.model, found.args, found.kwargs
    # All plans of a network have the same op times.
    times = Path(tempfile.mkdtemp()) / "times.csv"
    options: dict[str, Any] = {"devices": "cpu:0", "kwargs": kwargs, "training": True, "measured": times}
    with placewright.compile(copy.deepcopy(model), args, **options, solver="input-order") as whole:
        peak, machine = max(whole.plan.peak_bytes), whole.plan.machine
        graph = whole.captured("the least limit", args, kwargs)[0].graph
    once: dict[str, Any] = {"solver": "input-order", "evaluations": 1, "keep": ["move:*", "weight:*"]}
    least = placewright.plan(graph, machine, memory_limit=1, measured=times, **once)
    for share in shares:
        limit = int(least.memory_floor_bytes + share * (peak - least.memory_floor_bytes))
        ours, eager = copy.deepcopy(model), copy.deepcopy(model)
        try:
            planned = placewright.compile(ours, args, **options, memory_limit=limit)
            break
        except InputError:
            if share == shares[-1]:
                raise
    with planned:
        torch.manual_seed(0)
        value = planned(*args, **kwargs)
        torch.manual_seed(0)
        wanted = default_loss(eager.train()(*args, **kwargs))
        wanted.backward()
        is_equal = torch.equal(value, wanted.detach()) and all(
            torch.equal(a, b)
            and (a.grad is None) == (b.grad is None)
            and (a.grad is None or torch.equal(a.grad, b.grad))
            for a, b in zip((*ours.parameters(), *ours.buffers()), (*eager.parameters(), *eager.buffers()), strict=True)
        )
        ours.zero_grad()
        facts = planned.compare(*args, steps=steps, **kwargs).facts
    assert facts.measured_peak_bytes is not None
    return Row(
        network=name,
        share=share,
        limit_bytes=limit,
        planned_bytes=max(planned.plan.peak_bytes),
        measured_bytes=facts.measured_peak_bytes,
        eager_bytes=facts.eager_peak_bytes,
        num_reruns=len(planned.plan.reruns),
        planned_ns=facts.planned_ns,
        measured_ns=facts.measured_range_ns[0],
        whole_planned_ns=facts.one_device_planned_ns,
        whole_measured_ns=facts.one_device_range_ns[0],
        eager_ns=facts.eager_range_ns[0],
        is_equal=is_equal,
    )


def read_rows(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(found: Sequence[Row]) -> Iterator[str]:
    """Markdown, with sizes in MiB; then a summary of how many rows are as they should be."""
    yield "| network | share | limit | planned | measured | eager | reruns | planned time | measured time | step |"
    yield "|---|" + "---:|" * 8 + "---|"
    for row in found:
        sizes = (row.limit_bytes, row.planned_bytes, row.measured_bytes, row.eager_bytes)
        cells = [row.network, f"{row.share:.0%}", *(f"{size / MIB:.1f}" for size in sizes), str(row.num_reruns)]
        cells += [f"{ratio - 1:+.1%}" for ratio in _over_whole(row)]
        cells.append("equal" if row.is_equal else "DIFFERENT")
        yield f"| {' | '.join(cells)} |"
    off = max(abs(row.measured_bytes / row.planned_bytes - 1) for row in found)
    as_planned = sum(abs(row.measured_ns / row.planned_ns - 1) <= 0.1 for row in found)
    by_ratio = sum(abs(measured / planned - 1) <= 0.1 for planned, measured in map(_over_whole, found))
    of_eager = statistics.median(row.measured_ns / row.eager_ns for row in found)
    yield ""
    yield (
        f"{len(found)} networks, {sum(row.is_equal for row in found)} of them equal to eager and "
        f"{sum(row.measured_bytes <= row.limit_bytes for row in found)} within the limit. Measured peaks are at most "
        f"{off:.2%} off those planned. {as_planned} within 10% of the planned time, {by_ratio} of the planned ratio "
        f"to the step without a limit, {of_eager:.2f} of eager's time in the median."
    )


def _over_whole(row: Row) -> tuple[float, float]:
    """The step's time over that without a limit, planned and measured."""
    return row.planned_ns / row.whole_planned_ns, row.measured_ns / row.whole_measured_ns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="of the zoo or a library")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, metavar="SHARE")
    parser.add_argument("--steps", type=int, default=10, help="that are timed")
    parser.add_argument("--out", type=Path, default=OUT, help="file of rows")
    parser.add_argument("--table", action="store_true", help="print the table of the rows, and make none")
    options = parser.parse_args()
    torch.set_num_threads(len(available_cores()))
    done = {row.network for row in read_rows(options.out)}
    for name in () if options.table else options.networks:
        if name in done:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row = row_of(name, options.shares, options.steps)
            with options.out.open("a") as file:
                file.write(f"{json.dumps(asdict(row))}\n")
        except InputError as error:
            print(f"{name}: {error}", flush=True)
    if found := read_rows(options.out):
        print("\n".join(table(found)))


if __name__ == "__main__":
    main()
