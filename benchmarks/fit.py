"""Cost of running ops again under memory limits, for training steps of the zoo on one device or several.

    python benchmarks/fit.py                       all 30 networks; rows that there are already are kept
    python benchmarks/fit.py --networks resnet50   these
    python benchmarks/fit.py --fused               graphs and times as `placewright.fit` has them for Inductor
    python benchmarks/fit.py --moves               the same where tensors may be moved to the host as well
    python benchmarks/fit.py --split               the same where a stretch of ops may run in parts
    python benchmarks/fit.py --devices 2xa100      on several devices: beside placement and order alone
    python benchmarks/fit.py --exact 400 --networks unet   CP-SAT for as many seconds, from ten times the budget
    python benchmarks/fit.py --table               the table of the rows that there are

Each network is captured as a training step without an optimizer (gradients are kept to the end), with the zoo's batch,
on fake tensors. Op times are the roofline's of an A100 without any fusion. The limit is a share of the peak of the
captured order, parameters and inputs included: what eager takes. Of each row: the extra time over the step without a
limit, the proven least extra time, ops that run again, tensors that are moved, and seconds of planning. Moves go over a
link of 25 GB/s in either direction, with a latency of 10 us.

On several devices the limit, of each, is a share of the peak of the plan without a limit, on its fullest device, and
the extra time is over that plan. The row also has what is reached where each op runs once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._inductor.lowering
from captured_steps import captured_step, steps_in_parts
from exact_reruns import exact_rematerialization
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._inductor.decomposition import select_decomp_table
from torch.utils._pytree import tree_leaves

import placewright
from placewright.api.pass_captures import PassCaptures
from placewright.bounds import least_limit
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.joint import JointGraph
from placewright.execution.pytorch.open_sizes import Sizes
from placewright.graph import Graph
from placewright.importers.forward_backward import last_pass
from placewright.lab.datasets.zoo.capture import built
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.lab.datasets.zoo.libraries import import_torchvision
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.problem.objective import Metrics
from placewright.rematerialization.solve import core_search, in_order, rematerialize, rerun_evaluations
from placewright.search.run.budget import Budget
from placewright.search.run.drive import drive
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

OUT = Path(__file__).parent / "results" / "fit"
SHARES, SHARES_WITH_MOVES, SHARES_ON_SEVERAL = (0.5, 0.4, 0.3), (0.5, 0.4, 0.25), (0.7, 0.5, 0.3)
DEVICE = "a100"
#: Share of the time for their bytes that fused ops take, as in `placewright.fit`.
FUSED_SHARE = 0.02
#: Vocabulary sizes of Llamas that --networks can name in addition to the zoo's networks.
VOCABULARIES = {f"llama_{thousands}k": thousands * 1000 for thousands in (32, 128, 256)}
#: Networks on which settings were chosen; the table marks them.
TUNED_ON = ("resnet50", "densenet121", "gpt2_small", "unet", "inception_v3", "swin_tiny")
NETWORKS = (
    *TUNED_ON,
    *(
        "resnet18",
        "se_resnet50",
        "preact_resnet110",
        "vgg16",
        "mobilenet_v3_large",
        "efficientnet_b0",
        "regnet_y_400mf",
    ),
    *("convnext_tiny", "hrnet_w18", "xception", "nasnet_a_mobile", "darts", "segnet", "deeplab_v3", "edsr"),
    *("ddpm_cifar", "wavenet10", "lstm2", "gnmt2", "bert_base", "llama8", "t5_small", "vit_small12", "r3d18"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network under one limit.

    extra, least: extra time of the plan and the proven least, over the time without a limit; None if no plan that fits
    was found, and if nothing is proven. floor: the least share of the peak that is not ruled out. once, accumulated:
    like extra, if each op runs once on several devices, and if the batch is split into several passes.
    """

    network: str
    share: float
    num_ops: int
    extra: float | None
    least: float | None
    floor: float
    is_proven_impossible: bool
    num_reruns: int
    seconds: float
    num_moves: int = 0
    once: float | None = None
    accumulated: float | None = None


class _Vocabulary(torch.nn.Module):
    """A Llama of 8 layers of 512 with a vocabulary of so many words, and its loss."""

    def __init__(self, words: int) -> None:
        super().__init__()
        import_torchvision()
        from transformers import LlamaConfig, LlamaForCausalLM

        sizes = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 1376}
        self.network = LlamaForCausalLM(LlamaConfig(vocab_size=words, use_cache=False, **sizes))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.network(tokens, labels=tokens).loss
        return loss


