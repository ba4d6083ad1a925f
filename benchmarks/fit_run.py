"""Training steps under memory limits, really run on one CPU device by the own executor, beside the modules themselves.

    python benchmarks/fit_run.py --networks resnet18 --shares 0.7

prints a row per network and limit: a share of the way from the least that is not ruled out to the peak of the captured
order. Bytes are counted by the allocator. Loss, gradients
and buffers of a step are compared with the module's bit by bit.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from zoo_modules import module_of

import placewright
from placewright.execution.pytorch.program import make_program
from placewright.importers.torch_trace import default_loss
from placewright.support.errors import InputError

NETWORKS = (
    *("resnet18", "mobilenet_v2", "ghostnet", "squeezenet_1_1", "densenet121", "efficientnet_b0", "shufflenet_v2"),
    *("googlenet", "bert_tiny", "bert_small", "distilbert", "gpt2_small", "vit_small12", "mixer_s16", "dcgan"),
    *("edsr", "ddpm_cifar", "preact_resnet110", "regnet_x_400mf", "convnext_tiny"),
)
MIB = 2**20


def rows(name: str, shares: list[float], batch: int) -> Iterator[str]:
    model, args = module_of(name, batch)
    # All plans of a network have the same op times.
    times = Path(tempfile.mkdtemp()) / "times.csv"
    options: dict[str, Any] = {"devices": "cpu:0", "training": True, "solver": "input-order", "measured": times}
    with placewright.compile(copy.deepcopy(model), args, **options) as whole:
        peak, once_ns = max(whole.plan.peak_bytes), whole.plan.step_time_ns
    graph = make_program(model, args, {}, training=True, sums_in_place=True, inputs_stay=True).graph
    least = placewright.plan(graph, whole.plan.machine, memory_limit=1, measured=times, solver="input-order")
    floor = least.memory_floor_bytes
    for share in shares:
        limit = int(floor + share * (peak - floor))
        ours, eager = copy.deepcopy(model), copy.deepcopy(model)
        with placewright.compile(ours, args, **options, memory_limit=limit) as planned:
            torch.manual_seed(0)
            loss = planned(*args)
            torch.manual_seed(0)
            wanted = default_loss(eager(*args))
            wanted.backward()
            same = torch.equal(loss, wanted.detach()) and all(
                torch.equal(a, b)
                and (a.grad is None) == (b.grad is None)
                and (a.grad is None or torch.equal(a.grad, b.grad))
                for a, b in zip(
                    (*ours.parameters(), *ours.buffers()), (*eager.parameters(), *eager.buffers()), strict=True
                )
            )
            ours.zero_grad()
            found = planned.compare(*args, steps=3).facts
        assert found.measured_peak_bytes is not None
        plan = planned.plan
        cells = [
            name,
            f"{share:.0%}",
            f"{limit / MIB:.1f}",
            f"{max(plan.peak_bytes) / MIB:.1f}",
            f"{found.measured_peak_bytes / MIB:.1f}",
            f"{found.eager_peak_bytes / MIB:.1f}",
            "fits",
            str(len(plan.reruns)),
            f"{plan.step_time_ns / once_ns - 1:+.1%}",
            "equal" if same else "DIFFERENT",
        ]
        yield f"| {' | '.join(cells)} |"


def tensors_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers and gradients."""
    parameters = list(model.parameters())
    return [*parameters, *model.buffers(), *(each.grad for each in parameters if each.grad is not None)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="of the zoo")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.7, 0.5], metavar="SHARE")
    parser.add_argument("--batch", type=int, default=4)
    options = parser.parse_args()
    print("| network | share | limit MiB | planned | measured | eager | | reruns | planned time | step |")
    print("|---|---:|---:|---:|---:|---:|---|---:|---:|---|", flush=True)
    for name in options.networks:
        try:
            for row in rows(name, options.shares, options.batch):
                print(row, flush=True)
        except InputError as error:
            print(f"| {name} | {error} |", flush=True)


if __name__ == "__main__":
    main()
