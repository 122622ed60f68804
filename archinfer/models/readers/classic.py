"""Readers of decoders before Llama's pattern: LayerNorms with biases, two-matrix feed-forwards,
learned positions, one key-value head, branches side by side."""

from __future__ import annotations

from dataclasses import replace

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers.common import HEADS, Decoder, Reading, plain, with_extra
from archinfer.models.readers.style import Style


def _positions(d: Decoder, rows: int) -> tuple[part.Piece, ...]:
    """A table of learned positions."""
    return (part.Piece("other", rows * d.hidden, vector=True),)


def read_gpt2(d: Decoder) -> Reading:
    """GPT-2 and GPT-BigCode: learned positions, biases everywhere, the head tied."""
    bigcode = d.keys.text("model_type") == "gpt_bigcode"
    one = bigcode and d.keys.flag("multi_query", default=True)
    dense = part.DenseMLP(d.keys.integer("n_inner", default=4 * d.hidden), 2, True)
    rows = d.keys.integer("n_positions", "max_position_embeddings", default=1024)
    blocks = d.blocks(d.multi_head(bias=True, kv=int(one)), dense)
    return d.reading(blocks, outside=_positions(d, rows))


def read_gptj(d: Decoder) -> Reading:
    """GPT-J and CodeGen: branches side by side under one norm; biases of feed-forward and head."""
    dense = part.DenseMLP(d.keys.integer("n_inner", default=4 * d.hidden), 2, True)
    return d.reading(d.blocks(d.multi_head(), dense), head_bias=True)


def parse_gpt_neox(keys: ConfigKeys, style: Style) -> Reading:
    """GPT-NeoX and Pythia: a norm for each branch, side by side or not."""
    beside = keys.flag("use_parallel_residual", default=True)
    d = Decoder(keys, replace(style, parallel=beside))
    dense = part.DenseMLP(keys.integer("intermediate_size"), 2, True)
    bias = keys.flag("attention_bias", default=True)
    return d.reading(d.blocks(d.multi_head(bias), dense))


def read_bloom(d: Decoder) -> Reading:
    """BLOOM: ALiBi, a norm after the embedding, the head tied."""
    blocks = d.blocks(d.multi_head(bias=True), part.DenseMLP(4 * d.hidden, 2, True))
    return d.reading(blocks, outside=(part.Piece("norm", 2 * d.hidden, vector=True),))


def parse_opt(keys: ConfigKeys, style: Style) -> Reading:
    """OPT: learned positions from the third row on, the head tied."""
    weighted = keys.flag("layer_norm_elementwise_affine", default=True)
    d = Decoder(keys, replace(style, norm_vectors=2 if weighted else 0))
    keys.only("word_embed_proj_dim", d.hidden)
    bias = keys.flag("enable_bias", default=True)
    rows = keys.integer("max_position_embeddings", default=2048) + 2
    blocks = d.blocks(d.multi_head(bias), part.DenseMLP(keys.integer("ffn_dim"), 2, bias))
    return d.reading(blocks, outside=_positions(d, rows))


def read_mpt(d: Decoder) -> Reading:
    """MPT: no biases, norms of one vector, ALiBi."""
    attention = d.multi_head()
    inner = d.keys.section("attn_config")
    if inner is not None:
        inner.only("attn_type", "multihead_attention")
        inner.only("qk_ln", False)
        inner.only("kv_n_heads", attention.heads)
        inner.only("alibi", True)
    return d.reading(d.blocks(attention, part.DenseMLP(4 * d.hidden, 2)))


def parse_falcon(keys: ConfigKeys, style: Style) -> Reading:
    """Falcon: one key-value head, or few with two norms side by side."""
    wide = keys.flag("new_decoder_architecture")
    parallel = keys.flag("parallel_attn", default=True) or wide
    norms = keys.integer("num_ln_in_parallel_attn", default=2 if wide else 1)
    d = Decoder(keys, replace(style, parallel=parallel, own_norms=norms == 2))
    one = keys.flag("multi_query", default=True)
    stated = keys.integer("num_kv_heads", "n_head_kv", default=keys.integer(*HEADS))
    bias = keys.flag("bias")
    attention = d.multi_head(bias, stated if wide else int(one))
    dense = part.DenseMLP(keys.integer("ffn_hidden_size", default=4 * d.hidden), 2, bias)
    return d.reading(d.blocks(attention, dense))


def read_phi(d: Decoder) -> Reading:
    """Phi 1 and 2: branches side by side under one norm, biases everywhere, the head's too."""
    attention = d.attention()
    if d.keys.flag("qk_layernorm"):
        norms = part.Piece("norm", 4 * attention.head_dim, vector=True)
        attention = replace(attention, extra=(norms,))
    dense = part.DenseMLP(d.keys.integer("intermediate_size"), 2, True)
    return d.reading(d.blocks(attention, dense), head_bias=True)


def read_chatglm(d: Decoder) -> Reading:
    """ChatGLM 2 and 3, GLM-4: groups of queries, a gated feed-forward, the head apart."""
    keys, heads = d.keys, d.keys.integer(*HEADS)
    bias = keys.flag("add_bias_linear")
    grouped = keys.flag("multi_query_attention")
    groups = keys.integer("multi_query_group_num", default=1)
    attention = part.Attention(
        heads,
        groups if grouped else heads,
        keys.integer("kv_channels", default=d.hidden // heads),
        qkv_bias=bias or keys.flag("add_qkv_bias"),
        o_bias=bias,
    )
    return d.reading(d.blocks(attention, part.DenseMLP(keys.integer("ffn_hidden_size"), 3, bias)))


def parse_apertus(keys: ConfigKeys, style: Style) -> Reading:
    """Apertus: two learned numbers of each feed-forward's activation (xIELU)."""
    return with_extra(plain(keys, style), part.Piece("dense_mlp", 2, vector=True))


def parse_bitnet(keys: ConfigKeys, style: Style) -> Reading:
    """BitNet: norms before the output projection and before the last matrix."""
    reading = plain(keys, style)
    width = reading.hidden + keys.integer("intermediate_size")
    return with_extra(reading, part.Piece("norm", width, vector=True))
