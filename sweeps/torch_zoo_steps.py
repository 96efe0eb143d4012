"""Layers of torch.nn that work on one element, token or step: activation, recurrence, attention, embedding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sweeps.torch_entry import bools, entry, floats, function, ints

WIDE = floats("batch", "seq", 6, low=-4.0, high=4.0)
STEPS = floats("batch", "seq", 6)
MEMORY = floats("batch", "keys", 6)
TOKENS = ints("batch", "seq", below=20)

celu = entry("activation", lambda: nn.CELU(0.7), x=WIDE)
elu = entry("activation", lambda: nn.ELU(0.7), x=WIDE)
gelu = entry("activation", nn.GELU, x=WIDE)
gelu_tanh = entry("activation", lambda: nn.GELU("tanh"), x=WIDE)
glu = entry("activation", nn.GLU, x=WIDE)
hardshrink = entry("activation", nn.Hardshrink, x=WIDE)
hardsigmoid = entry("activation", nn.Hardsigmoid, x=WIDE)
hardswish = entry("activation", nn.Hardswish, x=WIDE)
hardtanh = entry("activation", lambda: nn.Hardtanh(-0.6, 1.2), x=WIDE)
leaky_relu = entry("activation", lambda: nn.LeakyReLU(0.2), x=WIDE)
log_sigmoid = entry("activation", nn.LogSigmoid, x=WIDE)
log_softmax = entry("activation", lambda: nn.LogSoftmax(dim=1), x=WIDE)
mish = entry("activation", nn.Mish, x=WIDE)
prelu = entry("activation", lambda: nn.PReLU(6), x=floats("batch", 6, "time"))
relu = entry("activation", nn.ReLU, x=WIDE)
relu6 = entry("activation", nn.ReLU6, x=floats("batch", "seq", 6, low=-9.0, high=9.0))
rrelu = entry("activation", nn.RReLU, x=WIDE, ends="unsupported-operator")
selu = entry("activation", nn.SELU, x=WIDE)
sigmoid = entry("activation", nn.Sigmoid, x=WIDE)
silu = entry("activation", nn.SiLU, x=WIDE)
softmax = entry("activation", lambda: nn.Softmax(dim=-1), x=WIDE)
softmax2d = entry("activation", nn.Softmax2d, x=floats("batch", 3, "height", "width"))
softmin = entry("activation", lambda: nn.Softmin(dim=-1), x=WIDE)
softplus = entry("activation", lambda: nn.Softplus(beta=2, threshold=3), x=WIDE)
softshrink = entry("activation", nn.Softshrink, x=WIDE)
softsign = entry("activation", nn.Softsign, x=WIDE)
tanh = entry("activation", nn.Tanh, x=WIDE)
tanhshrink = entry("activation", nn.Tanhshrink, x=WIDE)
threshold = entry("activation", lambda: nn.Threshold(0.5, -2.0), x=WIDE)

dropout = entry("dropout in eval", lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5)), x=STEPS)
dropout2d = entry("dropout in eval", lambda: nn.Dropout2d(0.5), x=floats("batch", 3, "height", "width"))
alpha_dropout = entry(
    "dropout in eval", lambda: nn.Sequential(nn.AlphaDropout(0.5), nn.FeatureAlphaDropout(0.5)), x=STEPS
)


class WithStates(nn.Module):
    """A recurrent layer that takes its states as inputs and returns them."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, hidden: Any, cell: Any) -> Any:
        answers, (hidden, cell) = self.layer(x, (hidden, cell))
        return {"answers": answers, "next_hidden": hidden, "next_cell": cell}


