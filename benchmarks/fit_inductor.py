"""Peak memory and time of training steps that Inductor compiles within a limit, against eager and `torch.compile`.

    python benchmarks/fit_inductor.py                               all of fit_inductor.toml within half of eager's
    python benchmarks/fit_inductor.py residual_cnn --limits .4      this one
    python benchmarks/fit_inductor.py timm/resnext26ts              a network of a library, of library_steps.toml
    python benchmarks/fit_inductor.py unet gpt2 --lowest            the lowest limit, beside PyTorch's nine budgets
    python benchmarks/fit_inductor.py unet gpt2 --split             with ops in parts, by Inductor and ops by themselves
    python benchmarks/fit_inductor.py --table                       the tables of the rows that there are

Limits are shares of what eager takes by PyTorch's allocator, parameters and arguments included. "Measured" is the most
that it hands out, "process" every malloc of the process. The loss belongs to the module, so that nothing is allocated
outside. Each row is made by a process of its own and is a line of the file of rows, which a later call takes up. One
thread, so that times are processor times: the least of several steps, with all ways in turn.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from library_builders import LIBRARIES, Entry, Sizes, as_said, built, entries, import_libraries, seed_all
from library_process import add_row, read_rows
from library_steps import received
from run_process_memory import LIBRARY, MIB, counting_environment, process_peak
from torch import nn
from torch._inductor.utils import fresh_cache
from torch.utils._pytree import tree_leaves
from zoo_modules import module_of

import placewright
from placewright.execution.pytorch.memory import allocated_peak
from placewright.lab.datasets.zoo.libraries import OWN, built_module, import_torchvision
from placewright.lab.datasets.zoo.objectives import supervised

Network = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
LIST = Path(__file__).with_suffix(".toml")
BUDGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Shares that --lowest chooses from, from above.
LOWER = (0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2)
#: The least number of rounds of timed steps, and the least seconds that they take.
_ROUNDS, _MEASURED_S = 5, 4.0
_SEED = 7
_SIZES = tuple(Sizes.__dataclass_fields__)
#: Suffixes of a limit: ops may run in parts, by Inductor or the own executor.
PARTS, OWN_PARTS = "in parts", "in parts, own executor"
KEPT, OVER, REFUSED, FAILED = "kept", "over", "refused", "failed"


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


def residual_cnn() -> Network:
    """Six residual blocks of 32 channels, 8 pictures of 64 x 64."""
    layers = [nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 10)), (torch.randn(8, 3, 64, 64),), {}


class UNet(nn.Module):
    """Three levels with group normalisation and skip connections."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(self._level(before, after) for before, after in pairs)
        self.up = nn.ModuleList(self._level(after + before, before) for before, after in pairs[:0:-1])
        self.end = nn.Conv2d(widths[0], 3, 1)

    def _level(self, before: int, after: int) -> nn.Sequential:
        convolutions = (nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1))
        parts = ((convolution, nn.GroupNorm(8, after), nn.SiLU()) for convolution in convolutions)
        return nn.Sequential(*(layer for part in parts for layer in part))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for level in self.down:
            x = level(x)
            skipped.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = skipped.pop()
        for level in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = level(torch.cat((x, skipped.pop()), 1))
        result: torch.Tensor = self.end(x)
        return result


def unet() -> Network:
    """A U-Net, 8 pictures of 64 x 64."""
    return UNet(), (torch.randn(8, 3, 64, 64),), {}


def two_layers() -> Network:
    """Two layers, which are compiled in seconds."""
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)), (torch.randn(64, 64),), {}


def lstm() -> Network:
    """A recurrent layer, which PyTorch does not hand to Inductor; 32 texts of 32."""
    return nn.LSTM(64, 64, batch_first=True), (torch.randn(32, 32, 64),), {}


def gpt2() -> Network:
    """GPT-2 with 4 layers of 256, without dropout, as eager would draw other numbers; 4 texts of 256 tokens."""
    import_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(n_layer=4, n_embd=256, n_head=4, n_positions=256, vocab_size=1000, use_cache=False, **drops)
    return GPT2LMHeadModel(config), (torch.randint(0, 1000, (4, 256)),), {}


def llama32k() -> Network:
    """A Llama of 4 layers of 256 with 32,000 words, and its loss; a text of 2,048 tokens."""
    import_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=768,
        vocab_size=32_000,
        use_cache=False,
    )
    tokens = torch.randint(0, 32_000, (1, 2048))
    return LlamaForCausalLM(config), (tokens,), {"labels": tokens.clone()}


NETWORKS: dict[str, Callable[[], Network]] = {
    "residual_cnn": residual_cnn,
    "resnet18": lambda: (*module_of("resnet18", 8), {}),
    "unet": unet,
    "gpt2": gpt2,
    "llama32k": llama32k,
    "lstm": lstm,
    "two_layers": two_layers,
}


