"""Options by which a provider computes with less precision than the model says, and how to turn each off."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_gate.providers import provider_info


def fast_options(provider: str, options: Mapping[str, str]) -> dict[str, str]:
    """Those in force that compute with less precision, with their values."""
    given = ((option, options.get(option.name, option.default)) for option in provider_info(provider).fast)
    return {option.name: value for option, value in given if option.precise(value) != value}


def precise_options(provider: str, options: Mapping[str, str]) -> dict[str, str]:
    """The same options in full precision, those alone that have to change."""
    fast = fast_options(provider, options)
    return {
        option.name: option.precise(fast[option.name]) for option in provider_info(provider).fast if option.name in fast
    }
