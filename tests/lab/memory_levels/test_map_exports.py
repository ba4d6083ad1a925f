"""Memory maps for other tools: tables, and device maps, which accelerate's own `dispatch_model` takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placewright import cli
from placewright.lab.datasets.zoo.libraries import import_torchvision
from placewright.lab.memory_levels import map_memory
from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.export import level_device_map
from placewright.lab.memory_levels.record import MemoryMap
from placewright.support.errors import InputError

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from decoder_graphs import Decoder, decoder_step

TINY = Decoder(layers=2, hidden=32, heads=4, key_heads=2, inner=64, vocabulary=96, source="a test")


def chip(first: str, second: str, capacity: int) -> Chip:
    """A level of 100 GB/s and one of 1 GB/s."""
    levels = (
        MemoryLevel(name=first, capacity_bytes=capacity, bandwidth_bytes_per_s=1e11),
        MemoryLevel(name=second, capacity_bytes=1 << 40, bandwidth_bytes_per_s=1e9),
    )
    return Chip(name="small", levels=levels, mac_rate=1e12, vector_rate=1e12)


def mapped(levels_of: dict[str, int]) -> MemoryMap:
    """A map of a decoder of two layers whose weights with such a beginning are in such a level, others in the first."""
    found = map_memory(decoder_step("tiny", TINY, batch=1, context=8), chip("HBM", "host", 1 << 30))

    def level(name: str) -> int:
        return next((level for begin, level in levels_of.items() if name.startswith(begin)), 0)

    return replace(found, tensors=tuple(replace(tensor, level=level(tensor.name)) for tensor in found.tensors))


def test_modules_whose_weights_share_a_level_are_one_entry() -> None:
    assert level_device_map(mapped({})) == {"lm_head": 0, "model": 0}
    assert level_device_map(mapped({"model.layers.1": 1})) == {
        "lm_head": 0,
        "model.embed_tokens": 0,
        "model.layers.0": 0,
        "model.layers.1": "cpu",
        "model.norm": 0,
    }


def test_a_divided_module_is_an_entry_per_part_and_the_cache_is_none() -> None:
    found = level_device_map(mapped({"model.layers.0.mlp.up_proj": 1, "model.layers.1.self_attn.attention.cache": 1}))
    assert found["model.layers.0.mlp.up_proj"] == "cpu"
    assert found["model.layers.0.mlp.gate_proj"] == 0
    assert found["model.layers.0.self_attn"] == 0
    assert found["model.layers.1"] == 0


def test_a_chip_whose_levels_accelerate_does_not_know_is_refused() -> None:
    found = map_memory("example:resnet50-int8", "nnpi", solver="h6")
    with pytest.raises(InputError, match="accelerate has no place for the level LLC of chip 'nnpi'"):
        found.device_map()


def test_the_command_writes_a_device_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "map.json"
    found = map_memory(decoder_step("tiny", TINY, batch=1, context=8), load_chip("h100+host"), solver="h0")
    found.save(path)
    assert cli.run(["export", str(path), "--to", "device-map"]) == 0
    assert json.loads((tmp_path / "map.device-map.json").read_text()) == found.device_map()
    capsys.readouterr()
    assert cli.run(["export", str(path), "--to", "perfetto"]) == 2
    assert "is a memory map, which is exported to csv or device-map, not to perfetto" in capsys.readouterr().err


def test_a_map_of_a_captured_llama_runs_with_what_does_not_fit_on_disk(tmp_path: Path) -> None:
    torch, accelerate = pytest.importorskip("torch"), pytest.importorskip("accelerate")
    import_torchvision()
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        expected = model(tokens).logits
    # Weights take 4 * (2 * 96 * 32 + 2 * (32 * 32 * 3 + 3 * 32 * 64 + 64) + 32) = 98,944 B, of which half fits.
    found = map_memory(model, chip("cpu", "disk", 50_000), args=(tokens,), evaluations=2000)
    places = found.device_map()
    assert set(places.values()) == {"cpu", "disk"}
    assert 98_944 - 50_000 <= on_disk(places, model) < 70_000
    dispatched = accelerate.dispatch_model(model, places, main_device="cpu", offload_dir=str(tmp_path))
    assert {
        weight.device.type for name, weight in dispatched.named_parameters() if place_of(places, name) == "disk"
    } == {"meta"}
    with torch.no_grad():
        torch.testing.assert_close(dispatched(tokens).logits, expected, rtol=0, atol=0)


def place_of(places: dict[str, Any], weight: str) -> Any:
    parts: Sequence[str] = weight.split(".")
    return next(places[path] for end in range(len(parts), 0, -1) if (path := ".".join(parts[:end])) in places)


def on_disk(places: dict[str, Any], model: Any) -> int:
    return sum(w.numel() * w.element_size() for name, w in model.named_parameters() if place_of(places, name) == "disk")
