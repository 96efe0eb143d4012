"""All frameworks, in the order in which they are listed; all other data per framework is derived from this table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onnx_gate.frameworks import boosters, keras, onnx, sklearn, tensorflow, torch
from onnx_gate.frameworks.info import FrameworkInfo, ManifestKey, Option, Terms

REGISTRY: Mapping[str, FrameworkInfo] = {
    "sklearn": sklearn.INFO,
    "torch": torch.INFO,
    "tensorflow": tensorflow.INFO,
    "keras": keras.INFO,
    "onnx": onnx.INFO,
    "lightgbm": boosters.LIGHTGBM,
    "xgboost": boosters.XGBOOST,
    "catboost": boosters.CATBOOST,
}


def suffixes() -> dict[str, str]:
    """File suffix → the framework that reads it."""
    return {suffix: name for name, info in REGISTRY.items() for suffix in info.suffixes}


def framework_of_folder(folder: Path) -> str | None:
    """The framework whose source this folder is; None where no framework matches."""
    return next((name for name, info in REGISTRY.items() if info.is_source_folder(folder)), None)


def framework_of_package(package: str) -> FrameworkInfo | None:
    """The framework with this import name."""
    return next((info for info in REGISTRY.values() if info.package == package), None)


def buildable() -> list[str]:
    """The frameworks whose models a factory may build."""
    return [name for name, info in REGISTRY.items() if info.factories]


def with_key(key: ManifestKey) -> list[str]:
    """The frameworks that use a key of the manifest."""
    return [name for name, info in REGISTRY.items() if key in info.keys]


def describe_key(key: ManifestKey) -> str:
    """The effect of a key of the manifest, in the words of the frameworks that use it."""
    return "; ".join(dict.fromkeys(info.keys[key] for info in REGISTRY.values() if key in info.keys))


def convert_options() -> dict[str, Option]:
    """Every convert option, by name."""
    return {option.name: option for info in REGISTRY.values() for option in info.convert}


def takes_option(framework: str | None, option: str) -> bool:
    """Whether a framework's converter takes an option; an unknown framework takes no option."""
    info = REGISTRY.get(framework or "")
    return info is not None and any(each.name == option for each in info.convert)


def has_key(framework: str | None, key: ManifestKey) -> bool:
    """Whether a framework uses a key of the manifest; an unknown framework uses none."""
    info = REGISTRY.get(framework or "")
    return info is not None and key in info.keys


def terms_of(framework: str | None) -> Terms:
    """The words of a framework's users; of an unknown one, plain words."""
    info = REGISTRY.get(framework or "")
    return info.terms if info else Terms()


def packages() -> dict[str, tuple[str, ...]]:
    """Import name → distributions, for all packages that any framework needs."""
    return {name: brought for info in REGISTRY.values() for name, brought in info.packages.items()}


def code_forms() -> list[str]:
    """The kinds of file that run their own code when they are loaded."""
    return [form for info in REGISTRY.values() for form in info.code_forms]


def worker_variables() -> list[str]:
    """The environment variables that frameworks need, as regular expressions."""
    return [pattern for info in REGISTRY.values() for pattern in info.variables]


def scope_keys() -> list[str]:
    """The metadata keys under which exporters list the modules that a node comes from."""
    return [info.scopes for info in REGISTRY.values() if info.scopes]


def trace_keys() -> list[str]:
    """The metadata keys under which exporters keep the stack trace that a node comes from."""
    return [info.traces for info in REGISTRY.values() if info.traces]
