"""The way of each input column to the estimators, through pipelines, column transformers, unions and wrappers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from onnx_gate.frameworks.boosters.common import library_of
from onnx_gate.frameworks.boosters.domain import add_booster
from onnx_gate.frameworks.sklearn.domain.following import follow, width_of
from onnx_gate.frameworks.sklearn.domain.joint import with_joint_leaves
from onnx_gate.frameworks.sklearn.domain.learnt import learn
from onnx_gate.frameworks.sklearn.domain.trees import add_histogram_trees, add_trees
from onnx_gate.frameworks.sklearn.inputs import fitted_columns
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import Domains
from onnx_gate.worker.domains.columns import Column, Columns, columns_of
from onnx_gate.worker.domains.facts import Facts

_ONE = ("best_estimator_", "estimator_", "regressor_")
"""Attributes with the estimator to which a wrapper gives its own columns; `transformer_` is for targets."""


def input_domain(source: Any, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """All facts that the parts of an estimator know about the inputs."""
    walk = _Walk(Facts(f"{spec.base}/domain"), f"{spec.base}/domain")
    columns = first_columns(source, spec)
    walk.through(source, columns)
    domains = walk.facts.domains()
    try:
        return with_joint_leaves(source, spec, columns, walk.seen_last, domains)
    except Exception:
        # Any step may fail in any way: the other facts are still known.
        return domains


def first_columns(source: Any, spec: ModelSpec) -> Columns:
    """The columns in the order in which the source was fitted; None for those that aren't among the inputs."""
    given = [column for each in spec.inputs or () for column in columns_of(each)]
    fitted = fitted_columns(source)
    if fitted is None or len(given) == 1 < len(fitted):
        return given
    names = _names(spec, fitted)
    return [names.get(name) for name in fitted]


def _names(spec: ModelSpec, fitted: list[str]) -> dict[str, Column | None]:
    """Column name → column: an input of one column keeps its own name, a block takes the fitted names at its place."""
    found: dict[str, Column | None] = {}
    for given in spec.inputs or ():
        columns, place = columns_of(given), len(found)
        names = [given.name] if len(columns) == 1 else fitted[place : place + len(columns)]
        found |= dict(zip(names, columns, strict=False))
    return found


