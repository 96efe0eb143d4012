"""Typical training tables: incomes, ages, balances, cities."""

from __future__ import annotations

import numpy as np

from sweeps.wrong_models.entry import Array, Random

CITIES = ("Aachen", "Berlin", "Cologne", "Dresden", "Essen", "Freiburg", "Göttingen", "Hamburg", "Jena", "Kassel")
PLANS = ("basic", "plus", "premium", "family", "student")
WORDS = (
    *("refund", "invoice", "delivery", "broken", "screen", "battery", "password", "login", "cancel", "contract"),
    *("upgrade", "shipping", "address", "charge", "credit", "support", "warranty", "account", "payment", "router"),
)


def people(random: Random, rows: int = 400) -> Array:
    """Income (20,000 to 200,000), age (18 to 90), balance (around 120,000) and years in a job."""
    income = np.clip(random.lognormal(11.0, 0.5, rows), 20_000, 200_000)
    age = random.uniform(18, 90, rows)
    balance = random.normal(120_000, 30_000, rows)
    years = random.uniform(30, 70, rows)
    return np.column_stack([income, age, balance, years]).round(1).astype(np.float32)


def spending(table: Array, random: Random) -> Array:
    """A target that depends on all columns of the table of people."""
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    answer = 5 + 2 * np.tanh(scaled[:, 0]) + scaled[:, 1] * (scaled[:, 2] > 0) + 0.5 * scaled[:, 3]
    return np.asarray(answer + random.normal(0, 0.2, len(table)))


def classes(table: Array, random: Random, count: int = 3) -> Array:
    """`count` classes of people, by their spending."""
    spent = spending(table, random)
    return np.searchsorted(np.quantile(spent, np.linspace(0, 1, count + 1)[1:-1]), spent)


def with_gaps(table: Array, random: Random, share: float = 0.15) -> Array:
    """The table with missing values."""
    return np.where(random.random(table.shape) < share, np.nan, table).astype(np.float32)


def texts(random: Random, rows: int = 120) -> Array:
    """Short messages of known words."""
    made = [" ".join(random.choice(WORDS, size=random.integers(3, 7), replace=False)) for _ in range(rows)]
    return np.array(made, dtype=object)


def pick(choices: tuple[str, ...], random: Random, rows: int) -> Array:
    """Random choices from a list; each choice occurs at least once."""
    drawn = [*choices, *random.choice(choices, size=rows - len(choices))]
    return np.array(drawn, dtype=object)
