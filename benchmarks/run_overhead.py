"""Cost of running a plan besides the ops themselves, on one CPU device with all ops in captured order.

python benchmarks/run_overhead.py prints a row per network: a step op by op without a plan (the bare calls of what was
captured, one after the other), the same as planned, a call of the compiled module, with its guards, and the module as
PyTorch runs it, all in turn on one core; minimum and median of several steps. Overhead is the difference of the minima
by op. The guards alone are the minimum of several checks.
"""

from __future__ import annotations

import argparse
import os
import time
import timeit
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from zoo_modules import module_of

import placewright
from placewright.api.compiled import Compiled
from placewright.execution.devices import cores_of
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.regions import traced
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.steps import Region
from placewright.execution.workers import Workers

NETWORKS = (
    *("bert_tiny", "lstm1", "mobilenet_v2", "nasnet_a_mobile", "inception_v3", "switch8"),
    *("resnet18", "googlenet", "mmoe", "densenet121", "efficientnet_b0", "regnet_y_400mf"),
)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", default=NETWORKS)
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--steps", type=int, default=15)
    return options


def take_turns(ways: Sequence[Callable[[], Any]], steps: int) -> list[list[int]]:
    """Times of each way in ns; the first round warms caches and allocators."""
    taken: list[list[int]] = [[] for _ in ways]
    for step in range(steps + 1):
        for way, times in zip(ways, taken, strict=True):
            began = time.perf_counter_ns()
            way()
            if step:
                times.append(time.perf_counter_ns() - began)
    return taken


def bare_calls(program: TorchProgram, parameters: Sequence[Any], args: Sequence[Any]) -> Callable[[], Any]:
    """A step of a program that changes nothing, as a function that calls op after op in captured order."""
    values = dict(zip(program.parameters, parameters, strict=True)) | dict(program.constants)
    values |= {tensor: args[place] for tensor, place in program.inputs.items()}
    whole = Region(ops=tuple(sorted(program.calls)), inputs=tuple(values), outputs=program.results)
    function, given = traced(whole, program).forward, list(values.values())
    return lambda: function(*given)


def row(name: str, batch: int, steps: int) -> str:
    model, args = module_of(name, batch)
    model.eval()
    torch.compiler.reset()
    compiled = placewright.compile(model, args, devices="cpu:0", solver="input-order", verify=False)
    with torch.no_grad():
        captured, values = compiled.captured("the overhead of a plan", args, {})
    program = captured.program
    parameters, tensors = program.split(values)
    workers = Workers(cores_of(2)[:1])
    step = TorchStep(program, captured.plan, workers)
    bare = bare_calls(program, parameters, tensors)
    with torch.no_grad():
        planned = [lambda: step.run(parameters, tensors), lambda: compiled(*args)]
        taken = take_turns([bare, *planned, lambda: model(*args)], steps)
        guards_us = guard_check_us(compiled, model, args)
    compiled.close()
    workers.close()
    calls = len(program.calls)
    bare_ns, planned_ns, called_ns, eager_ns = (min(times) for times in taken)
    columns = [name, f"{calls:,}", *(f"{min(times) / 1e6:.2f} / {median(times) / 1e6:.2f}" for times in taken)]
    columns += [f"{bare_ns / calls / 1e3:.1f}", f"{(planned_ns - bare_ns) / calls / 1e3:+.2f}"]
    columns += [f"{planned_ns / eager_ns - 1:+.1%}", f"{guards_us:.0f}", f"{called_ns / eager_ns - 1:+.1%}"]
    return f"| {' | '.join(columns)} |"


def guard_check_us(compiled: Compiled, model: torch.nn.Module, args: Sequence[Any]) -> float:
    """Time in us to find that nothing has changed since the module was captured."""
    variant = compiled._variants[0]
    entry = _debug_get_cache_entry_list(variant._compiled._torchdynamo_orig_callable.__code__)[0]  # type: ignore[attr-defined]
    values = {"args": tuple(args), "kwargs": {}, "model": model}
    with torch._dynamo.config.patch(variant._settings):
        assert entry.guard_manager.check(values)
        return min(timeit.repeat(lambda: entry.guard_manager.check(values), number=50, repeat=5)) / 50 * 1e6


def main() -> None:
    arguments = parser().parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores_of(2)[0])
    print(
        "| network | calls | bare ms, min / median | planned | called | eager | us by bare call | overhead "
        "| planned / eager | guards, us | called / eager |"
    )
    print("|---|" + "---:|" * 10)
    for name in arguments.networks:
        print(row(name, arguments.batch, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