class WithLoss(nn.Module):
    """A network and its loss, so that both are compiled: its own, or else the mean square of all that it returns."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        found = self.network(*args, **kwargs)
        if isinstance(found, torch.Tensor) and not found.dim():
            return found
        loss = found.get("loss") if isinstance(found, dict) else None
        if loss is not None:
            own: torch.Tensor = loss
            return own
        found = found.get("logits", found) if isinstance(found, dict) else found
        squares = [each.square().mean() for each in tree_leaves(found) if torch.is_tensor(each) and each.requires_grad]
        return torch.stack(squares).sum()


def library_entry(name: str, said: Mapping[str, Any]) -> Entry:
    """The entry of a library's network, with settings and sizes of the list."""
    settings = {each.label: each.settings for each in entries()}.get(name, {}) | said.get("settings", {})
    library, _, own = name.partition("/")
    sizes = Sizes(**{size: said[size] for size in _SIZES if size in said})
    return Entry(library=library, name=own, settings=settings, sizes=sizes)


def network_of(name: str) -> Network:
    """A network with its loss, and arguments of a step; the same weights and numbers every time."""
    seed_all(_SEED)
    said = tomllib.loads(LIST.read_text()).get(name, {})
    if name.partition("/")[0] in LIBRARIES:
        example = built(library_entry(name, said), _SEED, 1)
        network, (args, kwargs) = example.module, example.batches[0]
    elif "builder" in said:
        network = supervised(built_module(OWN, said["builder"], said.get("arguments", {})), said["loss"])
        args, kwargs = tuple(as_said(each) for each in said["inputs"]), {}
    else:
        network, args, kwargs = NETWORKS[name]()
    return WithLoss(network).train(), args, kwargs


class Way:
    """A copy of a network that makes its steps in one way. compiled: makes a callable of the copy, called once here.

    Attributes
    ----------
    first_seconds
        Processor time of the first step, compilers that it starts included.
    """

    def __init__(self, network: Network, compiled: Callable[[nn.Module], Any] = lambda module: module) -> None:
        original, self._args, self._kwargs = network
        self.module = copy.deepcopy(original)
        began = _seconds_with_children()
        with fresh_cache():
            self.call = compiled(self.module)
            self.step()
        self.first_seconds = _seconds_with_children() - began
        self.step()

    def step(self, measure: Callable[[Callable[[], None]], Any] = lambda call: call(), seed: int = _SEED) -> Any:
        """Run forward and backward, which set the gradients; return what `measure` returns for them."""
        self.module.zero_grad()
        seed_all(seed)
        return measure(self._pass)

    def _pass(self) -> None:
        loss = self.call(*self._args, **self._kwargs)
        if loss.requires_grad:  # else the own executor has done it
            loss.backward()

    def peaks(self) -> tuple[int, int]:
        """Peak bytes of a step by the allocator and of the process, parameters, buffers and arguments included."""
        given = (leaf for leaf in tree_leaves((self._args, self._kwargs)) if isinstance(leaf, torch.Tensor))
        held = sum(tensor.nbytes for tensor in (*self.module.parameters(), *self.module.buffers(), *given))
        return held + self.step(allocated_peak), held + self.step(process_peak)

    def gradients(self, seed: int = _SEED) -> list[torch.Tensor]:
        """Gradients of all parameters after a step, zeros for those without."""
        self.step(seed=seed)
        return [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in self.module.parameters()]


