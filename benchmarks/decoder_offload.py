"""A decoder larger than the memory of its GPU, token by token: where its weights and its cache live.

    python benchmarks/decoder_offload.py [--models NAME:BATCH:CONTEXT ...] [--chip h100+host] [--seconds 20]

Time per token of four maps. "in order" fills the GPU layer by layer, then the host, as accelerate's
`infer_auto_device_map` does. "uniform" is the best of all maps that treat every layer alike: the same matrices of each
layer on the host, or whole layers on the host at equal distances. "auto" is placewright's. "floor" is no map: what does
not fit on the GPU and is read for every token, over the rate of the host. Times are of the model, so nothing here
depends on the machine that runs it but how far `auto` gets in its seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from decoder_graphs import DECODERS, decoder_step

from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.solvers.table import make_map_solver
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun

#: Where weights and cache, or weights alone, take more than the 77 GiB of the preset.
MODELS = ("codellama-34b:32:4096", "codellama-34b:64:4096", "llama2-70b:1:4096", "llama2-70b:32:4096")
_DEVICE, _HOST = 0, 1
#: So many maps are made at a time.
_AT_ONCE = 512


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--chip", default="h100+host")
    options.add_argument("--seconds", type=float, default=20)
    return options


def main() -> None:
    arguments = parser().parse_args()
    print("| model | batch | context | weights | cache | in order | uniform | auto | floor | auto over in order |")
    print("|---|" + "---:|" * 9)
    for model in arguments.models:
        name, batch, context = model.split(":")
        decoder = DECODERS[name]
        graph = decoder_step(name, decoder, batch=int(batch), context=int(context))
        problem = make_memory_problem(graph, load_chip(arguments.chip))
        cache = decoder.layers * decoder.cache_bytes(int(batch), int(context))
        weights = int(problem.size_bytes[problem.is_weight == 1].sum()) - cache
        in_order = problem.evaluate_one(COMPILERS["h0"](problem))[0]
        auto = (
            make_map_solver("auto")
            .solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=arguments.seconds)))
            .latency_ps
        )
        sizes = [f"{size / 2**30:.1f} GiB" for size in (weights, cache)]
        times = [
            f"{time / 1e9:.1f} ms" for time in (in_order, best_uniform(problem, decoder.layers), auto, floor(problem))
        ]
        print(f"| {' | '.join([name, batch, context, *sizes, *times, f'{in_order / auto:.3f}'])} |", flush=True)


def best_uniform(problem: MemoryProblem, layers: int) -> int:
    """Of those that fit as they are."""
    best = problem.evaluate_one(problem.all_slowest())[0]
    maps = [*same_in_every_layer(problem), *whole_layers(problem, layers)]
    for begin in range(0, len(maps), _AT_ONCE):
        found = problem.evaluate(np.stack(maps[begin : begin + _AT_ONCE]))
        fits = found.moved_bytes == 0
        if fits.any():
            best = min(best, int(found.latency_ps[fits].min()))
    return best


def same_in_every_layer(problem: MemoryProblem) -> Iterator[Levels]:
    """Each choice of the weights of a layer that are on the host, and of the first and the last matrix."""
    roles = [
        role_of(name) if weight else "" for name, weight in zip(problem.tensor_names, problem.is_weight, strict=True)
    ]
    large = sorted({role for role in roles if role and "norm" not in role})
    for chosen in product((_DEVICE, _HOST), repeat=len(large)):
        level_of = dict(zip(large, chosen, strict=True))
        yield np.array([level_of.get(role, _DEVICE) for role in roles], np.uint8)


def whole_layers(problem: MemoryProblem, layers: int) -> Iterator[Levels]:
    """For each number of layers on the host, those as far from each other as that number allows."""
    layer_of = [
        layer_number(name) if weight else -1
        for name, weight in zip(problem.tensor_names, problem.is_weight, strict=True)
    ]
    for count in range(layers + 1):
        away = {(2 * number + 1) * layers // (2 * count) for number in range(count)}
        yield np.array([_HOST if layer in away else _DEVICE for layer in layer_of], np.uint8)


def role_of(name: str) -> str:
    """`self_attn.q_proj.weight` of `model.layers.7.self_attn.q_proj.weight`."""
    return name.split(".", 3)[3] if name.startswith("model.layers.") else name


def layer_number(name: str) -> int:
    return int(name.split(".")[2]) if name.startswith("model.layers.") else -1


def floor(problem: MemoryProblem) -> int:
    """In ps. A table of which rows are looked up need not be read, and stays where it is."""
    read = problem.size_bytes[(problem.is_weight == 1) & (problem.is_table == 0)]
    device, host = problem.chip.levels[:2]
    return host.transfer_ps(max(0, int(read.sum()) - device.capacity_bytes))


if __name__ == "__main__":
    main()
