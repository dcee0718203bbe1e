"""The names and layouts of Hugging Face's Llama checkpoints, for `treaty.schema.library.transformer.Params`.

A torch Linear stores its weight as (out, in) and heads side by side, so their size must be said: it is `head_dim` in
the model's config.json, or hidden_size / num_attention_heads.

    restore("model.safetensors", Params, keymap=LLAMA.with_sizes(d_head=128))

The weights are the model's own, and so is the order of rotary pairs within a head: halves, as in Hugging Face's code.
"""

from typing import Final

from treaty.schema.keymap import KeyMap, Rule
from treaty.schema.library.transformer import Params

_LAYER: Final = "model.layers.{i}"

LLAMA: Final = KeyMap(
    [
        Rule("model.embed_tokens.weight", "embedding"),
        Rule(f"{_LAYER}.input_layernorm.weight", "blocks[{i}].attention_norm.scale"),
        Rule(
            f"{_LAYER}.self_attn.q_proj.weight",
            "blocks[{i}].attention.query",
            "(n_heads d_head) d_model -> d_model n_heads d_head",
        ),
        Rule(
            f"{_LAYER}.self_attn.k_proj.weight",
            "blocks[{i}].attention.key",
            "(n_kv_heads d_head) d_model -> d_model n_kv_heads d_head",
        ),
        Rule(
            f"{_LAYER}.self_attn.v_proj.weight",
            "blocks[{i}].attention.value",
            "(n_kv_heads d_head) d_model -> d_model n_kv_heads d_head",
        ),
        Rule(
            f"{_LAYER}.self_attn.o_proj.weight",
            "blocks[{i}].attention.out",
            "d_model (n_heads d_head) -> n_heads d_head d_model",
        ),
        Rule(f"{_LAYER}.post_attention_layernorm.weight", "blocks[{i}].mlp_norm.scale"),
        Rule(f"{_LAYER}.mlp.gate_proj.weight", "blocks[{i}].mlp.gate", "d_ff d_model -> d_model d_ff"),
        Rule(f"{_LAYER}.mlp.up_proj.weight", "blocks[{i}].mlp.up", "d_ff d_model -> d_model d_ff"),
        Rule(f"{_LAYER}.mlp.down_proj.weight", "blocks[{i}].mlp.down", "d_model d_ff -> d_ff d_model"),
        Rule("model.norm.weight", "final_norm.scale"),
    ],
    ties={"lm_head.weight": "model.embed_tokens.weight"},
    # Written by old versions of transformers: computed from the config, not trained.
    ignore_stored=[f"{_LAYER}.self_attn.rotary_emb.inv_freq"],
    of=Params,
)
