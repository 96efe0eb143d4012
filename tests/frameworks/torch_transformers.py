"""Models of transformers, built from a config. Copied beside a manifest; never imported by a test."""

import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5EncoderModel,
    ViTConfig,
    ViTModel,
)


def bert():
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    return BertModel(config)


def _gpt2(**options):
    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=50, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1, **options
    )
    return GPT2LMHeadModel(config)


def gpt2():
    return _gpt2(use_cache=False)


def gpt2_with_cache():
    return _gpt2(use_cache=True)


def t5_encoder():
    torch.manual_seed(3)
    return T5EncoderModel(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2))


def vit():
    torch.manual_seed(4)
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
    )
    return ViTModel(config)
