"""The locale that an .onnx asks for, where it turns texts into lower case.

skl2onnx writes none. ONNX Runtime then takes en_US.UTF-8, and refuses the file on machines that lack it, such as slim
images. C.UTF-8 is a part of glibc. For each character of Unicode, both give the same lower case.
"""

from __future__ import annotations

import locale
from collections.abc import Callable, Iterable
from typing import Any

DEFAULT = "en_US.UTF-8"
"""What ONNX Runtime takes if the file names no locale."""
INSTEAD = "C.UTF-8"
"""What a file can name instead."""


def is_there(name: str) -> bool:
    """Whether this machine has the locale."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_ALL, before)
    return True


def locale_options(kinds: Iterable[str], there: Callable[[str], bool] = is_there) -> tuple[dict[str, Any], str]:
    """`convert` for these classes of vectorizers, and why; empty where the default does."""
    named = dict.fromkeys(kinds)
    if not named or there(DEFAULT) or not there(INSTEAD):
        return {}, ""
    note = (
        f"this machine lacks the locale {DEFAULT}, which a converted vectorizer asks for. The .onnx asks for {INSTEAD} "
        "instead, which gives the same lower case. Use this option wherever you convert the model"
    )
    return {"options": {name: {"locale": INSTEAD} for name in named}}, note