def _seconds_with_children() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _processor_time(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def in_turn(ways: Sequence[Way]) -> list[float]:
    """Processor seconds of a step of each way: the least of several, in which the ways take turns."""
    rounds: list[list[float]] = []
    while len(rounds) < _ROUNDS or sum(map(sum, rounds)) < _MEASURED_S:
        rounds.append([way.step(_processor_time) for way in ways])
    return [min(times) for times in zip(*rounds, strict=True)]


def difference(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> float:
    """The largest difference of two numbers, over the largest of the others."""
    largest = max(float(each.abs().max()) for each in others)
    return max(float((one - other).abs().max()) for one, other in zip(some, others, strict=True)) / (largest or 1.0)


def default(module: nn.Module) -> Any:
    return torch.compile(module, dynamic=False)


def within(limit: int, backend: str = "inductor", *, split: bool = False) -> Callable[[nn.Module], Any]:
    return lambda module: placewright.fit(module, limit, backend=backend, split=split)


def limit_row(network: Network, share: float, backend: str, *, split: bool) -> dict[str, Any]:
    """The row of one network within one limit, compared with eager and with `torch.compile`."""
    eager, compiled = Way(network), Way(network, default)
    (base, process), (compiled_bytes, _) = eager.peaks(), compiled.peaks()
    held = 2 * sum(each.nbytes for each in eager.module.parameters())
    row = {"eager_bytes": base, "held_bytes": held, "compiled_bytes": compiled_bytes}
    limit = int(share * base)
    try:
        fitted = Way(network, within(limit, backend, split=split))
    except placewright.InputError as error:
        eager_s, compiled_s = in_turn((eager, compiled))
        seconds = {"eager_seconds": eager_s, "compiled_seconds": compiled_s}
        return row | seconds | {"verdict": REFUSED, "detail": str(error).splitlines()[0]}
    taken, whole = fitted.peaks()
    eager_s, compiled_s, fitted_s = in_turn((eager, compiled, fitted))
    # If eager draws random numbers, Inductor draws others, the same with and without a limit.
    draws = backend == "inductor" and difference(eager.gradients(_SEED + 1), eager.gradients()) > 0
    expected = (compiled if draws else eager).gradients()
    off = difference(fitted.gradients(), expected)
    fitted.module.zero_grad()
    graphs = fitted.call.graphs if backend == "inductor" else ()
    plans = [graph.plan for graph in graphs] or [fitted.call.plan]
    return row | {
        "verdict": KEPT if taken <= limit else OVER,
        "bytes": taken,
        "said_bytes": fitted.call.peak_bytes,
        "process_share": whole / process,
        "reruns": sum(len(plan.reruns) for plan in plans),
        "tried": sum(graph.num_tried for graph in graphs),
        "eager_seconds": eager_s,
        "compiled_seconds": compiled_s,
        "seconds": fitted_s,
        "compile_seconds": fitted.first_seconds,
        "compiled_compile_seconds": compiled.first_seconds,
        "draws": draws,
        "off": off,
    }


def lowest_row(network: Network) -> dict[str, Any]:
    """The lowest limit of LOWER that a network keeps, by bisection, and its peak within each of PyTorch's budgets."""
    base, _ = Way(network).peaks()

    def share(compiled: Callable[[nn.Module], Any]) -> float:
        torch._dynamo.reset()
        taken: int = Way(network, compiled).peaks()[0]
        return taken / base

    budgets = {}
    for budget in BUDGETS:
        with torch._functorch.config.patch(activation_memory_budget=budget):
            budgets[str(budget)] = share(default)
    limits: dict[str, float | str] = {}
    kept, refused = -1, len(LOWER)
    while refused - kept > 1:
        place = (kept + refused) // 2
        try:
            found = share(within(int(LOWER[place] * base)))
            limits[str(LOWER[place])] = found
        except placewright.InputError as error:
            found = 1.0
            limits[str(LOWER[place])] = str(error).splitlines()[0]
        kept, refused = (place, refused) if found <= LOWER[place] else (kept, place)
    verdict = KEPT if kept >= 0 else REFUSED
    return {"verdict": verdict, "eager_bytes": base, "limits": limits, "budgets": budgets}


@contextmanager
def all_counts() -> Iterator[None]:
    """A context without caches, with compilers as children of this process, so that their time counts."""
    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._inductor.config.patch(fx_graph_cache=False, compile_threads=1),
    ):
        yield


def made(name: str, way: str) -> dict[str, Any]:
    """A row of a network. way: "lowest", or a limit, after it PARTS or OWN_PARTS if ops may run in parts."""
    with all_counts():
        network = network_of(name)
        if way == "lowest":
            return lowest_row(network)
        share, _, parts = way.partition(" ")
        return limit_row(network, float(share), "eager" if parts == OWN_PARTS else "inductor", split=bool(parts))


def send_row(rows: Any, name: str, way: str) -> None:
    """Make a row and send it; runs in a process of its own."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    try:
        row = made(name, way)
    except Exception as error:
        row = {"verdict": FAILED, "detail": f"{type(error).__name__}: {str(error).strip()[:600]}"}
    rows.send({"network": name, "way": way, **row})


def row_of(name: str, way: str, seconds: int) -> dict[str, Any]:
    """The row that a process of its own makes, or one that says how the process ended."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=send_row, args=(theirs, name, way))
    process.start()
    theirs.close()
    row: Any = received(ours, process, time.monotonic() + seconds)
    process.join()
    detail = f"the process ended with {process.exitcode}; it had {seconds} s"
    return row or {"network": name, "way": way, "verdict": FAILED, "detail": detail}


def limits_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table line for each network and limit, below it those that were refused or failed, and the totals."""
    lines = [
        "| network | limit | eager, MiB | compiled | said | measured | process | over | runs again | tried "
        "| time over compiled | over eager | to compile, s | as planned, s | off |",
        "|---|" + "---:|" * 14,
    ]
    ran = [row for row in rows if row["verdict"] in (KEPT, OVER)]
    for row in ran:
        base = row["eager_bytes"]
        shares = (row[key] / base for key in ("compiled_bytes", "said_bytes", "bytes"))
        cells = [
            row["network"],
            row["way"],
            f"{base / MIB:.1f}",
            *(f"{share:.3f}" for share in (*shares, row["process_share"])),
            "over" if row["verdict"] == OVER else "",
            str(row["reruns"]),
            str(row["tried"]),
            f"{row['seconds'] / row['compiled_seconds']:.2f}",
            f"{row['seconds'] / row['eager_seconds']:.2f}",
            *(f"{row[key]:.0f}" for key in ("compiled_compile_seconds", "compile_seconds")),
            f"{row['off']:.1e}{' (compiled)' if row['draws'] else ''}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for row in rows:
        if row["verdict"] in (REFUSED, FAILED):
            known = f", {row['compiled_bytes'] / row['eager_bytes']:.3f} compiled" if "compiled_bytes" in row else ""
            said = " ".join(row["detail"].split())
            lines.append(f"- {row['network']} {row['way']} {row['verdict']}{known}: {said}")
    count = Counter(row["verdict"] for row in rows)
    lines += ["", f"{len(rows)} rows: {', '.join(f'{number} {verdict}' for verdict, number in count.items())}."]
    if ran:
        mean = statistics.mean(row["seconds"] / row["compiled_seconds"] for row in ran)
        lines[-1] += f" Mean time over compiled: {mean:.3f}."
    return "\n".join(lines)


def lowest_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The lowest peaks by limits and by budgets."""
    lines = ["| network | lowest limit kept | measured | lowest by budgets | budget |", "|---|" + "---:|" * 4]
    pairs = []
    for row in rows:
        if row["verdict"] == FAILED:
            lines.append(f"| {row['network']} | {row['detail']} | | | |")
            continue
        kept = {share: found for share, found in row["limits"].items() if not isinstance(found, str)}
        kept = {share: found for share, found in kept.items() if found <= float(share)}
        limit = min(kept, key=float, default="")
        budget, least = min(row["budgets"].items(), key=lambda each: each[1])
        own = f"{kept[limit]:.3f}" if limit else ""
        lines.append(f"| {row['network']} | {limit} | {own} | {least:.3f} | {budget} |")
        if limit:
            pairs.append((kept[limit], least))
    if pairs:
        own_mean, least_mean = (statistics.mean(each) for each in zip(*pairs, strict=True))
        lower = sum(own < least for own, least in pairs)
        said = f"Means of the {len(pairs)} with a limit: {own_mean:.3f} and {least_mean:.3f}; {lower} are lower."
        lines += ["", said]
    return "\n".join(lines)


def tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """The tables of all rows."""
    lowest = [row for row in rows if row["way"] == "lowest"]
    limits = [row for row in rows if row["way"] != "lowest"]
    parts = ([limits_table(limits)] if limits else []) + ([lowest_table(lowest)] if lowest else [])
    return "\n\n".join(parts)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = list(tomllib.loads(LIST.read_text()))
    options.add_argument("networks", nargs="*", default=listed, metavar="NETWORK")
    options.add_argument("--limits", nargs="*", type=float, default=[0.5], help="shares of eager's peak")
    options.add_argument("--lowest", action="store_true", help="the lowest limit kept, beside PyTorch's budgets")
    options.add_argument("--split", action="store_true", help="with ops in parts where that takes least time")
    options.add_argument("--seconds", type=int, default=900, help="after which a process is ended")
    options.add_argument("--table", action="store_true", help="print the tables of what there is, and run nothing")
    options.add_argument("--out", type=Path, default=Path("out") / "fit-inductor.jsonl", help="the file of rows")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if arguments.table:
        print(tables(read_rows(arguments.out)))
        return
    if LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            # Files of Inductor that an ended process leaves are removed with the folder.
            environment = counting_environment(Path(folder)) | {"TMPDIR": folder}
            subprocess.run([sys.executable, __file__, *sys.argv[1:]], check=True, env=environment)
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    import_libraries([library_entry(name, {}) for name in arguments.networks if name.partition("/")[0] in LIBRARIES])
    # What PyTorch imports and finds out at its first compilation must not count for any network.
    with all_counts():
        Way(network_of("two_layers"), default)
    suffixes = [f" {PARTS}", f" {OWN_PARTS}"] if arguments.split else [""]
    limits = [f"{limit}{suffix}" for limit in arguments.limits for suffix in suffixes]
    ways = ["lowest"] if arguments.lowest else limits
    for name in arguments.networks:
        there = {row["way"] for row in read_rows(arguments.out) if row["network"] == name}
        for way in ways:
            if way not in there:
                row = row_of(name, way, arguments.seconds)
                add_row(arguments.out, row)
                print(f"{name} {way}: {row['verdict']} {row.get('detail', '')[:150]}", file=sys.stderr, flush=True)
    print(tables(read_rows(arguments.out)))


if __name__ == "__main__":
    main()
