"""Architectures of Hugging Face transformers, built small from their configs: nothing is downloaded."""

from __future__ import annotations

from typing import Any

from torch import nn

from sweeps.torch_entry import entry, floats, ints, zeros_and_ones

TEXT = {"input_ids": ints("batch", "seq", low=3, below=60), "attention_mask": zeros_and_ones("batch", "seq")}
IMAGE = floats("batch", 3, "height", "width")
# Weights as large as those of a trained model: with the usual 0.02 the answers of a tiny model are close to 0.
SCALE = 0.3


def _build(model: str, config: str, **sizes: Any) -> nn.Module:
    # Imported here because it takes seconds, and most modules of the sweep don't need it.
    import transformers

    settings = getattr(transformers, config)(**sizes)
    settings._attn_implementation = "eager"
    module: nn.Module = getattr(transformers, model)(settings)
    return module


def _bert_like(model: str, config: str, **sizes: Any) -> nn.Module:
    common: dict[str, Any] = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    common |= {"intermediate_size": 24, "max_position_embeddings": 40, "initializer_range": SCALE, "num_labels": 3}
    return _build(model, config, **common | sizes)


bert = entry("transformer net", lambda: _bert_like("BertModel", "BertConfig"), **TEXT)
roberta = entry("transformer net", lambda: _bert_like("RobertaForTokenClassification", "RobertaConfig"), **TEXT)
distilbert = entry(
    "transformer net",
    lambda: _build(
        *("DistilBertForSequenceClassification", "DistilBertConfig"),
        vocab_size=60,
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=24,
        initializer_range=SCALE,
        max_position_embeddings=40,
    ),
    **TEXT,
)
gpt2 = entry(
    "transformer net",
    lambda: _build(
        *("GPT2LMHeadModel", "GPT2Config"),
        vocab_size=60,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=40,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=SCALE,
        use_cache=False,
    ),
    **TEXT,
)
llama = entry(
    "transformer net",
    lambda: _bert_like("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, use_cache=False),
    **TEXT,
)
clip_text = entry(
    "transformer net",
    lambda: _bert_like("CLIPTextModelWithProjection", "CLIPTextConfig", projection_dim=8, eos_token_id=59),
    **TEXT,
)
t5 = entry(
    "transformer net",
    lambda: _build(
        *("T5ForConditionalGeneration", "T5Config"),
        vocab_size=60,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        use_cache=False,
    ),
    **TEXT,
    decoder_input_ids=ints("batch", "keys", low=3, below=60),
)
bart = entry(
    "transformer net",
    lambda: _build(
        *("BartModel", "BartConfig"),
        vocab_size=60,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        init_std=SCALE,
        max_position_embeddings=40,
        use_cache=False,
    ),
    **TEXT,
    decoder_input_ids=ints("batch", "keys", low=3, below=60),
)
mamba = entry(
    "state-space net",
    lambda: _build(
        *("MambaForCausalLM", "MambaConfig"),
        vocab_size=60,
        hidden_size=16,
        state_size=4,
        num_hidden_layers=2,
        time_step_rank=4,
        initializer_range=SCALE,
        use_cache=False,
    ),
    input_ids=ints("batch", "seq", low=3, below=60),
    ends="batch-baked",
    why="the loop over the steps of the sequence is exported for the length of the example",
)
vit = entry(
    "vision net",
    lambda: _build(
        *("ViTForImageClassification", "ViTConfig"),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=16,
        patch_size=4,
        initializer_range=SCALE,
    ),
    pixel_values=floats("batch", 3, 16, 16),
)
convnext = entry(
    "vision net",
    lambda: _build(
        *("ConvNextForImageClassification", "ConvNextConfig"),
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_stages=2,
        initializer_range=SCALE,
        layer_scale_init_value=0.5,
    ),
    pixel_values=IMAGE,
    sizes={"height": (16, 26), "width": (20, 24)},
)
swin = entry(
    "vision net",
    lambda: _build(
        *("SwinModel", "SwinConfig"),
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[2, 1],
        num_heads=[2, 2],
        window_size=4,
        initializer_range=SCALE,
    ),
    pixel_values=floats("batch", 3, 16, 16),
)
whisper = entry(
    "audio net",
    lambda: _build(
        *("WhisperModel", "WhisperConfig"),
        vocab_size=60,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_source_positions=12,
        max_target_positions=20,
        init_std=SCALE,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    input_features=floats("batch", 8, 24),
    decoder_input_ids=ints("batch", "seq", low=3, below=60),
)
wav2vec2 = entry(
    "audio net",
    lambda: _build(
        *("Wav2Vec2ForCTC", "Wav2Vec2Config"),
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        conv_dim=[8, 8],
        conv_stride=[5, 4],
        conv_kernel=[10, 4],
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        initializer_range=SCALE,
    ),
    input_values=floats("batch", "samples"),
)
