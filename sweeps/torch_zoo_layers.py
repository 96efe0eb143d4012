"""Layers of torch.nn that work on space: linear, convolution, pooling, padding, vision, normalisation."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from sweeps.torch_entry import Function, entry, floats, function

ROWS = floats("batch", 6)
SIGNAL = floats("batch", 4, "time")
IMAGE = floats("batch", 4, "height", "width")
VOLUME = floats("batch", 2, "depth", "height", "width")
EVEN = {"height": (8, 14), "width": (10, 12)}
SMALL_VOLUME = {"depth": (4, 5), "height": (6, 8), "width": (7, 9)}

linear = entry("linear", lambda: nn.Linear(6, 3), x=floats("batch", "seq", 6))
linear_no_bias = entry("linear", lambda: nn.Linear(6, 3, bias=False), x=ROWS)
bilinear = entry("linear", lambda: nn.Bilinear(6, 4, 3), x=floats("batch", 6), y=floats("batch", 4))
flatten_linear = entry(
    "linear", lambda: nn.Sequential(nn.Flatten(), nn.Linear(24, 6), nn.Unflatten(1, (2, 3))), x=floats("batch", 4, 6)
)
weight_norm = entry(
    "linear", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), x=floats("batch", "seq", 6)
)
spectral_norm = entry(
    "linear", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3)), x=floats("batch", "seq", 6)
)

conv1d = entry("convolution", lambda: nn.Conv1d(4, 5, 3, padding=1), x=SIGNAL)
conv2d = entry("convolution", lambda: nn.Conv2d(4, 5, 3, stride=2, padding=1), x=IMAGE)
conv3d = entry("convolution", lambda: nn.Conv3d(2, 3, 3, padding=1), x=VOLUME, sizes=SMALL_VOLUME)
conv2d_depthwise = entry("convolution", lambda: nn.Conv2d(4, 8, 3, groups=4), x=IMAGE)
conv2d_dilated = entry("convolution", lambda: nn.Conv2d(4, 5, 3, dilation=2, stride=(1, 2)), x=IMAGE)
conv2d_same = entry("convolution", lambda: nn.Conv2d(4, 5, 4, padding="same"), x=IMAGE)
conv2d_reflect = entry("convolution", lambda: nn.Conv2d(4, 5, 3, padding=2, padding_mode="reflect"), x=IMAGE)
conv2d_circular = entry("convolution", lambda: nn.Conv2d(4, 5, 3, padding=1, padding_mode="circular"), x=IMAGE)
conv_transpose1d = entry("convolution", lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, output_padding=1), x=SIGNAL)
conv_transpose2d = entry(
    "convolution", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), x=IMAGE
)
conv_transpose3d = entry("convolution", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), x=VOLUME, sizes=SMALL_VOLUME)

max_pool1d = entry(
    "pooling",
    lambda: nn.MaxPool1d(3, stride=2, padding=1),
    x=SIGNAL,
    ends="batch-baked",
    why="torch.export turns the length of the example into a constant",
)
max_pool2d = entry("pooling", lambda: nn.MaxPool2d(3, stride=2, dilation=2), x=IMAGE)
max_pool2d_ceil = entry("pooling", lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), x=IMAGE)
max_pool2d_indices = entry("pooling", lambda: nn.MaxPool2d(2, return_indices=True), x=IMAGE)
max_pool3d = entry("pooling", lambda: nn.MaxPool3d(2), x=VOLUME, sizes=SMALL_VOLUME)
max_unpool2d = function(
    "pooling", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), [2, 2]), x=IMAGE, sizes=EVEN
)
avg_pool1d = entry("pooling", lambda: nn.AvgPool1d(3, stride=2, padding=1), x=SIGNAL)
avg_pool2d = entry("pooling", lambda: nn.AvgPool2d(3, padding=1, count_include_pad=False), x=IMAGE)
avg_pool2d_ceil = entry("pooling", lambda: nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), x=IMAGE)
avg_pool3d = entry("pooling", lambda: nn.AvgPool3d(2), x=VOLUME, sizes=SMALL_VOLUME)
adaptive_avg_pool2d_one = entry("pooling", lambda: nn.AdaptiveAvgPool2d(1), x=IMAGE)
adaptive_avg_pool2d = entry(
    "pooling",
    lambda: nn.AdaptiveAvgPool2d((2, 3)),
    x=IMAGE,
    ends="batch-baked",
    why="the windows are exported as those of the example's size",
)
adaptive_avg_pool2d_fixed = entry("pooling", lambda: nn.AdaptiveAvgPool2d((2, 3)), x=floats("batch", 4, 8, 9))
adaptive_max_pool1d_one = entry("pooling", lambda: nn.AdaptiveMaxPool1d(1), x=SIGNAL)
adaptive_max_pool2d = entry(
    "pooling",
    lambda: nn.AdaptiveMaxPool2d((2, 3)),
    x=IMAGE,
    ends="batch-baked",
    why="the windows are exported as those of the example's size",
)
adaptive_max_pool2d_fixed = entry("pooling", lambda: nn.AdaptiveMaxPool2d((2, 3)), x=floats("batch", 4, 8, 9))
lp_pool1d = entry("pooling", lambda: nn.LPPool1d(3, 3, stride=2), x=floats("batch", 4, "time", low=0.1, high=2.0))
lp_pool2d = entry("pooling", lambda: nn.LPPool2d(2, 3, stride=2), x=IMAGE)
fractional_max_pool2d = entry(
    "pooling",
    lambda: nn.FractionalMaxPool2d(2, output_size=(3, 4), _random_samples=torch.full((1, 4, 2), 0.4)),
    x=floats(1, 4, "height", "width"),
    ends="unsupported-operator",
)

constant_pad2d = entry("padding", lambda: nn.ConstantPad2d((1, 2, 3, 0), 0.7), x=IMAGE)
zero_pad1d = entry("padding", lambda: nn.ZeroPad1d((2, 1)), x=SIGNAL)
negative_pad2d = entry("padding", lambda: nn.ConstantPad2d((-1, 2, 0, -2), 0.7), x=IMAGE)
reflection_pad1d = entry("padding", lambda: nn.ReflectionPad1d((3, 1)), x=SIGNAL)
reflection_pad2d = entry("padding", lambda: nn.ReflectionPad2d((1, 2, 3, 0)), x=IMAGE)
replication_pad2d = entry("padding", lambda: nn.ReplicationPad2d((1, 2, 3, 0)), x=IMAGE)
replication_pad3d = entry("padding", lambda: nn.ReplicationPad3d(1), x=VOLUME, sizes=SMALL_VOLUME)
circular_pad2d = entry("padding", lambda: nn.CircularPad2d((1, 2, 3, 0)), x=IMAGE)

batch_norm1d = entry("normalisation", lambda: nn.BatchNorm1d(4), x=SIGNAL)
batch_norm2d = entry("normalisation", lambda: nn.BatchNorm2d(4), x=IMAGE)
batch_norm3d = entry("normalisation", lambda: nn.BatchNorm3d(2), x=VOLUME, sizes=SMALL_VOLUME)
batch_norm2d_no_stats = entry("normalisation", lambda: nn.BatchNorm2d(4, track_running_stats=False), x=IMAGE)
layer_norm = entry("normalisation", lambda: nn.LayerNorm(6), x=floats("batch", "seq", 6))
layer_norm_two_axes = entry("normalisation", lambda: nn.LayerNorm((4, 6), bias=False), x=floats("batch", "seq", 4, 6))
group_norm = entry("normalisation", lambda: nn.GroupNorm(2, 4), x=IMAGE)
instance_norm1d = entry("normalisation", lambda: nn.InstanceNorm1d(4), x=SIGNAL)
instance_norm2d = entry("normalisation", lambda: nn.InstanceNorm2d(4, affine=True), x=IMAGE)
instance_norm2d_stats = entry("normalisation", lambda: nn.InstanceNorm2d(4, track_running_stats=True), x=IMAGE)
rms_norm = entry("normalisation", lambda: nn.RMSNorm(6), x=floats("batch", "seq", 6))
local_response_norm = entry("normalisation", lambda: nn.LocalResponseNorm(3, alpha=0.5), x=IMAGE)
normalize = function("normalisation", lambda x: F.normalize(x, dim=1), x=IMAGE)

pixel_shuffle = entry("vision", lambda: nn.PixelShuffle(2), x=IMAGE)
pixel_unshuffle = entry("vision", lambda: nn.PixelUnshuffle(2), x=IMAGE, sizes=EVEN)
channel_shuffle = entry("vision", lambda: nn.ChannelShuffle(2), x=IMAGE)
upsample_nearest = entry("vision", lambda: nn.Upsample(scale_factor=2), x=IMAGE)
upsample_nearest_exact = entry("vision", lambda: nn.Upsample(scale_factor=1.5, mode="nearest-exact"), x=IMAGE)
upsample_bilinear = entry("vision", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), x=IMAGE)
upsample_bicubic = entry("vision", lambda: nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True), x=IMAGE)
upsample_trilinear = entry(
    "vision", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), x=VOLUME, sizes=SMALL_VOLUME
)
resize_to = function("vision", lambda x: F.interpolate(x, size=(7, 5), mode="bilinear"), x=IMAGE)
resize_antialias = function("vision", lambda x: F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True), x=IMAGE)
grid_sample = function(
    "vision",
    lambda x, y: F.grid_sample(x, y, align_corners=False),
    x=IMAGE,
    y=floats("batch", "nodes", 5, 2, low=-1.2, high=1.2),
)
grid_sample_border = function(
    "vision",
    lambda x, y: F.grid_sample(x, y, mode="nearest", padding_mode="border", align_corners=True),
    x=IMAGE,
    y=floats("batch", "nodes", 5, 2, low=-1.2, high=1.2),
)
affine_grid = function(
    "vision",
    lambda x, y: F.grid_sample(x, F.affine_grid(y, list(x.shape), align_corners=False), align_corners=False),
    x=IMAGE,
    y=floats("batch", 2, 3),
    ends="batch-baked",
    why="torch.export turns the height and width of the example into a constant",
)
unfold = entry("vision", lambda: nn.Unfold(3, padding=1, stride=2), x=IMAGE)
fold = entry("vision", lambda: nn.Fold((8, 10), 2, stride=2), x=floats("batch", 12, 20))
unfold_then_fold = entry(
    "vision",
    lambda: nn.Sequential(nn.Unfold(3, padding=1), Function(torch.tanh), nn.Fold((8, 9), 3, padding=1)),
    x=floats("batch", 4, 8, 9),
)
