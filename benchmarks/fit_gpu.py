"""Training steps within memory limits on a GPU: eager, checkpointed, as planned by the own executor, and by Inductor.

    python benchmarks/fit_gpu.py --out rows.jsonl                all rows, some seven minutes of an H100
    python benchmarks/fit_gpu.py --device cpu --small            the same with tiny networks, to try it without a GPU
    python benchmarks/fit_gpu.py --links --out links.jsonl       copies between host and GPU, and waits for events

First eager, eager with every block checkpointed, and `placewright.compile` at shares of eager's peak, for all networks;
then Inductor within planned limits and within PyTorch's budgets, for some. Each of the two is a process of its own per
network, so that one that fails or is stopped leaves the others as they are. A row is a line of the file as soon as it
is measured, and says so where there was no time for it.

"Measured" is what `torch.cuda.max_memory_allocated` says of a step, without what libraries held before it, parameters
and arguments included; times are medians of steps that are waited for, "least" the quickest one. A step is forward and
backward in float32 without TF32, with deterministic algorithms of cuDNN. "Off" is the largest difference of a gradient
from eager's over the largest gradient, "equal" how many gradients are eager's bit by bit; of eager itself, both are
those of another step. Other networks may be prepared meanwhile (`--beside`), but only one is measured at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fit_inductor import UNet
from torch import nn
from torch.utils.checkpoint import checkpoint

import placewright
from placewright.analysis.advice import shortage_words
from placewright.execution.pytorch.memory import allocated_peak
from placewright.lab.datasets.zoo.libraries import import_torchvision

Network = tuple[nn.Module, tuple[torch.Tensor, ...]]
MIB = 2**20
#: Shares of eager's peak, the most telling first.
LIMITS = (0.5, 0.7, 0.4)
#: Suffixes of a way's name, and the `keep` patterns of its plans.
KEPT: dict[str, tuple[str, ...]] = {"": (), ", nothing moved": ("move:*",)}
BUDGETS = (1.0, 0.5, 0.1, 0.3, 0.0)
LISTS = (nn.Sequential, nn.ModuleList)
COLUMNS = (
    *("network", "way", "limit", "planned", "measured", "of eager", "planned ms", "ms", "least", "runs again"),
    *("moved", "off", "equal", "ready in s"),
)


class WithLoss(nn.Module):
    """A network and its loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        found = self.network(x)
        found = getattr(found, "logits", found)
        if wanted.is_floating_point():
            return (found - wanted).square().mean()
        return nn.functional.cross_entropy(found.flatten(0, -2), wanted.flatten())


def pictures(name: str, batch: int, *, small: bool) -> Network:
    """A classifier of torchvision."""
    import_torchvision()
    import torchvision

    batch, side = (2, 64) if small else (batch, 224)
    return getattr(torchvision.models, name)(), (torch.randn(batch, 3, side, side), torch.randint(1000, (batch,)))


def gpt2(*, small: bool) -> Network:
    """GPT-2 with 12 layers of 768, without dropout, as Inductor would draw other numbers; 8 texts of 512 tokens."""
    import_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    sizes = (
        {"n_layer": 3, "n_embd": 64, "n_head": 4, "vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}
        if small
        else {}
    )
    config = GPT2Config(use_cache=False, **drops, **sizes)
    return GPT2LMHeadModel(config), texts(config.vocab_size, *((8, 64) if small else (8, 512)))


def bert(*, small: bool) -> Network:
    """BERT-base that fills in words, without dropout; 16 texts of 256 tokens."""
    import_torchvision()
    from transformers import BertConfig, BertForMaskedLM

    drops = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    sizes = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100} if small else {}
    config = BertConfig(**drops, **sizes)
    return BertForMaskedLM(config), texts(config.vocab_size, *((8, 64) if small else (16, 256)))


def texts(words: int, batch: int, length: int) -> tuple[torch.Tensor, ...]:
    """Random words as inputs, and others as labels."""
    return torch.randint(words, (batch, length)), torch.randint(words, (batch, length))


def unet(*, small: bool) -> Network:
    """A U-Net of four levels from 64 channels on, 16 pictures of 256 x 256."""
    shape = (2, 3, 32, 32) if small else (16, 3, 256, 256)
    return UNet((8, 16, 32) if small else (64, 128, 256, 512)), (torch.randn(shape), torch.randn(shape))


