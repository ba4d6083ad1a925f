"""Runs the stages of an exported split, one process each, and compares with the module in one piece.

    torchrun --nproc-per-node 2 examples/pipeline_stages.py split.json

Each process computes on the CPU; the processes talk over gloo. split.json is what `placewright export plan.json
--to pipelining` wrote for a plan of `build()`.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline


class Block(nn.Module):
    """A residual block, as transformers have them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.layers(self.norm(x))
        return result


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Six blocks and a head, and a batch of 16 rows; the same in every process."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(64) for _ in range(6)), nn.Linear(64, 10)).eval()
    return model, (torch.randn(16, 64),)


def main(split_file: str, num_micro_batches: int = 4) -> None:
    """Runs this process's stage; the last one compares its result with the whole module's."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model, (x,) = build()
    wanted = model(x)
    split = json.loads(Path(split_file).read_text())
    pipe = pipeline(
        model,
        mb_args=(x.chunk(num_micro_batches)[0],),
        split_spec=dict.fromkeys(split["split_before"], SplitPoint.BEGINNING),
    )
    stage = pipe.build_stage(rank, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, num_micro_batches)
    result = schedule.step(x) if rank == 0 else schedule.step()
    if rank == pipe.num_stages - 1:
        torch.testing.assert_close(result, wanted)
        print(f"{pipe.num_stages} stages, {num_micro_batches} micro-batches: the same numbers")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
