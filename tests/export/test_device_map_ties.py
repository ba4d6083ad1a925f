"""Device maps of modules that share parameters and layers, and that hold what no op reads: complete, and as accelerate
takes them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate.utils.modeling import check_device_map, find_tied_parameters
from dispatching import dispatched
from shared_modules import WIDTH, Block, Holder, Odd, Reader
from torch import nn

import placewright
from placewright.export import told_of_export
from placewright.export.device_map import Place, device_map
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.support.errors import InputError


def place_of(mapping: Mapping[str, Place], name: str) -> Place | None:
    """Return the place of the longest prefix of whole path components, as accelerate's readers do."""
    fitting = [key for key in mapping if key == "" or name == key or name.startswith(f"{key}.")]
    return mapping[max(fitting, key=len)] if fitting else None


def mapped(model: nn.Module, pins: Mapping[str, int], **limits: Any) -> tuple[dict[str, Place], Plan, Graph]:
    graph = placewright.from_torch(model, (torch.randn(2, WIDTH),))
    plan = placewright.plan(graph, "3xp100", pins=dict(pins), evaluations=1, **limits)
    return device_map(plan, graph), plan, graph


class Tied(nn.Module):
    """Three layers, the first and last of which share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.middle(self.first(x)))
        return result


def test_layers_that_share_a_weight_share_a_device_and_that_is_told() -> None:
    mapping, plan, graph = mapped(Tied(), {"first": 0, "middle": 0, "last": 1})
    assert mapping == {"": 0}
    told, _ = told_of_export(plan, "device-map", graph)
    assert "first, last are all on gpu0 (p100), since they share a parameter or a layer" in told


def test_a_layer_under_two_names_has_one_device() -> None:
    """The second name of a block, which is called by both."""

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle = Block(nn.Tanh()), nn.Linear(WIDTH, WIDTH)
            self.again, self.last = self.first, nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> Any:
            return self.last(self.again(self.middle(self.first(x))))

    mapping, _, _ = mapped(Again(), {"first.*": 0, "middle": 1, "last": 1})
    assert mapping["first"] == mapping["again"]


def test_an_activation_that_blocks_share_holds_no_block_on_a_device() -> None:
    """It has no parameters, so accelerate gives it no hook in a block that stays whole."""
    activation = nn.Tanh()
    model = nn.Sequential(Block(activation), Block(activation))
    mapping, _, _ = mapped(model, {"0.*": 0, "1.*": 1})
    assert mapping == {"0": 0, "1": 1}
    # In a network whose layers are entries it is one, and has a hook: then the block that calls it is where that is.
    flat = nn.Sequential(nn.Linear(WIDTH, WIDTH), activation, Block(activation), nn.Linear(WIDTH, WIDTH))
    mapping, _, _ = mapped(flat, {"0": 0, "1": 0, "2.*": 1, "3": 1})
    assert (mapping["0"], mapping["3"]) == (0, 1)
    assert mapping["1"] == mapping["2"]


def test_a_module_that_reads_what_another_holds_goes_where_that_is() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    mapping, _, _ = mapped(nn.Sequential(layer, nn.Linear(WIDTH, WIDTH), Reader(layer)), {"0": 0, "1": 1, "2*": 2})
    assert mapping["0"] == mapping["2"]


def test_what_no_op_reads_is_in_the_map_and_takes_memory_where_most_is_left() -> None:
    """Each device holds 1 MiB. With its buffer of 400,000 bytes the first layer leaves less than the second device has;
    32 x 32 and 2 x 8 numbers of 4 bytes go there. What the network itself holds is where accelerate moves the inputs
    to, and what a layer holds where the layer is."""

    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Holder(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, WIDTH)
            self.first.register_buffer("scale", torch.ones(100_000))
            self.pool = nn.Sequential(nn.Linear(32, 32, bias=False), nn.LayerNorm(8))
            self.unused = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.second(self.first(x))

    mapping, plan, graph = mapped(Idle(), {"first*": 0, "second": 1}, memory_limit="1MiB")
    assert mapping == {"first": 0, "second": 1, "pool": 1, "unused": 0}
    told, objections = told_of_export(plan, "device-map", graph)
    assert "what no op reads takes 4.06 KiB more on gpu1 (p100)" in told
    assert objections == ["this map is no better than gpu0 (p100) alone"]
    peaks = plan.metrics.peak_bytes
    limits = (peaks[0] + 4100, peaks[1] + 4150, 0)
    recorded = {device.name: limit for device, limit in zip(plan.machine.devices, limits, strict=True)}
    configuration = {**plan.configuration, "memory_limit": recorded}
    limited = replace(plan, memory_limits_bytes=limits, configuration=configuration)
    too_much = "this map does not fit, unlike the plan: 10 B over the limits"
    assert told_of_export(limited, "device-map", graph)[1][0] == too_much


def test_a_parameter_of_a_divided_module_is_an_entry_by_its_name() -> None:
    """No op of the module itself reads it, so accelerate needs no more than a device for it."""

    class Divided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.b(self.a(x))

    mapping, _, _ = mapped(nn.Sequential(Divided()), {"0.a": 0, "0.b": 1})
    assert mapping == {"0.a": 0, "0.b": 1, "0.unused": 0}


@pytest.mark.parametrize(
    ("record", "key"),
    [
        (7, "module"),
        ({"other_names": ["a"]}, "other_names"),
        ({"other_paths": {"a": 1}}, "other_paths"),
        ({"unread": {"a": -1}}, "unread"),
        ({"unread": {"a": True}}, "unread"),
        ({"lists": "a"}, "lists"),
    ],
)
def test_a_record_that_is_none_is_refused(record: Any, key: str) -> None:
    _, plan, graph = mapped(Tied(), {})
    changed = replace(graph, metadata={"module": record})
    with pytest.raises(InputError, match=f"^graph 'Tied': '{key}' in its metadata is not what docs/formats.md says"):
        device_map(plan, changed)


@pytest.mark.filterwarnings("ignore:The following device_map keys do not match any submodules")
@pytest.mark.parametrize("seed", range(25))
def test_accelerate_takes_the_maps_of_modules_that_share_and_runs_them(seed: int) -> None:
    """Every name has a device, names of one tensor the same one, and no entry is above another; the numbers are those
    of the module. Every layer is pinned at random."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model, x = Odd(rng).eval(), torch.randn(2, WIDTH)
    graph = placewright.from_torch(model, (x,))
    pins = {module: rng.randrange(3) for module in sorted({op.module for op in graph.ops if op.module})}
    mapping = device_map(placewright.plan(graph, "3xp100", pins=pins, evaluations=1), graph)

    names: defaultdict[int, set[str]] = defaultdict(set)
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        names[id(tensor)].add(name)
    for same in names.values():
        places = {place_of(mapping, name) for name in same}
        assert len(places) == 1, same
        assert places != {None}, same
    assert not any(below.startswith(f"{above}.") for above in mapping for below in mapping)
    assert "" not in mapping or len(mapping) == 1
    check_device_map(model, mapping)
    for tied in find_tied_parameters(model):
        assert len({place_of(mapping, name) for name in tied}) == 1
    if "" not in mapping:
        result, _ = dispatched(model, mapping, (x,))
        torch.testing.assert_close(result, model(x), rtol=0, atol=0)