def two_layers(*, small: bool) -> Network:
    """Some layers, to try all of this in seconds."""
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
    return nn.Sequential(*layers), (torch.randn(256, 64), torch.randn(256, 64))


NETWORKS: dict[str, Callable[..., Network]] = {
    "resnet50": partial(pictures, "resnet50", 64),
    "gpt2": gpt2,
    "unet": unet,
    "bert_base": bert,
    "densenet121": partial(pictures, "densenet121", 32),
}
TINY = {"two_layers": two_layers}


def checkpointed(model: nn.Module) -> int:
    """Makes every block in the outermost lists of blocks run again in backward; returns the number of blocks.

    A single layer is no block: some write into their input, which must not happen twice."""
    count = 0
    for child in model.children():
        blocks = [each for each in child if any(each.children())] if isinstance(child, LISTS) else []
        if len(blocks) > 1:
            for block in blocks:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
                count += 1
        else:
            count += checkpointed(child)
    return count


class Device:
    """The device where steps run, and measurements on it."""

    def __init__(self, name: str, lock: str | None) -> None:
        self.name = name
        self.is_gpu = name.startswith("cuda")
        self._lock = lock

    def settle(self) -> None:
        """Frees memory that earlier ways left."""
        gc.collect()
        if self.is_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def finish(self) -> None:
        """Waits for what was launched."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def peak(self, step: Callable[[], Any]) -> tuple[int, int]:
        """The most bytes that a step uses beyond those in use before: as the allocator gave them, and as requested,
        which is less if it does not split a block."""
        if not self.is_gpu:
            return (allocated_peak(step),) * 2
        self.finish()
        before = torch.cuda.memory_stats()
        torch.cuda.reset_peak_memory_stats()
        step()
        self.finish()
        after, names = torch.cuda.memory_stats(), ("allocated_bytes.all", "requested_bytes.all")
        allocated, requested = (after[f"{name}.peak"] - before[f"{name}.current"] for name in names)
        return allocated, requested

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which no other process measures."""
        if self._lock is None:
            yield
            return
        with open(self._lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@dataclass
class Steps:
    """Measurements of steps: peak bytes as the allocator gave them and as requested, ms of the median and of the
    quickest step, and the gradients of one, on the host."""

    measured: int
    requested: int
    ms: float
    least_ms: float
    gradients: list[torch.Tensor]


def measured_steps(device: Device, model: nn.Module, args: Sequence[torch.Tensor], call: Callable[[], Any]) -> Steps:
    """Measures steps: three to warm up, one for memory, and a second of timed ones, at least 5 and at most 50."""

    def step() -> None:
        model.zero_grad(set_to_none=True)
        call()

    with device.alone():
        for _ in range(3):
            step()
        model.zero_grad(set_to_none=True)
        held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), *args))
        taken, requested = device.peak(call)
        gradients = [each.grad.cpu() for each in model.parameters() if each.grad is not None]
        times: list[float] = []
        while len(times) < 5 or (sum(times) < 1000 and len(times) < 50):
            device.finish()
            began = time.perf_counter()
            step()
            device.finish()
            times.append((time.perf_counter() - began) * 1e3)
    return Steps(held + taken, held + requested, statistics.median(times), min(times), gradients)