class _Walk:
    """One visit of an estimator and of all estimators inside it."""

    def __init__(self, facts: Facts, seed: str) -> None:
        self.facts = facts
        self._seed = seed
        self._parts = 0
        self.seen_last: Columns | None = None
        """The columns that the last step of a pipeline sees; for nested pipelines, the outermost one sets it last."""

    def through(self, model: Any, columns: Columns) -> Columns | None:
        """The columns of the model's output; None where not even their number is known. Never fails."""
        try:
            return self._through(model, columns)
        except Exception:
            # One part that fails gives no facts, and the others still do.
            return None

    def _through(self, model: Any, columns: Columns) -> Columns | None:
        if model is None or isinstance(model, str):
            return [] if model == "drop" else columns
        if isinstance(model, Pipeline):
            return self._steps([step for _, step in model.steps], columns)
        if isinstance(model, ColumnTransformer):
            return self._branches(model, columns)
        if isinstance(model, FeatureUnion):
            return self._side_by_side([step for _, step in model.transformer_list], columns)
        if library_of(model):
            add_booster(self.facts, model, columns)
            return None
        return self._estimator(model, columns)

    def _steps(self, steps: Sequence[Any], columns: Columns) -> Columns | None:
        seen: Columns | None = columns
        before: Columns | None = columns
        for step in steps:
            before = seen
            seen = self.through(step, seen if seen is not None else [])
        self.seen_last = before
        return seen

    def _branches(self, model: Any, columns: Columns) -> Columns:
        """The columns of a column transformer, which knows the place of each part of its output."""
        found: Columns = []
        for name, step, chosen in model.transformers_:
            place = model.output_indices_.get(name, slice(0, 0))
            inputs = [columns[number] if number < len(columns) else None for number in _indices(model, name, chosen)]
            answer = self.through(step, inputs) or []
            found += [None] * (place.stop - len(found))
            if len(answer) == place.stop - place.start:
                found[place] = answer
        return found

    def _side_by_side(self, steps: Sequence[Any], columns: Columns) -> Columns | None:
        found: Columns = []
        for step in steps:
            answer = self.through(step, columns)
            width = width_of(step) if answer is None else len(answer)
            if width is None:
                # The places of the following columns are unknown; their steps are still visited.
                self._side_by_side(steps[steps.index(step) + 1 :], columns)
                return None
            found += answer if answer is not None else [None] * width
        return found

    def _estimator(self, model: Any, columns: Columns) -> Columns | None:
        self._parts += 1
        learn(self.facts, model, columns, f"{self._seed}/{self._parts}")
        if hasattr(model, "tree_"):
            add_trees(self.facts, [model], columns)
        elif hasattr(model, "_predictors"):
            # Categorical columns are encoded inside the model, and come first there.
            encoder = getattr(model, "_preprocessor", None)
            seen = columns if encoder is None else self.through(encoder, columns)
            add_histogram_trees(self.facts, model, seen or [])
        else:
            self._within(model, columns)
        return follow(model, columns) if hasattr(model, "transform") else None

    def _within(self, model: Any, columns: Columns) -> None:
        """Visit the estimators that a wrapper has fitted."""
        if hasattr(model, "get_support") and hasattr(model, "transform"):
            # A selector uses its estimator only where it answers with it, and then on the selected columns.
            if hasattr(model, "support_") and hasattr(model, "estimator_"):
                self.through(model.estimator_, follow(model, columns) or [])
            return
        # A model with several estimators also keeps an `estimator_`, which isn't fitted.
        for name in () if hasattr(model, "estimators_") else _ONE:
            if (inner := getattr(model, name, None)) is not None and hasattr(inner, "get_params"):
                self.through(inner, columns)
                return
        if type(model).__name__ == "FrozenEstimator":
            self.through(model.estimator, columns)
        for calibrated in getattr(model, "calibrated_classifiers_", ()):
            self.through(calibrated.estimator, columns)
        self._members(model, columns)
        if hasattr(model, "final_estimator_"):
            self.through(model.final_estimator_, self._stacked(model, columns))

    def _members(self, model: Any, columns: Columns) -> None:
        given = getattr(model, "estimators_", ())
        members = given.ravel().tolist() if isinstance(given, np.ndarray) else list(given)
        chosen = getattr(model, "estimators_features_", None)
        if chosen is not None and all(list(each) == list(range(len(columns))) for each in chosen):
            chosen = None
        if chosen is None and members and all(hasattr(each, "tree_") for each in members):
            add_trees(self.facts, members, columns)
            return
        chained = hasattr(model, "order_")
        for number, each in enumerate(members):
            seen = columns if chosen is None else [columns[int(at)] for at in chosen[number]]
            self.through(each, [*seen, *([None] * number)] if chained else seen)

    def _stacked(self, model: Any, columns: Columns) -> Columns:
        """The outputs of the other estimators, then the columns themselves where they are passed on."""
        width = getattr(model.final_estimator_, "n_features_in_", 0)
        passed = columns if getattr(model, "passthrough", False) else []
        return [*([None] * max(0, width - len(passed))), *passed]


def _indices(model: Any, name: str, chosen: Any) -> list[int]:
    """The positions of a branch's columns, after the model has resolved names, masks, slices and callables."""
    resolved = getattr(model, "_transformer_to_input_indices", {}).get(name)
    if resolved is not None:
        return [int(number) for number in np.ravel(resolved)]
    if isinstance(chosen, slice):
        return list(range(model.n_features_in_))[chosen]
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    names = list(getattr(model, "feature_names_in_", ()))
    if listed and all(isinstance(each, bool | np.bool_) for each in listed):
        return np.flatnonzero(listed).tolist()
    return [names.index(each) if isinstance(each, str) else int(each) for each in listed]
