"""What a run did not compare, in a few words: a pass doesn't cover it, so every report names it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from onnx_gate.vocabulary import Status
from onnx_gate.wording.hints import first
from onnx_gate.wording.numbers import plural
from onnx_gate.wording.text import LONGEST_NAME, one_line, shorten

if TYPE_CHECKING:
    # The console uses this module before there is a result, so that a wrong manifest is reported at once.
    from onnx_gate.records.result import GateResult, ModelResult

ITSELF = "compared with itself only"
"""The words for a model with a weak reference."""
WHY_ITSELF = "no outputs are recorded, so this finds faults of the runtime, not of the conversion"
_FEW = 3
_LONGEST_WORD = 20


def gaps(models: Sequence[ModelResult]) -> Iterator[str]:
    """For the headline: `1 of 2 models was not compared`, then what was not compared in the other models."""
    judged = [model for model in models if model.verdict is not Status.SKIPPED]
    # If nothing was compared at all, the verdict says so.
    if judged and (count := len(models) - len(judged)):
        yield _count(count, len(models), "not compared")
    skipped = Counter(word for model in judged for word in dict.fromkeys(map(_word, skipped_providers(model))))
    yield from (f"{word} was skipped for {plural(count, 'model')}" for word, count in skipped.most_common(_FEW))
    if (more := len(skipped) - _FEW) > 0:
        yield f"{plural(more, 'more provider')} skipped"
    if weak := sum(is_weak_pass(model) for model in judged):
        yield _count(weak, len(models), ITSELF if weak == 1 else "compared with themselves only")
    if ignoring := sum(any(model.ignored.values()) for model in judged):
        yield f"outputs of {plural(ignoring, 'model')} are ignored"


def not_asked(result: GateResult) -> tuple[dict[str, int], list[str]]:
    """What the manifest asks for and the call didn't: the number of models by provider, and the models left out."""
    if result.scope is None:
        return {}, []
    here, asked = {model.id for model in result.models}, result.scope.providers
    left = (name for model in result.scope.models if model.id in here and asked for name in model.providers)
    return dict(Counter(name for name in left if name not in asked)), [
        model.id for model in result.scope.models if not model.shard
    ]


def of_call(result: GateResult) -> Iterator[str]:
    """What the call didn't ask for, for the headline: `cuda was not asked for`."""
    providers, models = not_asked(result)
    words = dict.fromkeys(map(_word, providers))
    yield from (f"{word} was not asked for" for word in list(words)[:_FEW])
    if models:
        yield f"{plural(len(models), 'model')} {'was' if len(models) == 1 else 'were'} not asked for"


def of_model(model: ModelResult) -> Iterator[str]:
    """What was not compared of one model, for its row."""
    if model.verdict is Status.SKIPPED:
        yield "not compared"
        return
    if skipped := skipped_providers(model):
        yield f"{few(skipped)} not compared"
    if ignored := dict.fromkeys(name for names in model.ignored.values() for name in names):
        yield f"{few(ignored)} ignored"
    if model.weak_reference:
        yield ITSELF


def skipped_providers(model: ModelResult) -> list[str]:
    """The providers on which the model should have run and did not."""
    skipped = (check.provider for check in model.checks if check.status is Status.SKIPPED)
    return [name for name in dict.fromkeys(skipped) if name]


def is_weak_pass(model: ModelResult) -> bool:
    """Whether the model passed, but its reference was the same file."""
    return model.weak_reference and model.verdict is Status.PASSED


def few(names: Iterable[str]) -> str:
    """`a, b, c and 2 more`, in one line."""
    return first((shorten(one_line(name), LONGEST_NAME) for name in names), _FEW)


def _count(count: int, total: int, what: str) -> str:
    return f"{count:,} of {plural(total, 'model')} {'was' if count == 1 else 'were'} {what}"


def _word(name: str) -> str:
    """A name for the headline, which is used in titles and logs: only a name that is a plain word is shown there."""
    return name if name.isascii() and name.isalnum() and len(name) <= _LONGEST_WORD else "another provider"