class Measuring:
    """One network in this process: its ways one after the other, until the time is up."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        (self.name,) = arguments.networks
        self.device = Device(arguments.device, arguments.lock)
        self.out, self.until, self.limits, self.budgets = (
            arguments.out, arguments.until, arguments.limits, arguments.budgets,
        )  # fmt: skip
        torch.manual_seed(0)
        network, args = (NETWORKS | TINY)[self.name](small=arguments.small)
        self.original = WithLoss(network).train()
        self.args = tuple(each.to(self.device.name) for each in args)
        self.facts = {"gpu": torch.cuda.get_device_name() if self.device.is_gpu else None, "torch": torch.__version__}
        self.base = 0
        self.expected: list[torch.Tensor] = []
        #: By sort of way, the seconds that the last one took.
        self._took: dict[str, float] = {}

    def model(self) -> nn.Module:
        """A copy on the device that may be changed."""
        return copy.deepcopy(self.original).to(self.device.name)

    def row(self, way: str, make: Callable[[], dict[str, Any]]) -> None:
        """Adds the row of a way, with the error if there was one; skips it if the last of its sort took more time than
        is left."""
        sort, left = way.split()[0], self.until - time.time()
        if left < self._took.get(sort, 0.0):
            self._add({"way": way, "skipped": f"{left:.0f} s were left, and the last such row took more"})
            return
        began = time.time()
        self.device.settle()
        try:
            found = make()
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            found = {"failed": f"{type(error).__name__}: {lines[0]}"[:300]}
        self._took[sort] = time.time() - began
        self._add({"way": way, **found, "took_s": round(self._took[sort], 1)})

    def _add(self, found: dict[str, Any]) -> None:
        add_row(self.out, {"network": self.name, **found, **self.facts})

    def of_steps(self, steps: Steps, **more: Any) -> dict[str, Any]:
        """The cells of measured steps."""
        pairs = list(zip(steps.gradients, self.expected, strict=True))
        largest = max(float(wanted.abs().max()) for _, wanted in pairs)
        return {
            "measured_bytes": steps.measured,
            "requested_bytes": steps.requested,
            "of_eager": steps.measured / self.base,
            "ms": steps.ms,
            "least_ms": steps.least_ms,
            "off": max(float((found - wanted).abs().max()) for found, wanted in pairs) / largest,
            "equal": sum(torch.equal(found, wanted) for found, wanted in pairs),
            "gradients": len(pairs),
            **more,
        }

    def eager(self) -> dict[str, Any]:
        """The module itself, with which the other ways are compared."""
        model = self.model()
        first = measured_steps(self.device, model, self.args, lambda: model(*self.args).backward())
        self.base, self.expected = first.measured, first.gradients
        model.zero_grad(set_to_none=True)
        model(*self.args).backward()
        again = [each.grad.cpu() for each in model.parameters() if each.grad is not None]
        return self.of_steps(replace(first, gradients=again))

    def checkpointed(self) -> dict[str, Any]:
        """The module with each of its blocks checkpointed."""
        model = self.model()
        blocks = checkpointed(model)
        return self.of_steps(
            measured_steps(self.device, model, self.args, lambda: model(*self.args).backward()), blocks=blocks
        )

    def planned(self, times: Path, share: float | None, keep: Sequence[str] = ()) -> dict[str, Any]:
        """The own executor, within a share of what eager takes. times: a file of op times, made by the first call."""
        began = time.time()
        model, limit = self.model(), None if share is None else int(share * self.base)
        options: dict[str, Any] = {"devices": self.device.name if self.device.is_gpu else "cpu:0", "training": True}
        with contextlib.ExitStack() as stack:
            if not times.exists():
                # Ops are timed now.
                stack.enter_context(self.device.alone())
            compiled = placewright.compile(model, self.args, **options, measured=times, memory_limit=limit, keep=keep)
        with compiled:
            plan, ready = compiled.plan, time.time() - began
            known = self._of_plan(plan, limit, ready)
            if plan.status == "infeasible":
                return {**known, "failed": shortage_words(plan)}
            steps = measured_steps(self.device, model, self.args, lambda: compiled(*self.args))
            if not self.device.is_gpu:
                # Steps run in threads, whose memory is not seen from this one.
                found = compiled.compare(*self.args, steps=1).facts.measured_peak_bytes or 0
                steps.measured = steps.requested = found
            return self.of_steps(steps, **known)

    def compiled(self, share: float | None, budget: float | None, keep: Sequence[str] = ()) -> dict[str, Any]:
        """Inductor, within a share of what eager takes or within a budget of PyTorch. keep: as in KEPT."""
        began = time.time()
        torch._dynamo.reset()
        model, limit = self.model(), None if share is None else int(share * self.base)
        patched: dict[str, Any] = {"enable_autograd_cache": False}
        if budget is not None:
            patched["activation_memory_budget"] = budget
        with torch._functorch.config.patch(**patched), torch._inductor.config.patch(fx_graph_cache=False):
            if limit is None:
                compiled: Any = torch.compile(model, dynamic=False)
            else:
                compiled = placewright.fit(model, limit, backend="inductor", keep=keep)
            compiled(*self.args).backward()
            ready, known = time.time() - began, {}
            steps = measured_steps(self.device, model, self.args, lambda: compiled(*self.args).backward())
        if limit is not None:
            fitted = compiled.graphs
            known = self._of_plan(fitted[0].plan, limit, ready) | {"graphs": len(fitted)}
        return self.of_steps(steps, ready_s=round(ready, 1), **{k: v for k, v in known.items() if k != "ready_s"})

    @staticmethod
    def _of_plan(plan: Any, limit: int | None, ready: float) -> dict[str, Any]:
        return {
            "limit_bytes": limit,
            "planned_bytes": plan.peak_bytes[0],
            "planned_ms": plan.step_time_ns / 1e6,
            "reruns": len(plan.reruns),
            "moves": len(plan.moves),
            "bound_ms": plan.lower_bound / 1e6,
            "ready_s": round(ready, 1),
        }

    def run(self, stage: str) -> None:
        """All rows of a stage."""
        self.row("eager" if stage == "own" else "eager again", self.eager)
        if not self.base:
            return
        if stage == "own":
            self.row("checkpointed", self.checkpointed)
            with tempfile.TemporaryDirectory() as folder:
                times = Path(folder) / "times.csv"
                for share in self.limits:
                    for ways, keep in KEPT.items():
                        self.row(f"planned {share}{ways}", partial(self.planned, times, share, keep))
                self.row("planned without a limit", partial(self.planned, times, None))
            return
        for way, limit, budget, kept in compiled_ways(self.limits, self.budgets):
            self.row(way, partial(self.compiled, limit, budget, kept))


def compiled_ways(
    limits: Sequence[float], budgets: Sequence[float]
) -> Iterator[tuple[str, float | None, float | None, Sequence[str]]]:
    """Name, limit, budget and `keep` patterns of each way to compile, limits and budgets alternating."""
    longer = max(len(limits), len(budgets))
    for number in range(longer):
        if number < len(limits):
            for ways, keep in KEPT.items():
                yield f"inductor limit {limits[number]}{ways}", limits[number], None, keep
        if number < len(budgets):
            yield f"inductor budget {budgets[number]}", None, budgets[number], ()


def ways_of(stage: str, arguments: argparse.Namespace) -> list[str]:
    """The names of a stage's rows."""
    if stage == "own":
        planned = [f"planned {share}{ways}" for share in arguments.limits for ways in KEPT]
        return ["eager", "checkpointed", *planned, "planned without a limit"]
    return ["eager again", *(way for way, *_ in compiled_ways(arguments.limits, arguments.budgets))]