def network_of(name: str) -> tuple[torch.nn.Module, Sequence[Any]]:
    """A network of the zoo, or a Llama by its vocabulary, and the arguments of a step."""
    if name in VOCABULARIES:
        with torch.device("meta"):
            return _Vocabulary(VOCABULARIES[name]), (torch.zeros(1, 2048, dtype=torch.long),)
    return built(next(each for each in all_networks() if each.name == name))


def training_step(name: str) -> Graph:
    """The captured step. Raises InputError where PyTorch cannot trace it."""
    model, arguments = network_of(name)
    return captured_step(model, arguments, training=True)


class _Captured(BaseException):
    """Ends a compilation whose joint graph is known. PyTorch lets it through."""


def compiled_step(name: str) -> tuple[Graph, list[str]]:
    """The step as Inductor gets it, with the times of `placewright.fit`, and, as `keep` takes them, ops to run once."""
    model, arguments = network_of(name)
    joints = []

    def part(module: Any, inputs: Any, *, num_fwd_outputs: int, **others: Any) -> Any:
        own = min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **others)
        joints.append(JointGraph(module, num_fwd_outputs, own[0], sizes=Sizes.seen(())))
        raise _Captured

    tensors = [each for each in (*model.parameters(), *arguments) if isinstance(each, torch.Tensor)]
    settings = {"partition_fn": part, "decompositions": select_decomp_table()}
    with detect_fake_mode(tensors) or nullcontext(), suppress(_Captured):
        aot_module_simplified(_Losses(model.train()), arguments, lambda graph, _: graph, **settings)
    (joint,) = joints
    graph = with_fused_times(joint.graph, load_machine(DEVICE), FUSED_SHARE)
    return graph, [*(f"recompute:{name}" for name in joint.once), *joint.collectives]


class _Losses(torch.nn.Module):
    """The sum of the means of the squares of what a network returns."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *arguments: Any) -> tuple[torch.Tensor]:
        found = (each for each in tree_leaves(self.network(*arguments)) if isinstance(each, torch.Tensor))
        return (sum(each.square().mean() for each in found if each.is_floating_point()),)


def rows_on_several(name: str, devices: str, *, moves: bool = False) -> Iterator[Row]:
    """Plans for several devices, with and without reruns. moves: whether tensors may be moved to the host as well."""
    graph = training_step(name)
    free = placewright.plan(graph, devices)
    for share in SHARES_ON_SEVERAL:
        limit = int(share * max(free.peak_bytes))
        once = placewright.plan(graph, devices, memory_limit=limit, keep=["*"])
        began = time.perf_counter()
        found = placewright.plan(graph, devices, memory_limit=limit, keep=[] if moves else ["move:*"])
        seconds = time.perf_counter() - began
        fits = found.status != "infeasible"
        yield Row(
            network=name,
            share=share,
            num_ops=len(free.ops),
            extra=found.step_time_ns / free.step_time_ns - 1 if fits else None,
            least=max(0.0, found.lower_bound / free.step_time_ns - 1) if fits else None,
            floor=found.memory_floor_bytes / max(free.peak_bytes),
            is_proven_impossible=not fits and found.stopped_because == "infeasible",
            num_reruns=len(found.reruns),
            num_moves=len(found.moves),
            seconds=seconds,
            once=once.step_time_ns / free.step_time_ns - 1 if once.status != "infeasible" else None,
        )


def table_on_several(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: a line per network and limit."""
    yield "| network | ops | limit | each op once | plan | ops run again | moved | planned in |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        once = "not found" if row.once is None else f"{row.once:+.1%}"
        extra = _cell(row) if row.extra is None else f"{row.extra:+.1%}"
        runs = " | " if row.extra is None else f"{row.num_reruns} | {row.num_moves}"
        cells = f"| {row.network} | {row.num_ops:,} | {row.share:.0%} | {once} | {extra} | {runs}"
        yield f"{cells} | {row.seconds:.1f} s |"


