"""Readers of decoders before Llama's pattern: LayerNorms with biases, two-matrix feed-forwards,
learned positions, one key-value head, branches side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archinfer.models import layers as part
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import common
from archinfer.models.readers.style import Style, styles

_POSITIONS = ("n_positions", "max_position_embeddings")


_MPT = (("d_model", "hidden_size"), ("n_layers", "num_hidden_layers"), ("n_heads",))


def _sizes(
    keys: ConfigKeys, names: tuple[tuple[str, ...], ...] = ()
) -> tuple[int, int, int, int, int]:
    """Hidden size, layers, vocabulary, heads, width of a head; by the names the class reads."""
    wide, deep, across = names or (
        ("hidden_size", "n_embd", "n_embed"),
        ("num_hidden_layers", "n_layer"),
        ("num_attention_heads", "n_head"),
    )
    hidden = keys.integer(*wide)
    layers, vocab = keys.integer(*deep), keys.integer("vocab_size")
    heads = keys.integer(*across)
    if layers > 10_000:
        raise keys.refuse(f"{layers} layers are absurdly many")
    if hidden % heads:
        raise keys.refuse(f"hidden_size {hidden} is no multiple of {heads} heads")
    return hidden, layers, vocab, heads, hidden // heads


def _layers(
    count: int, mixer: part.Mixer, feed_forward: part.FeedForward, style: Style, norms: int = 2
) -> list[part.LayerBlock]:
    """Equal layers; where branches are side by side under two norms, each has its own."""
    if not style.parallel or norms == 1:
        return common.make_blocks([mixer] * count, [feed_forward] * count, style)
    branches = tuple(
        (part.Sublayer(body, 1, style.norms_after, style.norm_vectors),)
        for body in (mixer, feed_forward)
    )
    return [part.LayerBlock(1, (part.Parallel(branches),)) for _ in range(count)]


def read_gpt2(keys: ConfigKeys) -> common.Reading:
    """GPT-2 and GPT-BigCode: learned positions, biases everywhere, the head tied."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    bigcode = keys.text("model_type") == "gpt_bigcode"
    one = bigcode and keys.flag("multi_query", default=True)
    keys.only("add_cross_attention", False)
    keys.ignore("attention_softmax_in_fp32", "reorder_and_upcast_attn", "n_ctx")
    keys.ignore("num_key_value_heads")
    attention = part.Attention(heads, 1 if one else heads, width, qkv_bias=True, o_bias=True)
    dense = part.DenseMLP(keys.integer("n_inner", default=4 * hidden), 2, True)
    style = Style(norm_vectors=2, tied=True)
    positions = keys.integer(*_POSITIONS, default=1024)
    reading = common.make_reading(
        keys, _layers(layers, attention, dense, style), hidden, vocab, style
    )
    return replace(reading, outside=(part.Piece("other", positions * hidden, vector=True),))


def read_gptj(keys: ConfigKeys) -> common.Reading:
    """GPT-J and CodeGen: branches side by side under one norm; biases of feed-forward and head."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    dense = part.DenseMLP(keys.integer("n_inner", default=4 * hidden), 2, True)
    style = Style(norm_vectors=2, parallel=True)
    keys.ignore("n_ctx")
    blocks = _layers(layers, part.Attention(heads, heads, width), dense, style, 1)
    return replace(common.make_reading(keys, blocks, hidden, vocab, style), head_bias=True)


def read_gpt_neox(keys: ConfigKeys) -> common.Reading:
    """GPT-NeoX and Pythia: a norm for each branch, side by side or not."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    bias = keys.flag("attention_bias", default=True)
    style = Style(norm_vectors=2, parallel=keys.flag("use_parallel_residual", default=True))
    dense = part.DenseMLP(keys.integer("intermediate_size"), 2, True)
    attention = part.Attention(heads, heads, width, qkv_bias=bias, o_bias=bias)
    return common.make_reading(keys, _layers(layers, attention, dense, style), hidden, vocab, style)


def read_bloom(keys: ConfigKeys) -> common.Reading:
    """BLOOM: ALiBi, a norm after the embedding, the head tied."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    keys.ignore("n_inner", "hidden_dropout", "apply_residual_connection_post_layernorm")
    keys.ignore("skip_bias_add", "skip_bias_add_qkv", "bias_dropout_fusion", "unk_token_id")
    keys.ignore("num_key_value_heads", "seq_length", "offset_alibi", "masked_softmax_fusion")
    style = Style(norm_vectors=2, tied=True)
    attention = part.Attention(heads, heads, width, qkv_bias=True, o_bias=True)
    blocks = _layers(layers, attention, part.DenseMLP(4 * hidden, 2, True), style)
    reading = common.make_reading(keys, blocks, hidden, vocab, style)
    return replace(reading, outside=(part.Piece("norm", 2 * hidden, vector=True),))


def read_opt(keys: ConfigKeys) -> common.Reading:
    """OPT: learned positions from the third row on, the head tied."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    keys.only("word_embed_proj_dim", hidden)
    keys.only("do_layer_norm_before", True)
    keys.only("_remove_final_layer_norm", False)
    keys.ignore("layerdrop")
    bias = keys.flag("enable_bias", default=True)
    vectors = 2 if keys.flag("layer_norm_elementwise_affine", default=True) else 0
    style = Style(norm_vectors=vectors, tied=True)
    attention = part.Attention(heads, heads, width, qkv_bias=bias, o_bias=bias)
    dense = part.DenseMLP(keys.integer("ffn_dim"), 2, bias)
    positions = keys.integer("max_position_embeddings", default=2048) + 2
    reading = common.make_reading(
        keys, _layers(layers, attention, dense, style), hidden, vocab, style
    )
    return replace(reading, outside=(part.Piece("other", positions * hidden, vector=True),))