def add_row(out: Path, row: dict[str, Any]) -> None:
    """Adds a line to the file, and prints what it says."""
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(line_of(row), flush=True)


def line_of(row: dict[str, Any]) -> str:
    """A row of the table."""
    if (why := row.get("skipped")) or (why := row.get("failed")):
        return f"| {row['network']} | {row['way']} | {'skipped' if 'skipped' in row else 'failed'}: {why} |"

    def size(key: str) -> str:
        return "" if row.get(key) is None else f"{row[key] / MIB:.1f}"

    def number(key: str, form: str) -> str:
        return "" if row.get(key) is None else format(row[key], form)

    cells = (
        *(row["network"], row["way"], size("limit_bytes"), size("planned_bytes"), size("measured_bytes")),
        *(number("of_eager", ".3f"), number("planned_ms", ".1f"), number("ms", ".1f"), number("least_ms", ".1f")),
        *(
            number("reruns", "d"),
            number("moves", "d"),
            number("off", ".1e"),
            f"{row['equal']} of {row['gradients']}",
            number("ready_s", ""),
        ),
    )
    return f"| {' | '.join(cells)} |"


@dataclass
class Job:
    """A network and a stage, and the process that measures it until it is stopped."""

    network: str
    stage: str
    process: subprocess.Popen[bytes]
    until: float


