"""The parts of an estimator: steps, branches and the estimators that it wraps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

_WRAPPED = ("best_estimator_", "estimator_", "regressor_", "transformer_", "final_estimator_")
_SEVERAL = ("estimators_", "calibrated_classifiers_")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One estimator inside another."""

    name: str
    """A path of step names, such as `prep__num`; empty for the whole."""
    model: Any
    """The fitted estimator."""
    before: tuple[Any, ...] = ()
    """The estimators whose outputs it gets, the nearest last."""


def parts(model: Any, name: str = "", before: tuple[Any, ...] = ()) -> Iterator[Part]:
    """The estimator itself, then all estimators inside it, in the order of the data."""
    yield Part(name=name, model=model, before=before)
    if isinstance(model, Pipeline):
        for key, step in model.steps:
            if _is_estimator(step):
                yield from parts(step, _join(name, key), before)
                before = (*before, step)
        return
    for key, inner in _inner(model):
        yield from parts(inner, _join(name, key), before)


def last_step(model: Any) -> Any:
    """The estimator that gives the answer: skl2onnx looks through pipelines and grid searches."""
    while True:
        if isinstance(model, Pipeline):
            steps = [step for _, step in model.steps if _is_estimator(step)]
            if not steps:
                return model
            model = steps[-1]
        elif type(model).__name__ == "GridSearchCV" and hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


def first_steps(model: Any) -> list[Any]:
    """The estimators that get the feed itself."""
    found = [part.model for part in parts(model) if not part.before]
    return [each for each in found if not isinstance(each, Pipeline)] or found


def _inner(model: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(model, ColumnTransformer):
        yield from ((key, each) for key, each, _ in getattr(model, "transformers_", ()) if _is_estimator(each))
        return
    if isinstance(model, FeatureUnion):
        yield from ((key, each) for key, each in model.transformer_list if _is_estimator(each))
        return
    for attribute in _WRAPPED:
        if _is_estimator(inner := getattr(model, attribute, None)):
            yield attribute, inner
    named = getattr(model, "named_estimators_", None)
    if isinstance(named, dict):
        yield from ((key, each) for key, each in named.items() if _is_estimator(each))
        return
    for attribute in _SEVERAL:
        members = getattr(model, attribute, None)
        if isinstance(members, list | tuple):
            yield from ((f"{attribute}{i}", each) for i, each in enumerate(_unlike(members)))


def _unlike(members: list[Any] | tuple[Any, ...]) -> list[Any]:
    """One estimator of each class: an ensemble has many of the same class."""
    kept: dict[type, Any] = {}
    for each in members:
        if _is_estimator(each):
            kept.setdefault(type(each), each)
    return list(kept.values())


def _is_estimator(value: Any) -> bool:
    return isinstance(value, BaseEstimator) or (hasattr(value, "get_params") and not isinstance(value, type))


def _join(name: str, key: str) -> str:
    return f"{name}__{key}" if name else str(key)
