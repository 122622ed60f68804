"""The parts that an architecture is built of, each with its parameters, caches and steps."""

from archinfer.models.layers.attention import Attention, Indexer
from archinfer.models.layers.block import (
    FeedForward,
    LayerBlock,
    Parallel,
    Sublayer,
    group_layers,
)
from archinfer.models.layers.feedforward import DenseMLP, MoE
from archinfer.models.layers.latent import CompressedAttention, LatentAttention
from archinfer.models.layers.pieces import COMPONENTS, Mixer, Piece
from archinfer.models.layers.recurrent import (
    GatedDelta,
    KimiDelta,
    Lightning,
    Mamba1,
    Mamba2,
    RecurrentUnit,
    ShortConv,
)

__all__ = [
    "COMPONENTS", "Attention", "CompressedAttention", "DenseMLP", "FeedForward", "GatedDelta",
    "Indexer", "KimiDelta", "LatentAttention", "LayerBlock", "Lightning", "Mamba1", "Mamba2",
    "Mixer", "MoE", "Parallel", "Piece", "RecurrentUnit", "ShortConv", "Sublayer", "group_layers",
]  # fmt: skip
