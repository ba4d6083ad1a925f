"""Modules without memory, on the meta device, give the graphs of modules with weights and stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from torch import nn  # noqa: E402

from placewright.graph import Graph  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.lab.datasets.zoo.libraries import import_torchvision  # noqa: E402

TOKENS = torch.zeros(2, 8, dtype=torch.int64)


class Classifier(nn.Module):
    """A table, a layer and a cross-entropy, whose backward PyTorch does not know on the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.output = nn.Embedding(10, 16), nn.Linear(16, 10)

    def forward(self, tokens: Any) -> Any:
        return nn.functional.cross_entropy(self.output(self.table(tokens)).view(-1, 10), tokens.view(-1))


class Tied(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.output.weight = self.table.weight


class Frozen(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.table.weight.requires_grad_(False)


class Normalized(Classifier):
    """A classifier with dropout, a batch norm, its buffers, and a tensor that is a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout()
        self.scale = torch.ones(16)
        self.device = self.scale.device

    def forward(self, tokens: Any) -> Any:
        hidden = self.dropout(self.norm(self.table(tokens))) * self.scale + torch.arange(16, device=self.device)
        return nn.functional.cross_entropy(self.output(hidden).view(-1, 10), tokens.view(-1))


def step_of(model: Any, tokens: Any = TOKENS, **options: Any) -> Graph:
    return from_torch(model, (tokens,), training=True, name="step", **options)


def on_meta(make: Callable[[], Any]) -> Any:
    with torch.device("meta"):
        return make()


def tensors_by_name(model: Any) -> dict[str, int]:
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: id(tensor) for name, tensor in named}


@pytest.mark.parametrize("make", [Classifier, Tied, Frozen, Normalized])
@pytest.mark.parametrize("tokens", [TOKENS, TOKENS.to("meta")], ids=["real tokens", "meta tokens"])
def test_a_model_on_the_meta_device_gives_the_graph_of_a_real_one(make: Any, tokens: Any) -> None:
    model = on_meta(make)
    before, attributes = tensors_by_name(model), set(vars(model))
    assert step_of(model, tokens).fingerprint == step_of(make()).fingerprint
    assert tensors_by_name(model) == before
    assert set(vars(model)) == attributes
    assert all(parameter.is_meta and parameter.grad is None for parameter in model.parameters())


def test_real_models_take_arguments_on_the_meta_device() -> None:
    assert step_of(Classifier(), TOKENS.to("meta")).fingerprint == step_of(Classifier()).fingerprint


def test_a_model_partly_on_the_meta_device_gives_the_same_graph() -> None:
    model = on_meta(Normalized)
    model.table, model.norm.running_mean = nn.Embedding(10, 16), torch.zeros(8)
    assert step_of(model).fingerprint == step_of(Normalized()).fingerprint


def test_capturing_where_meta_is_the_default_device_gives_the_same_graph() -> None:
    with torch.device("meta"):
        graph = step_of(Normalized(), torch.zeros(2, 8, dtype=torch.int64))
    assert graph.fingerprint == step_of(Normalized()).fingerprint


def test_a_program_exported_on_the_meta_device_trains_all_its_parameters() -> None:
    program = torch.export.export(on_meta(Tied).train(), (TOKENS.to("meta"),))
    trained = [op.name for op in step_of(program, TOKENS.to("meta")).ops if op.kind == "optimizer"]
    assert trained == ["adam:table.weight", "adam:output.bias"]


def transformer(name: str) -> Any:
    """One layer of a kind, 32 wide, from its configuration."""
    import_torchvision()
    transformers = pytest.importorskip("transformers", reason="the models are from transformers")
    size = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2}
    layer = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    if name == "GPT-2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=32, n_head=4, **size))
    if name == "Llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **layer, **size))
    return transformers.BertForMaskedLM(transformers.BertConfig(**layer, vocab_size=50))


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT"])
def test_a_transformer_on_the_meta_device_gives_the_training_step_of_a_real_one(name: str) -> None:
    example = {"input_ids": TOKENS, "labels": TOKENS}
    model = on_meta(lambda: transformer(name))
    step = from_torch(model, (), example, training=True, name="step")
    assert step.fingerprint == from_torch(transformer(name), (), example, training=True, name="step").fingerprint
    assert sum(op.kind == "optimizer" for op in step.ops) == len(list(model.parameters()))
