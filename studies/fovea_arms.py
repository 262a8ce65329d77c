"""The encoders that are compared with Fovea: equal in everything but their attention."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foveate.ops.fovea_attention import COVERAGES, select_nodes

NEIGHBOURS = (1, 2, 4)
SUMMARIZED = 16  # tokens that LongT5 sums up in one


@dataclass(frozen=True)
class Arm:
    """An encoder to train: how it is built, and with how many keys.

    Attributes:
        attention: "fovea", "window", "transient-global" or "dense".
        k_neighbours: k of Fovea, or of the Fovea that has as many keys.
        coverage: of Fovea.
        size_bias: of Fovea.
    """

    attention: str
    k_neighbours: int = 1
    coverage: str = "full"
    size_bias: bool = False


ARMS = {
    f"Fovea k={k} {coverage}": Arm("fovea", k, coverage)
    for k in NEIGHBOURS
    for coverage in COVERAGES
} | {
    "Fovea k=1 full, sizes": Arm("fovea", 1, size_bias=True),
    "Fovea k=1 paper, sizes": Arm("fovea", 1, "paper", size_bias=True),
    "Fovea k=2 full, sizes": Arm("fovea", 2, size_bias=True),
    "window as k=1": Arm("window", 1),
    "window as k=2": Arm("window", 2),
    "transient-global": Arm("transient-global"),
    "dense": Arm("dense"),
}


def fovea_keys(length: int, block: int, k_neighbours: int, coverage: str) -> float:
    """Return the number of keys that a query of Fovea sees, on average over a sequence."""
    nodes = select_nodes(length // block, k_neighbours, coverage)
    return block * sum(map(len, nodes)) / len(nodes)


def window_keys(length: int, radius: int) -> float:
    """Return the number of keys in a window, on average over a sequence: ends have fewer."""
    radius = min(radius, length - 1)
    return 1 + 2 * radius - radius * (radius + 1) / length


def radius_for(keys: float, length: int) -> int:
    """Return the radius whose window has nearest to a number of keys."""
    return min(range(1, length), key=lambda radius: abs(window_keys(length, radius) - keys))


def keys_and_radius(arm: Arm, length: int, block: int) -> tuple[float, int | None]:
    """Return the keys that a query sees on average, and the radius of windows."""
    if arm.attention == "dense":
        return float(length), None
    keys = fovea_keys(length, block, arm.k_neighbours, arm.coverage)
    if arm.attention == "fovea":
        return keys, None
    summaries = length // SUMMARIZED if arm.attention == "transient-global" else 0
    radius = radius_for(keys - summaries, length)
    return window_keys(length, radius) + summaries, radius


def t5_sizes(vocabulary: int, options: Any) -> dict[str, Any]:
    """Return the fields of a T5 configuration that all encoders of a study have in common."""
    return {
        "vocab_size": vocabulary,
        "d_model": options.width,
        "d_kv": options.head,
        "d_ff": 4 * options.width,
        "num_layers": options.layers,
        "num_heads": options.width // options.head,
        "dropout_rate": 0.0,
    }


class Reader(nn.Module):
    """An encoder, and a linear layer on those of its outputs that are asked for."""

    def __init__(self, arm: Arm, vocabulary: int, outputs: int, length: int, options: Any) -> None:
        super().__init__()
        from transformers import LongT5Config, LongT5EncoderModel, T5Config, T5EncoderModel

        from foveate.models.fovea import FoveaConfig, FoveaEncoderModel
        from foveate.models.speed_ups import speed_up

        sizes = t5_sizes(vocabulary, options)
        if arm.attention == "fovea":
            config = FoveaConfig(
                **sizes,
                block_size=options.block,
                k_neighbours=arm.k_neighbours,
                coverage=arm.coverage,
                size_bias=arm.size_bias,
            )
            self.encoder: nn.Module = FoveaEncoderModel(config)
        elif arm.attention == "dense":
            self.encoder = speed_up(T5EncoderModel(T5Config(**sizes)))
        else:
            _, radius = keys_and_radius(arm, length, options.block)
            config = LongT5Config(
                **sizes,
                encoder_attention_type="local" if arm.attention == "window" else arm.attention,
                local_radius=radius,
                global_block_size=SUMMARIZED,
            )
            self.encoder = speed_up(LongT5EncoderModel(config))
        self.output = nn.Linear(options.width, outputs)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return `(batch, number, outputs)` at the positions `(batch, number)`, in float32."""
        cuda = ids.is_cuda
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=cuda):
            states = self.encoder(input_ids=ids).last_hidden_state
            index = positions[..., None].expand(-1, -1, states.shape[-1])
            return self.output(states.gather(1, index)).float()
