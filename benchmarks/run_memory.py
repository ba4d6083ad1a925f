"""Peak memory of real steps on one CPU device: as planned, in captured order, as PyTorch runs the module, by Inductor.

python benchmarks/run_memory.py prints a row per network. Bytes are counted by the allocator, parameters and inputs
included, so that a busy machine changes nothing. --inductor adds what torch.compile needs, at minutes a network.
"""

from __future__ import annotations

import argparse
from typing import Any

from zoo_modules import module_of

import placewright
from placewright.execution.comparison import RunComparison

INFERENCE = ("randwire_er", "randwire_ba", "nasnet_a_mobile", "inception_v3", "bert_tiny")
TRAINING = (
    "resnet18", "mobilenet_v2", "ghostnet", "squeezenet_1_1", "googlenet",
    "bert_tiny", "densenet121", "vae", "dcgan", "mmoe",
)  # fmt: skip
MIB = 2**20


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inference", nargs="*", default=INFERENCE, metavar="NETWORK")
    options.add_argument("--training", nargs="*", default=TRAINING, metavar="NETWORK")
    options.add_argument("--batch", type=int, default=2)
    options.add_argument(
        "--evaluations", type=int, default=None, help="of the search; by default as many as a second holds"
    )
    options.add_argument("--inductor", action="store_true")
    return options


def compare(name: str, training: bool, batch: int, evaluations: int | None, inductor: bool) -> RunComparison:
    """One network, planned for the least peak on one device and run."""
    model, args = module_of(name, batch)
    budget: dict[str, Any] = {} if evaluations is None else {"evaluations": evaluations}
    with placewright.compile(
        model, args, devices="cpu:0", training=training, objective="peak-memory", inductor=inductor, **budget
    ) as compiled:
        return compiled.compare(*args, steps=1).facts


def row(name: str, mode: str, found: RunComparison) -> str:
    assert found.planned_peak_bytes is not None
    assert found.measured_peak_bytes is not None
    planned, measured = found.planned_peak_bytes, found.measured_peak_bytes
    captured = found.one_device_measured_peak_bytes
    compiled = found.torch_compile_peak_bytes
    columns = (
        name,
        mode,
        f"{planned / MIB:.1f}",
        f"{measured / MIB:.1f}",
        f"{measured / planned - 1:+.1%}",
        f"{captured / MIB:.1f}",
        f"{measured / captured - 1:+.1%}",
        f"{found.eager_peak_bytes / MIB:.1f}",
        f"{measured / found.eager_peak_bytes - 1:+.1%}",
        "" if compiled is None else f"{compiled / MIB:.1f}",
        "" if compiled is None else f"{measured / compiled - 1:+.1%}",
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    arguments = parser().parse_args()
    print(
        "| network | step | planned MiB | measured | off by | captured order | ours | eager | ours | Inductor | ours |"
    )
    print("|---|---|" + "---:|" * 9)
    modes = [(name, False) for name in arguments.inference] + [(name, True) for name in arguments.training]
    for name, training in modes:
        found = compare(name, training, arguments.batch, arguments.evaluations, arguments.inductor)
        print(row(name, "training" if training else "inference", found), flush=True)


if __name__ == "__main__":
    main()
