"""Small models for every kind of ending."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor


def rows() -> dict[str, Any]:
    """Fixed data."""
    return {"X": np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)}


def line() -> LinearRegression:
    """A model that passes."""
    return LinearRegression().fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])


def unfitted() -> LinearRegression:
    """A model that can't be loaded."""
    return LinearRegression()


def words(shift: float = 0.0) -> LogisticRegression:
    """A classifier whose labels are text."""
    random = np.random.default_rng(1)
    features = random.normal(size=(90, 4))
    names = np.array(["good", "bad", "ugly"])[np.argmax(features[:, :3] + [shift, 0, 0], axis=1)]
    return LogisticRegression().fit(features, names)


def perceptron() -> MLPRegressor:
    """A model with enough numbers to show a lower precision."""
    data = rows()["X"]
    return MLPRegressor(hidden_layer_sizes=(16,), max_iter=200, random_state=0, tol=1.0).fit(
        data, data @ [1.0, -2.0, 3.0, 0.5]
    )


class Sleepless(torch.nn.Module):
    """A module that applies dropout in every mode."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Random answers, unless the module is being exported."""
        return torch.nn.functional.dropout(self.linear(X), 0.5, training=not torch.compiler.is_compiling())


def sleepless() -> Sleepless:
    """A model that diverges, with a cause."""
    return Sleepless()


class Token(torch.nn.Module):
    """A module with two outputs, one of them of integers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores, and the index of the best one."""
        scores = self.out(self.embed(tokens).mean(1))
        return scores, scores.argmax(1)


def token() -> Token:
    """A model that passes."""
    return Token()


def aborts() -> LinearRegression:
    """A model that ends its process."""
    os.abort()