class CellLoop(nn.Module):
    """A cell that is called three times, with its states."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any, hidden: Any, cell: Any) -> Any:
        for _ in range(3):
            hidden, cell = self.cell(x, (hidden, cell))
        return hidden, cell


rnn_tanh = entry(
    "recurrent",
    lambda: nn.RNN(6, 5, batch_first=True),
    x=STEPS,
    ends="batch-baked",
    why="torch.export turns the length of the example into a constant",
)
rnn_relu_deep = entry(
    "recurrent",
    lambda: nn.RNN(6, 5, num_layers=2, nonlinearity="relu", batch_first=True),
    x=STEPS,
    ends="batch-baked",
    why="torch.export turns the length of the example into a constant",
)
lstm = entry("recurrent", lambda: nn.LSTM(6, 5, batch_first=True), x=STEPS)
lstm_time_first = entry(
    "recurrent",
    lambda: nn.LSTM(6, 5),
    x=floats("seq", "rows", 6),
    ends="batch-baked",
    why="torch.export turns the length of the example into a constant",
)
lstm_deep_both_ways = entry(
    "recurrent", lambda: nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True), x=STEPS
)
lstm_projected = entry(
    "recurrent",
    lambda: nn.LSTM(6, 5, proj_size=3, batch_first=True),
    x=STEPS,
    ends="invalid-model",
    why="ONNX's LSTM has no projection; the exporter writes one that ONNX Runtime refuses",
)
lstm_states = entry(
    "recurrent",
    lambda: WithStates(nn.LSTM(6, 5, num_layers=2, batch_first=True)),
    x=floats("rows", "seq", 6),
    hidden=floats(2, "rows", 5),
    cell=floats(2, "rows", 5),
)
gru = entry("recurrent", lambda: nn.GRU(6, 5, batch_first=True), x=STEPS)
gru_both_ways = entry("recurrent", lambda: nn.GRU(6, 5, num_layers=2, bidirectional=True, batch_first=True), x=STEPS)
gru_state = entry(
    "recurrent", lambda: nn.GRU(6, 5, batch_first=True), input=floats("rows", "seq", 6), hx=floats(1, "rows", 5)
)
rnn_cell = entry("recurrent", lambda: nn.RNNCell(6, 5), input=floats("batch", 6), hx=floats("batch", 5))
gru_cell = entry("recurrent", lambda: nn.GRUCell(6, 5), input=floats("batch", 6), hx=floats("batch", 5))
lstm_cell = entry(
    "recurrent",
    lambda: CellLoop(nn.LSTMCell(6, 5)),
    x=floats("batch", 6),
    hidden=floats("batch", 5),
    cell=floats("batch", 5),
)


class Attend(nn.Module):
    """Multi-head attention of a sequence to itself, with a mask."""

    def __init__(self, *, causal: bool = False, **options: Any) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(6, 2, batch_first=True, **options)
        self.causal = causal

    def forward(self, x: Any, padding: Any = None) -> Any:
        mask = None
        if self.causal:
            mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        if padding is not None:
            # The first token is never masked: a row that is masked as a whole is another entry.
            padding = torch.cat([torch.zeros_like(padding[:, :1]), padding[:, 1:]], dim=1)
        return self.layer(x, x, x, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)


class Layer(nn.Module):
    """A layer of a transformer, as models call it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, memory: Any) -> Any:
        causal = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        return self.layer(x, memory, tgt_mask=causal)


def _attention(**options: Any) -> Any:
    return lambda x, y: F.scaled_dot_product_attention(
        x.unflatten(-1, (2, 3)).transpose(1, 2), *(y.unflatten(-1, (2, 3)).transpose(1, 2),) * 2, **options
    )


def _encoder_layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(6, 2, dim_feedforward=12, batch_first=True, **options)


dot_product_attention = function("attention", _attention(), x=STEPS, y=MEMORY)
dot_product_attention_causal = function("attention", _attention(is_causal=True), x=STEPS, y=MEMORY)
dot_product_attention_3d = function(
    "attention",
    lambda x, y: F.scaled_dot_product_attention(x, y, y, attn_mask=torch.ones(x.shape[1], y.shape[1])),
    x=STEPS,
    y=MEMORY,
    ends="conversion-failed",
    why="the exporter takes attention of four dimensions only",
)
multihead_attention = entry("attention", Attend, x=STEPS)
multihead_attention_padding = entry("attention", Attend, x=STEPS, padding=bools("batch", "seq"))
multihead_attention_causal = entry("attention", lambda: Attend(causal=True), x=STEPS)
multihead_attention_bias_kv = entry("attention", lambda: Attend(add_bias_kv=True, add_zero_attn=True), x=STEPS)
multihead_attention_cross = entry(
    "attention",
    lambda: nn.MultiheadAttention(6, 3, kdim=4, vdim=5, batch_first=True),
    query=STEPS,
    key=floats("batch", "keys", 4),
    value=floats("batch", "keys", 5),
)
encoder_layer = entry("attention", lambda: _encoder_layer(), x=STEPS)
encoder_layer_norm_first = entry("attention", lambda: _encoder_layer(norm_first=True, activation="gelu"), x=STEPS)
encoder = entry("attention", lambda: nn.TransformerEncoder(_encoder_layer(), 2, enable_nested_tensor=False), x=STEPS)
decoder_layer = entry(
    "attention",
    lambda: Layer(nn.TransformerDecoderLayer(6, 2, dim_feedforward=12, batch_first=True)),
    x=STEPS,
    memory=MEMORY,
)
transformer = entry(
    "attention",
    lambda: nn.Transformer(6, 2, 1, 1, dim_feedforward=12, batch_first=True),
    src=MEMORY,
    tgt=STEPS,
)

embedding = entry("embedding", lambda: nn.Embedding(20, 6), x=TOKENS)
embedding_padding = entry("embedding", lambda: nn.Embedding(20, 6, padding_idx=3), x=TOKENS)
embedding_bag_mean = entry("embedding", lambda: nn.EmbeddingBag(20, 6, mode="mean"), input=TOKENS)
embedding_bag_sum = entry("embedding", lambda: nn.EmbeddingBag(20, 6, mode="sum"), input=TOKENS)
embedding_bag_max = entry("embedding", lambda: nn.EmbeddingBag(20, 6, mode="max"), input=TOKENS)
embedding_one_hot = function("embedding", lambda x: F.one_hot(x, 20).float().cumsum(dim=1), x=TOKENS)