def rows_of(name: str, *, moves: bool = False, fused: bool = False) -> Iterator[Row]:
    """Rows by limit. moves: whether tensors may move to the host. fused: whether the step is as Inductor gets it."""
    graph, once = compiled_step(name) if fused else (training_step(name), [])
    plan = partial(placewright.plan, graph, DEVICE, keep=once if moves else [*once, "move:*"])
    whole = plan(solver="input-order")
    peak = whole.metrics.peak_memory_bytes
    for share in SHARES_WITH_MOVES if moves else SHARES:
        began = time.perf_counter()
        found = plan(memory_limit=int(share * peak))
        seconds = time.perf_counter() - began
        fits = found.status != "infeasible"
        yield Row(
            network=name,
            share=share,
            num_ops=len(whole.ops),
            extra=found.step_time_ns / whole.step_time_ns - 1 if fits else None,
            least=max(0.0, found.lower_bound / whole.step_time_ns - 1) if fits else None,
            floor=found.memory_floor_bytes / peak,
            is_proven_impossible=not fits and found.stopped_because == "infeasible",
            num_reruns=len(found.reruns),
            seconds=seconds,
            num_moves=len(found.moves),
        )


def rows_in_parts(name: str) -> Iterator[Row]:
    """The best of plans with each op whole and with a stretch in more and more parts, until nothing runs again."""
    model, arguments = network_of(name)
    machine = load_machine(DEVICE)
    whole = make_problem(captured_step(model, arguments, training=True), machine)
    once = measure(whole, in_order(whole))
    parted = [(stretch, make_problem(graph, machine)) for stretch, _, graph in steps_in_parts(model, arguments)]
    passes = list(accumulated(model, arguments, once))
    for share in SHARES:
        limit, began = int(share * once.peak_memory_bytes), time.perf_counter()
        found, done = [], set[str]()
        for stretch, problem in [("", whole), *parted]:
            if stretch in done or least_limit(problem)[0] > limit:
                continue
            run = SearchRun(Budget(evaluations=rerun_evaluations(problem)))
            again = rematerialize(replace(problem, memory_limits_bytes=(limit,)), run, ["move:*"])
            fitness = again.result.metrics.fitness("step-time")
            found.append((fitness, len(again.reruns), problem))
            if not again.reruns and not fitness[0]:
                done.add(stretch)
        nothing = ((limit + 1, 0, 0), 0, whole)
        (over, time_ns, _), num_reruns, problem = min(found, key=lambda each: each[0], default=nothing)
        yield Row(
            network=name,
            share=share,
            num_ops=problem.core.num_ops,
            extra=None if over else time_ns / once.step_time_ns - 1,
            least=None,
            floor=min(least_limit(each)[0] for _, each in [("", whole), *parted]) / once.peak_memory_bytes,
            is_proven_impossible=False,
            num_reruns=num_reruns,
            seconds=time.perf_counter() - began,
            accumulated=min((extra for peak, extra in passes if peak <= limit), default=None),
        )


