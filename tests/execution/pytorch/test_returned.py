"""What a planned module returns is built as the module builds it, objects with tensors in them too."""

from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.support.errors import InputError

QUICK: dict[str, Any] = {"devices": "cpu:0", "evaluations": 1}


class Cache:
    """Keys of each layer, as the caches of language models keep them."""

    def __init__(self, settings: Any) -> None:
        self.layers: list[Any] = []
        self.settings = settings

    def add(self, keys: torch.Tensor) -> torch.Tensor:
        self.layers.append({"keys": keys, "length": len(keys)})
        return keys


class Settings:
    """What outlives a call."""

    scale = 2


class Caching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.settings = Settings()

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        cache = Cache(self.settings)
        y = cache.add(self.first(x))
        z = cache.add(self.second(y)) * self.settings.scale
        return {"last": z, "cache": cache, "again": [cache], "of": self, "what": "keys"}


def test_objects_are_made_anew_with_the_tensors_of_the_call() -> None:
    model = Caching().eval()
    with placewright.compile(model, torch.zeros(3, 4), **QUICK) as compiled, torch.no_grad():
        found = []
        for number in (1.0, 2.0):
            x = torch.full((3, 4), number)
            expected, result = model(x), compiled(x)
            assert torch.equal(result["last"], expected["last"])
            assert len(result["cache"].layers) == 2
            for layer, wanted in zip(result["cache"].layers, expected["cache"].layers, strict=True):
                assert torch.equal(layer["keys"], wanted["keys"])
                assert layer["length"] == 3
            assert result["again"] == [result["cache"]]
            assert result["cache"].settings is model.settings
            assert result["of"] is model
            assert result["what"] == "keys"
            found.append(result["cache"])
        assert found[0] is not found[1]
        assert not torch.equal(found[0].layers[0]["keys"], found[1].layers[0]["keys"])


def test_a_step_of_training_needs_only_what_its_loss_reads() -> None:
    model = Caching()
    with placewright.compile(
        model, torch.ones(3, 4), training=True, loss=lambda output: output["last"].mean(), **QUICK
    ) as compiled:
        assert torch.equal(compiled(torch.ones(3, 4)), model(torch.ones(3, 4))["last"].mean())


def test_an_object_that_cannot_be_made_anew_is_refused() -> None:
    class Local(Caching):
        def forward(self, x: torch.Tensor) -> Any:
            held = self.first(x)
            return {"later": lambda: held}

    with pytest.raises(InputError, match=r"keeps a tensor of shape \(3, 4\)"):
        placewright.compile(Local(), torch.ones(3, 4), **QUICK)


@pytest.mark.parametrize("write", ["view", "transposed", "itself", "data"])
def test_an_argument_that_is_written_to_and_returned_is_that_argument(write: str) -> None:
    class Writing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            part = {"view": x.view(12), "transposed": x.t(), "itself": x, "data": x.view(12).data}[write]
            part.add_(1.0)
            return x

    x = torch.randn(3, 4)
    wanted = x + 1
    with placewright.compile(Writing(), x.clone(), **QUICK) as compiled:
        assert compiled(x) is x
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("returned", ["part", "turned"])
def test_a_view_of_an_argument_that_a_copy_writes_to_is_refused(returned: str) -> None:
    """The transposed sum is copied to the argument at the end; a view of the sum would show other memory."""

    class Writing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            turned = x.t()
            turned.add_(1.0)
            return turned if returned == "turned" else x[1:]

    x = torch.randn(3, 4)
    with pytest.raises(InputError, match=r"writes to 'x' and returns or keeps a view of it"):
        placewright.compile(Writing(), x, **QUICK)