def measure_all(arguments: argparse.Namespace) -> None:
    """Measures each network and stage in a process of its own, some at once, within the seconds of each and of all."""
    end = time.time() + arguments.total
    waiting = [(name, "own") for name in arguments.networks]
    waiting += [(name, "inductor") for name in arguments.networks if name in arguments.compiled]
    if arguments.stages != "both":
        waiting = [each for each in waiting if each[1] == arguments.stages]
    running: list[Job] = []
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * (len(COLUMNS) - 2)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < arguments.beside:
                name, stage = waiting.pop(0)
                until = min(end, time.time() + arguments.seconds)
                if until - time.time() < 5:
                    skip(arguments, name, stage, "the time of all was used up")
                    continue
                running.append(Job(name, stage, started(arguments, name, stage, until, folder), until))
            for job in list(running):
                if job.process.poll() is None and time.time() < job.until:
                    continue
                running.remove(job)
                if job.process.poll() is None:
                    os.killpg(job.process.pid, signal.SIGKILL)
                    job.process.wait()
                    skip(arguments, job.network, job.stage, "stopped when its time was up")
                elif job.process.returncode:
                    skip(arguments, job.network, job.stage, f"its process ended with {job.process.returncode}")
            time.sleep(0.1)


def started(arguments: argparse.Namespace, name: str, stage: str, until: float, folder: str) -> subprocess.Popen[bytes]:
    """The process of a job."""
    command = [sys.executable, __file__, "--networks", name, "--stage", stage, "--until", str(until)]
    command += ["--lock", f"{folder}/lock", "--out", str(arguments.out), "--device", arguments.device]
    command += ["--limits", *map(str, arguments.limits), "--budgets", *map(str, arguments.budgets)]
    return subprocess.Popen([*command, *(["--small"] if arguments.small else [])], start_new_session=True)


def skip(arguments: argparse.Namespace, name: str, stage: str, why: str) -> None:
    """Adds the missing rows of a stage, which say why they are skipped."""
    rows = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    there = {(row.get("network"), row.get("way")) for row in rows}
    for way in ways_of(stage, arguments):
        if (name, way) not in there:
            add_row(arguments.out, {"network": name, "way": way, "skipped": why})