def accumulated(model: torch.nn.Module, arguments: Sequence[Any], once: Metrics) -> Iterator[tuple[int, float]]:
    """Peak and extra time of a step in 2, 4, 8 and 16 passes, as far as they divide the batch."""
    captures = PassCaptures(model, arguments, {})
    for count in (each for each in (2, 4, 8, 16) if captures.samples % each == 0):
        found = captures.get(captures.samples // count)
        problems = [make_problem(graph, load_machine(DEVICE)) for graph in (found.graph, last_pass(found, None))]
        first, further = (measure(problem, in_order(problem)) for problem in problems)
        given = [tensor for op in found.graph.ops if op.kind == "input" for tensor in op.outputs]
        others = (count - 1) * sum(found.graph.tensors[tensor].size_bytes for tensor in given)
        taken = first.step_time_ns + (count - 1) * further.step_time_ns
        yield further.peak_memory_bytes + others, taken / once.step_time_ns - 1


def exact_words(name: str, share: float, seconds: float) -> str:
    """CP-SAT's result in words: it improves for so many seconds the best runs of two seeds with ten times the default
    budget, first runs in the captured order."""
    problem = make_problem(training_step(name), load_machine(DEVICE))
    whole = measure(problem, in_order(problem))
    limit = int(share * whole.peak_memory_bytes)
    limited = replace(problem, memory_limits_bytes=(limit,))
    searches = []
    for seed in range(2):
        search, _, _ = core_search(limited, seed, ["move:*"])
        drive(SearchRun(Budget(evaluations=10 * rerun_evaluations(problem)), seed=seed), search, "rematerialization")
        searches.append(search)
    best = min(searches, key=lambda each: (each.best_bytes_over_limit, each.best_objective))
    exact = exact_rematerialization(limited, best.best(), seconds)
    if exact.bound_ns is None:
        return f"{name} {share:.0%}: nothing keeps the limit in the captured order"
    times = (best.best_objective if best.best_bytes_over_limit == 0 else None, exact.time_ns, exact.bound_ns)
    words = ("not found" if time is None else f"{time / whole.step_time_ns - 1:+.1%}" for time in times)
    return "{} {:.0%}: {} by the search, {} by CP-SAT, at least {}".format(name, share, *words)


def read_rows(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: a line per network, then means over the networks that fit."""
    shares = sorted({row.share for row in rows}, reverse=True)
    yield "| network | ops | " + " | ".join(f"{share:.0%}" for share in shares) + " | planned in |"
    yield "|---" * (len(shares) + 3) + "|"
    for name in dict.fromkeys(row.network for row in rows):
        own = {row.share: row for row in rows if row.network == name}
        cells = [_cell(own[share]) if share in own else "" for share in shares]
        tuned = " *" if name in TUNED_ON else ""
        slowest = max(row.seconds for row in own.values())
        num_ops = max(row.num_ops for row in own.values())
        yield f"| {name}{tuned} | {num_ops:,} | {' | '.join(cells)} | {slowest:.1f} s |"
    for label, chosen in (("mean", rows), ("mean without *", [row for row in rows if row.network not in TUNED_ON])):
        means = (_mean([row for row in chosen if row.share == share]) for share in shares)
        yield f"| {label} | | {' | '.join(means)} | |"


def _mean(rows: Sequence[Row]) -> str:
    """Mean extra time over the rows that fit, in words."""
    extras = [row.extra for row in rows if row.extra is not None]
    if not extras:
        return ""
    proven = [row.least for row in rows if row.least is not None]
    least = f" (at least +{statistics.mean(proven):.1%})" if proven else ""
    return f"+{statistics.mean(extras):.1%}{least}, {len(extras)} networks"


def _cell(row: Row) -> str:
    others = "" if row.accumulated is None else f", accumulated {row.accumulated:+.1%}"
    if row.extra is None:
        words = (
            f"impossible below {row.floor:.0%}" if row.is_proven_impossible else f"not found (floor {row.floor:.0%})"
        )
        return words + others
    ways = f"{row.num_reruns} and {row.num_moves}" if row.num_moves else f"{row.num_reruns}"
    least = "" if row.least is None else f"at least +{row.least:.1%}, "
    return f"+{row.extra:.1%} ({least}{ways}){others}"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="of the zoo")
    options.add_argument("--out", type=Path, default=OUT, help="folder of rows.jsonl")
    options.add_argument("--table", action="store_true", help="print the table of the rows, and make none")
    options.add_argument("--moves", action="store_true", help="tensors may be moved to the host's memory")
    options.add_argument("--fused", action="store_true", help="graphs and times as for Inductor")
    options.add_argument("--split", action="store_true", help="a stretch of ops may run in parts")
    options.add_argument("--devices", default="", metavar="MACHINE", help="several devices, such as 2xa100")
    options.add_argument("--exact", type=float, metavar="SECONDS", help="by CP-SAT, at the least share alone")
    return options


def main() -> None:
    options = parser().parse_args()
    if options.exact is not None:
        for name in options.networks:
            print(exact_words(name, min(SHARES), options.exact), flush=True)
        return
    variant = "-with-moves" if options.moves else ""
    variant += "-fused" if options.fused else ""
    variant += "-split" if options.split else ""
    variant += f"-{options.devices}" if options.devices else ""
    path = options.out / f"rows{variant}.jsonl"
    if not options.table:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = {row.network for row in read_rows(path)}
        for name in options.networks:
            if name in done:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if options.devices:
                        rows = list(rows_on_several(name, options.devices, moves=options.moves))
                    elif options.split:
                        rows = list(rows_in_parts(name))
                    else:
                        rows = list(rows_of(name, moves=options.moves, fused=options.fused))
            except InputError as error:
                print(f"{name}: {error}", flush=True)
                continue
            with path.open("a") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
            print(
                *(f"{row.network} {row.share:.0%}: {_cell(row)} in {row.seconds:.1f} s" for row in rows),
                sep="\n",
                flush=True,
            )
    print("\n".join((table_on_several if options.devices else table)(read_rows(path))))


if __name__ == "__main__":
    main()
