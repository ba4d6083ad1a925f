"""Trains two towers on two processes, each of which has one of them: `torchrun --nproc-per-node 2 examples/ranks.py`.

On two hosts, on each of them, with the address of the first:

    torchrun --nnodes 2 --nproc-per-node 1 --node-rank 0 --master-addr HOST examples/ranks.py
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn

import placewright


class Towers(nn.Module):
    """Two images, each through convolutions of its own, and what they say together."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Sequential(
                *(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU()),
                *(nn.Conv2d(32, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.LazyLinear(64)),
            )
            for _ in range(2)
        )
        self.head = nn.Linear(64, 1)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.left(left) * self.right(right))
        return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    model = Towers()
    images = (torch.randn(8, 3, 32, 32), torch.randn(8, 3, 32, 32))
    model(*images)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    # Every rank does all of this; what rank 0 passes is what counts.
    step = placewright.compile(
        model, images, devices="ranks", training=True, loss=lambda y: (y - 1).square().mean(), optimizer=optimizer
    )
    for number in range(steps):
        loss = step(*images)
        if dist.get_rank() == 0 and number % 5 == 0:
            print(f"step {number}: loss {loss:.4f}")
    if dist.get_rank() == 0:
        print(step.plan)

    # Parameters are up to date where the plan has them; now on every rank.
    step.synchronize()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "towers.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