def measure_links(arguments: argparse.Namespace) -> None:
    """Measures copies between pinned memory and the GPU by size, alone and during matrix products, and events."""
    device = Device(arguments.device, None)
    streams: Any = torch.cuda if device.is_gpu else torch.cpu
    sizes = [MIB // 16, MIB] if arguments.small else [MIB * each for each in (1, 4, 16, 64, 256)]
    side = 256 if arguments.small else 4096
    left, right = (torch.randn(side, side, device=device.name) for _ in range(2))
    to, back, computing = streams.Stream(), streams.Stream(), streams.Stream()
    out = torch.empty_like(left)

    def timed(launch: Callable[[], Any]) -> float:
        device.finish()
        began = time.perf_counter()
        launch()
        device.finish()
        return time.perf_counter() - began

    def products(count: int) -> None:
        with streams.stream(computing):
            for _ in range(count):
                torch.mm(left, right, out=out)

    timed(partial(products, 3))
    product_s = timed(partial(products, 10)) / 10
    for size in sizes:
        host = [torch.empty(size, dtype=torch.uint8, pin_memory=device.is_gpu) for _ in range(2)]
        there = [torch.empty(size, dtype=torch.uint8, device=device.name) for _ in range(2)]
        # 2 GiB in all, but at least 10 and at most 500 copies.
        count = 2 if arguments.small else max(10, min(500, 2 * 1024 * MIB // size))

        def copies(ways: Sequence[str], host: Any = host, there: Any = there, count: int = count) -> None:
            for _ in range(count):
                if "to the device" in ways:
                    with streams.stream(to):
                        there[0].copy_(host[0], non_blocking=True)
                if "to the host" in ways:
                    with streams.stream(back):
                        host[1].copy_(there[1], non_blocking=True)

        for ways in (("to the device",), ("to the host",), ("to the device", "to the host")):
            copies(ways)
            alone = min(timed(partial(copies, ways)) for _ in range(3))
            number = max(2, int(1.3 * alone / product_s) + 2)
            free = timed(partial(products, number))
            beside, whole = copies_beside(streams, device, partial(products, number), partial(copies, ways), (to, back))
            bytes_moved = size * count * len(ways)
            row = {
                "links": " and ".join(ways), "size": size, "copies": count,
                "gb_per_s": round(bytes_moved / alone / 1e9, 3),
                "beside_products_gb_per_s": round(bytes_moved / beside / 1e9, 3),
                "us_per_copy": round(alone / count * 1e6, 2),
                "products_slower": round(whole / free, 4), "products_outlast_copies": whole > beside,
            }  # fmt: skip
            add_link(arguments.out, row)
    add_link(arguments.out, {"links": "events", **event_times(streams, device, 20 if arguments.small else 2000)})


def copies_beside(
    streams: Any, device: Device, products: Callable[[], None], copies: Callable[[], None], used: Sequence[Any]
) -> tuple[float, float]:
    """Seconds until copies that begin while products run have ended, and until the products have ended as well."""
    device.finish()
    began = time.perf_counter()
    products()
    copies()
    ends = []
    for stream in used:
        with streams.stream(stream):
            event = streams.Event()
            event.record()
        ends.append(event)
    for event in ends:
        event.synchronize()
    copied = time.perf_counter() - began
    device.finish()
    return copied, time.perf_counter() - began


def event_times(streams: Any, device: Device, count: int) -> dict[str, float]:
    """Times of events in us: of a kernel without and with a hand-over to another stream, and of the host to record one
    and let a stream wait for it, to wait for one that has happened, and for one behind a kernel."""
    pair = (streams.Stream(), streams.Stream())
    x = torch.zeros(1, device=device.name)

    def kernels(hand_over: bool) -> float:
        """Seconds of `count` small kernels, alternating between two streams or on one."""
        device.finish()
        began = time.perf_counter()
        for number in range(count):
            stream, other = pair[number % 2 if hand_over else 0], pair[(number + 1) % 2]
            with streams.stream(stream):
                x.add_(1)
                if hand_over:
                    event = streams.Event()
                    event.record()
                    other.wait_event(event)
        launched = time.perf_counter() - began
        device.finish()
        whole = time.perf_counter() - began
        return max(launched, whole)

    kernels(True)
    one, two = (min(kernels(hand_over) for _ in range(3)) for hand_over in (False, True))
    stream, events = pair[0], []
    device.finish()
    began = time.perf_counter()
    for _ in range(count):
        event = streams.Event()
        with streams.stream(stream):
            event.record()
        pair[1].wait_event(event)
        events.append(event)
    host = time.perf_counter() - began
    device.finish()
    began = time.perf_counter()
    for event in events:
        event.synchronize()
    waited = time.perf_counter() - began
    behind = []
    for _ in range(min(count, 200)):
        with streams.stream(stream):
            x.add_(1)
            event = streams.Event()
            event.record()
            began = time.perf_counter()
            event.synchronize()
        behind.append(time.perf_counter() - began)
    return {
        "kernel_us": round(one / count * 1e6, 3),
        "kernel_and_hand_over_us": round(two / count * 1e6, 3),
        "host_record_and_wait_us": round(host / count * 1e6, 3),
        "host_synchronize_past_us": round(waited / count * 1e6, 3),
        "host_synchronize_behind_a_kernel_us": round(statistics.median(behind) * 1e6, 3),
    }


def add_link(out: Path, row: dict[str, Any]) -> None:
    """Adds a line to the file, and prints it."""
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print("| " + " | ".join(f"{key} {value}" for key, value in row.items()) + " |", flush=True)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), metavar="NETWORK")
    options.add_argument("--compiled", nargs="*", default=["resnet50", "gpt2", "unet"], help="for Inductor as well")
    options.add_argument("--stages", choices=("own", "inductor", "both"), default="both")
    options.add_argument("--limits", nargs="*", type=float, default=LIMITS, help="shares of eager's peak")
    options.add_argument("--budgets", nargs="*", type=float, default=BUDGETS, help="PyTorch's activation_memory_budget")
    options.add_argument("--device", default="cuda:0")
    options.add_argument("--small", action="store_true", help="tiny networks and batches")
    options.add_argument("--seconds", type=float, default=240, help="for each network and stage")
    options.add_argument("--total", type=float, default=420, help="seconds for all")
    options.add_argument("--beside", type=int, default=2, help="networks that are prepared at once")
    options.add_argument("--links", action="store_true", help="measure links alone")
    options.add_argument("--out", type=Path, default=Path("out") / "fit-gpu.jsonl")
    for hidden, kind in (("--stage", str), ("--until", float), ("--lock", str)):
        options.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    if arguments.device == "cpu":
        # One core, so that plans compute with as many threads as eager.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        torch.set_num_threads(1)
    if arguments.links:
        measure_links(arguments)
    elif arguments.stage:
        Measuring(arguments).run(arguments.stage)
    else:
        measure_all(arguments)


if __name__ == "__main__":
    main()
