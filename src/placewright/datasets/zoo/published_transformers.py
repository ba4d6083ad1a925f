"""Transformers as the transformers package has them, made from their configurations; no weights are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from torch import Tensor, nn

from placewright.datasets.zoo.network import Network
from placewright.datasets.zoo.sequences import tokens

#: Attention spelled out in products and a softmax, as the networks of the papers' time had it.
SPELLED_OUT = "eager"


class Pretraining(nn.Module):
    """A language model that returns its scores, and in training the loss of giving back its own tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, target: Tensor | None = None) -> Tensor:  # [batch, length] each
        """target: what an encoder-decoder writes; others have none."""
        written = {} if target is None else {"decoder_input_ids": target}
        labels = tokens if target is None else target
        if self.training:
            return self.model(input_ids=tokens, labels=labels, use_cache=False, **written).loss  # []
        return self.model(input_ids=tokens, use_cache=False, **written).logits  # [batch, length, vocabulary]


class WithoutCache(nn.Module):
    """Drops the argument that encoders do not know."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, use_cache: bool = False, **inputs: Tensor) -> Any:
        return self.model(**inputs)


def published(name: str, make: Callable[[], nn.Module], *shapes: tuple[int, int], caches: bool = True) -> Network:
    """An entry of the zoo called with tokens of these shapes. caches: whether the model takes `use_cache`."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        model = make()
        return Pretraining(model if caches else WithoutCache(model)), tuple(tokens(*shape) for shape in shapes)

    return Network(name=name, family="published", build=build)


def bert(width: int, layers: int) -> nn.Module:
    """Devlin et al., BERT, 2019; the small ones: Turc et al., Well-Read Students Learn Better, 2019."""
    config = transformers.BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        attn_implementation=SPELLED_OUT,
    )
    return transformers.BertForMaskedLM(config)


def gpt2(width: int, layers: int) -> nn.Module:
    """Radford et al., Language Models are Unsupervised Multitask Learners, 2019."""
    sizes = {"n_embd": width, "n_layer": layers, "n_head": width // 64}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, attn_implementation=SPELLED_OUT))


def t5(width: int, layers: int, heads: int) -> nn.Module:
    """Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020."""
    sizes = {"d_model": width, "d_ff": 4 * width, "num_layers": layers, "num_heads": heads}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))


def albert() -> nn.Module:
    """Lan et al., ALBERT, 2020: one layer's weights for all twelve."""
    sizes = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    return transformers.AlbertForMaskedLM(transformers.AlbertConfig(**sizes, attn_implementation=SPELLED_OUT))


def distilbert() -> nn.Module:
    """Sanh et al., DistilBERT, 2019."""
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(attn_implementation=SPELLED_OUT))


def roberta() -> nn.Module:
    """Liu et al., RoBERTa, 2019, with six layers."""
    config = transformers.RobertaConfig(num_hidden_layers=6, attn_implementation=SPELLED_OUT)
    return transformers.RobertaForMaskedLM(config)


def electra() -> nn.Module:
    """Clark et al., ELECTRA, 2020: the small generator."""
    return transformers.ElectraForMaskedLM(transformers.ElectraConfig(attn_implementation=SPELLED_OUT))


def mobilebert() -> nn.Module:
    """Sun et al., MobileBERT, 2020."""
    return transformers.MobileBertForMaskedLM(transformers.MobileBertConfig(num_hidden_layers=12))


def deberta() -> nn.Module:
    """He et al., DeBERTa, 2021: content and position attended apart."""
    config = transformers.DebertaV2Config(
        hidden_size=768,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        vocab_size=30522,
    )
    return transformers.DebertaV2ForMaskedLM(config)


def squeezebert() -> nn.Module:
    """Iandola et al., SqueezeBERT, 2020: grouped convolutions for the position-wise layers."""
    return transformers.SqueezeBertForMaskedLM(transformers.SqueezeBertConfig())


def bart() -> nn.Module:
    """Lewis et al., BART, 2020, the base size."""
    sizes = {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
    heads = {"encoder_attention_heads": 12, "decoder_attention_heads": 12}
    config = transformers.BartConfig(**sizes, **heads, attn_implementation=SPELLED_OUT)
    return transformers.BartForConditionalGeneration(config)


def opt() -> nn.Module:
    """Zhang et al., OPT, 2022, the smallest."""
    return transformers.OPTForCausalLM(transformers.OPTConfig(attn_implementation=SPELLED_OUT))


def bloom() -> nn.Module:
    """BigScience, BLOOM, 2022: positions as slopes of the scores; a small one."""
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(hidden_size=512, n_layer=6, n_head=8, vocab_size=32000)
    )


def gemma() -> nn.Module:
    """Gemma Team, Gemma 2, 2024: norms on both sides of every part, alternating windows; a small one."""
    config = transformers.Gemma2Config(
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=2048,
        head_dim=64,
        vocab_size=32000,
        attn_implementation=SPELLED_OUT,
    )
    return transformers.Gemma2ForCausalLM(config)


def qwen() -> nn.Module:
    """Yang et al., Qwen3, 2025: queries and keys normalised; a small one."""
    config = transformers.Qwen3Config(
        hidden_size=512,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=1536,
        head_dim=64,
        vocab_size=32000,
        attn_implementation=SPELLED_OUT,
    )
    return transformers.Qwen3ForCausalLM(config)


NETWORKS = (
    published("bert_tiny", lambda: bert(128, 2), (32, 128), caches=False),
    published("bert_small", lambda: bert(512, 4), (32, 128), caches=False),
    published("bert_medium", lambda: bert(512, 8), (32, 128), caches=False),
    published("bert_base", lambda: bert(768, 12), (32, 128), caches=False),
    published("bert_large", lambda: bert(1024, 24), (8, 128), caches=False),
    published("albert_base", albert, (32, 128), caches=False),
    published("distilbert", distilbert, (32, 128), caches=False),
    published("roberta6", roberta, (16, 256), caches=False),
    published("electra_small", electra, (32, 128), caches=False),
    published("mobilebert12", mobilebert, (32, 128), caches=False),
    published("deberta6", deberta, (16, 128), caches=False),
    published("squeezebert", squeezebert, (32, 128), caches=False),
    published("gpt2_small", lambda: gpt2(768, 12), (4, 512)),
    published("gpt2_medium", lambda: gpt2(1024, 24), (2, 512)),
    published("t5_small", lambda: t5(512, 6, 8), (16, 128), (16, 128)),
    published("t5_base", lambda: t5(768, 12, 12), (8, 128), (8, 128)),
    published("bart_base", bart, (8, 128), (8, 128)),
    published("opt_125m", opt, (4, 512)),
    published("bloom6", bloom, (8, 256)),
    published("gemma6", gemma, (8, 256)),
    published("qwen8", qwen, (8, 256)),
)
