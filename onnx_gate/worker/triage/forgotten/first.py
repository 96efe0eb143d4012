"""Common preprocessing steps that people forget on one side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_MEAN, _DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
"""Mean and deviation of ImageNet, by channel."""


def _normalised(x: Any) -> Any:
    """Normalised images, with the three channels on axis 1 or on the last axis; other values unchanged."""
    if x.ndim == 4 and x.shape[1] == 3:
        return (x - _MEAN.reshape(3, 1, 1)) / _DEVIATION.reshape(3, 1, 1)
    return (x - _MEAN) / _DEVIATION if x.ndim == 4 and x.shape[-1] == 3 else x


HABITS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("divided by 255", lambda x: x / 255),
    ("multiplied by 255", lambda x: x * 255),
    ("brought from 0…1 to −1…1", lambda x: 2 * x - 1),
    ("brought from −1…1 to 0…1", lambda x: (x + 1) / 2),
    ("normalised by the mean and deviation of ImageNet", _normalised),
    ("divided by 255 and normalised by the mean and deviation of ImageNet", lambda x: _normalised(x / 255)),
    ("given with their channels in reverse order (RGB, BGR)", lambda x: x[:, ::-1] if x.ndim == 4 else x),
)
"""Description and change of each preprocessing step; most are for images."""


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value after the change; integers and text stay unchanged."""
    return np.asarray(change(value), order="C").astype(value.dtype) if value.dtype.kind == "f" else value
