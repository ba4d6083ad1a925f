"""Networks of transformers, made from the defaults of their configurations, with fewer layers.

`library_listing.py` imports this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from placewright.lab.datasets.zoo.libraries import check_library, import_torchvision

if TYPE_CHECKING:
    from torch import Tensor, nn

#: What a model of some type is made for, the first that the library has: mappings of `modeling_auto`.
_TASKS = (
    "MODEL_FOR_CAUSAL_LM",
    "MODEL_FOR_MASKED_LM",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM",
    "MODEL_FOR_IMAGE_CLASSIFICATION",
    "MODEL_FOR_SEMANTIC_SEGMENTATION",
    "MODEL_FOR_DEPTH_ESTIMATION",
    "MODEL_FOR_VIDEO_CLASSIFICATION",
    "MODEL_FOR_CTC",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ",
    "MODEL_FOR_AUDIO_CLASSIFICATION",
    "MODEL",
)
#: The captured depth, then others: another depth is another topology of the same family.
_DEPTHS = (4, 2, 8)
_DEPTH_NAMES = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
    "num_encoder_layers",
)
#: Of mixtures, and the fewest that all configurations allow.
_EXPERT_NAMES, _EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts"), 8
_SEQUENCES, _TOKENS, _IMAGES, _SAMPLES, _FRAMES = 4, 128, 8, 16_000, 3_000


def names() -> Iterator[tuple[str, str]]:
    """Types of models at each depth, with the type as the family."""
    kinds = list(_classes())
    for depth in _DEPTHS:
        yield from ((f"{kind}-{depth}", kind) for kind in kinds)


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Under fake tensors nothing of it takes memory."""
    import transformers
    from library_outputs import Whole

    kind, _, depth = name.rpartition("-")
    make = getattr(transformers, _classes()[kind])
    config = make.config_class(**{"attn_implementation": "eager", **_sizes(make.config_class(), int(depth))})
    config.use_cache = False
    inputs = _inputs(make.main_input_name, config, name)
    return Whole(make(config), tuple(inputs), first=True), tuple(inputs.values())


def _classes() -> Mapping[str, str]:
    """By type of model the class that is captured."""
    check_library("transformers")
    import_torchvision()
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for task in _TASKS:
        for kind, made in getattr(modeling_auto, f"{task}_MAPPING_NAMES").items():
            found.setdefault(kind, made if isinstance(made, str) else made[0])
    return found


def _sizes(config: Any, depth: int) -> dict[str, int]:
    """Arguments that make it that deep, and its mixtures small."""
    values = config.to_dict()
    depths = {name: depth for name in _DEPTH_NAMES if isinstance(values.get(name), int)}
    chosen = max((values.get(name) or 0 for name in ("num_experts_per_tok", "moe_topk")), default=0)
    experts = {
        name: _EXPERTS
        for name in _EXPERT_NAMES
        if isinstance(values.get(name), int) and values[name] > _EXPERTS and chosen <= _EXPERTS
    }
    return {**depths, **experts}


def _inputs(main: str, config: Any, name: str) -> dict[str, Tensor]:
    import torch

    def of(attribute: str, default: int) -> int:
        value = getattr(config, attribute, None)
        return default if value is None else value[0] if isinstance(value, list | tuple) else int(value)

    tokens = torch.zeros(_SEQUENCES, _TOKENS, dtype=torch.int64)
    image = torch.zeros(_IMAGES, of("num_channels", 3), of("image_size", 224), of("image_size", 224))
    found = {
        "input_ids": tokens,
        "pixel_values": image,
        "pixel_values_videos": image[:1, None].expand(2, of("num_frames", 8), -1, -1, -1).contiguous(),
        "input_values": torch.zeros(_SEQUENCES, _SAMPLES),
        "input_features": torch.zeros(_SEQUENCES, of("num_mel_bins", 80), _FRAMES),
    }
    if main not in found:
        raise ValueError(f"{name} takes '{main}', of which nothing is known")
    inputs = {main: found[main]}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    return inputs
