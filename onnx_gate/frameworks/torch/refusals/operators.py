"""Operators of torch that no exporter translates, and what to write instead of them."""

from __future__ import annotations

import contextlib
from typing import Any

from onnx_gate.frameworks.torch.refusals.idiom import TORCH, Idiom

_OF_WEIGHTS = (
    "ONNX has no operator for it. If it depends on weights alone, compute it in __init__ and keep the result with "
    "self.register_buffer(…). If it depends on the inputs, compute it outside of the model and make the result an input"
)
_COUNTED = "write `(boundaries < x.unsqueeze(-1)).sum(-1)`, with <= for right=True"
_INSTEAD = {
    "sort.stable": "write `torch.sort(x, dim=dim)`, without stable=True and in the place of NumPy's sort",
    "median.default": "write `torch.sort(x.flatten()).values[(x.numel() - 1) // 2]`",
    "median.dim": "write `torch.sort(x, dim=dim).values.select(dim, (x.shape[dim] - 1) // 2)`",
    "kthvalue": "write `torch.topk(x, k, dim=dim, largest=False).values.select(dim, k - 1)`",
    "searchsorted": _COUNTED,
    "bucketize": _COUNTED,
    "hypot": "write `torch.sqrt(a * a + b * b)`",
    "copysign": "write `torch.where(b < 0, -a.abs(), a.abs())`",
    "_cdist_forward": "write `(a.unsqueeze(-2) - b.unsqueeze(-3)).pow(2).sum(-1).sqrt()`",
    "cumprod": "for a fixed length n, write `torch.stack([x[..., : i + 1].prod(-1) for i in range(n)], -1)`",
    "masked_select": "write `x[mask]`",
    **dict.fromkeys(
        (
            *("linalg_eig", "_linalg_eigh", "_linalg_eigvals", "_linalg_svd", "linalg_qr", "linalg_inv_ex"),
            *("_linalg_solve_ex", "linalg_cholesky_ex", "cholesky", "linalg_lu", "linalg_lu_factor_ex"),
            *("linalg_ldl_factor_ex", "triangular_solve", "linalg_solve_triangular", "linalg_lstsq"),
            *("linalg_matrix_exp", "linalg_householder_product", "geqrf", "lu_unpack"),
        ),
        _OF_WEIGHTS,
    ),
}
"""Operator of aten, with its overload where that matters → advice."""
_REGISTER = (
    "translate it yourself: `register: file.py:callable`, where the function returns {{{target}: onnxscript function}}"
)


_SCRIPT_NAME = "{}::{}"
"""The name of an operator in TorchScript."""


def way_out(node: Any, name: str, opset: int | None = None, idiom: Idiom = TORCH) -> str:
    """The nearest supported replacement for an untranslated operator; `node` is its place in the program, if known."""
    target = node.target if node is not None else None
    full = str(target) if target is not None else ".".join(part for part in name.split(":") if part)
    short = full.removeprefix("aten.")
    known = _INSTEAD.get(short) or _INSTEAD.get(short.partition(".")[0])
    ways = [known] if known else []
    if target is not None and not known and _script_knows(full, opset):
        ways.append("set `convert: {exporter: torchscript}`, which translates it")
    if not ways:
        ways.append(f"replace it in {idiom.method} by operators that are translated")
    register = _REGISTER.format(target=f"torch.ops.{full}")
    return "; or ".join([*ways, register])


def _script_knows(full: str, opset: int | None) -> bool:
    """Whether the TorchScript exporter has a translation."""
    namespace, _, rest = full.partition(".")
    with contextlib.suppress(Exception):
        from torch.onnx._internal.torchscript_exporter.registration import registry

        return bool(registry.is_registered_op(_SCRIPT_NAME.format(namespace, rest.partition(".")[0]), opset or 18))
    return False