def read_mpt(keys: ConfigKeys) -> common.Reading:
    """MPT: no biases, norms of one vector, ALiBi."""
    hidden, layers, vocab, heads, width = _sizes(keys, _MPT)
    keys.only("no_bias", True)
    keys.ignore("embedding_fraction", "learned_pos_emb", "norm_type", "init_device")
    inner = keys.section("attn_config")
    if inner is not None:
        inner.only("attn_type", "multihead_attention")
        inner.only("qk_ln", False)
        inner.only("kv_n_heads", heads)
        inner.only("alibi", True)
    keys.only("expansion_ratio", 4)
    style = Style(tied=True)
    blocks = _layers(
        layers, part.Attention(heads, heads, width), part.DenseMLP(4 * hidden, 2), style
    )
    return common.make_reading(keys, blocks, hidden, vocab, style)


def read_falcon(keys: ConfigKeys) -> common.Reading:
    """Falcon: one key-value head, or few with two norms side by side."""
    hidden, layers, vocab, heads, width = _sizes(keys)
    wide = keys.flag("new_decoder_architecture")
    one = keys.flag("multi_query", default=True)
    stated = keys.integer("num_kv_heads", "n_head_kv", default=heads)
    parallel = keys.flag("parallel_attn", default=True) or wide
    norms = 2 if keys.integer("num_ln_in_parallel_attn", default=2 if wide else 1) == 2 else 1
    bias = keys.flag("bias")
    keys.ignore(
        "ff_factor", "alibi", "apply_residual_connection_post_layernorm", "num_key_value_heads"
    )
    kv = stated if wide else 1 if one else heads
    style = Style(norm_vectors=2, parallel=parallel, tied=True)
    dense = part.DenseMLP(keys.integer("ffn_hidden_size", default=4 * hidden), 2, bias)
    attention = part.Attention(heads, kv, width, qkv_bias=bias, o_bias=bias)
    blocks = _layers(layers, attention, dense, style, norms if parallel else 2)
    return common.make_reading(keys, blocks, hidden, vocab, style)


def read_phi(keys: ConfigKeys) -> common.Reading:
    """Phi 1 and 2: branches side by side under one norm, biases everywhere, the head's too."""
    style = Style(norm_vectors=2, parallel=True, matrices=2, qkv_bias=True, o_bias=True,
                  mlp_bias=True)  # fmt: skip
    hidden, layers, vocab = common.read_core(keys, style)
    attention = common.read_attention(keys, hidden, style)
    if keys.flag("qk_layernorm"):
        norms = part.Piece("norm", 4 * attention.head_dim, vector=True)
        attention = replace(attention, extra=(norms,))
    dense = part.DenseMLP(keys.integer("intermediate_size"), 2, True)
    blocks = _layers(layers, attention, dense, style, 1)
    return replace(common.make_reading(keys, blocks, hidden, vocab, style), head_bias=True)


def read_chatglm(keys: ConfigKeys) -> common.Reading:
    """ChatGLM 2 and 3, GLM-4: groups of queries, a gated feed-forward, the head apart."""
    hidden, layers = keys.integer(*common.HIDDEN), keys.integer(*common.LAYERS)
    vocab, heads = keys.integer("padded_vocab_size", "vocab_size"), keys.integer(*common.HEADS)
    keys.ignore("vocab_size")
    keys.only("rmsnorm", True)
    keys.only("post_layer_norm", True)
    keys.ignore("apply_residual_connection_post_layernorm", "hidden_dropout", "prefix_projection")
    keys.ignore("apply_query_key_layer_scaling", "original_rope", "bias_dropout_fusion")
    keys.ignore("attention_softmax_in_fp32", "fp32_residual_connection", "pre_seq_len")
    bias = keys.flag("add_bias_linear")
    grouped = keys.flag("multi_query_attention")
    groups = keys.integer("multi_query_group_num", default=1)
    attention = part.Attention(
        heads,
        groups if grouped else heads,
        keys.integer("kv_channels", default=hidden // heads),
        qkv_bias=bias or keys.flag("add_qkv_bias"),
        o_bias=bias,
    )
    dense = part.DenseMLP(keys.integer("ffn_hidden_size"), 3, bias)
    style = Style()
    return common.make_reading(keys, _layers(layers, attention, dense, style), hidden, vocab, style)


def with_layer_extra(
    read: Callable[[ConfigKeys], common.Reading],
    extra: Callable[[ConfigKeys, common.Reading], tuple[part.Piece, ...]],
) -> Callable[[ConfigKeys], common.Reading]:
    """A reader whose layers have further parameters, alike in all of them."""

    def reader(keys: ConfigKeys) -> common.Reading:
        reading = read(keys)
        pieces = extra(keys, reading)
        return replace(reading, layers=[replace(b, extra=pieces) for b in reading.layers])

    return reader


def xielu(keys: ConfigKeys, reading: common.Reading) -> tuple[part.Piece, ...]:
    """Apertus: two learned numbers of each feed-forward's activation."""
    return (part.Piece("dense_mlp", 2, vector=True),)


def sub_norms(keys: ConfigKeys, reading: common.Reading) -> tuple[part.Piece, ...]:
    """BitNet: norms before the output projection and before the last matrix."""
    return (part.Piece("norm", reading.hidden + keys.integer("intermediate_size"), vector=True),)


read_apertus = with_layer_extra(common.plain(styles()["apertus"]), xielu)
read_bitnet = with_layer_extra(common.plain(styles()["bitnet"]), sub_norms)
