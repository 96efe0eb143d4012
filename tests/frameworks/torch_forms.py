"""PyTorch models of every form of input, output and state. Copied beside a manifest; never imported by a test."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import onnxscript
import torch
from torch import nn

if TYPE_CHECKING:
    # What onnxscript reads is no type.
    Floats = Any
else:
    Floats = onnxscript.FLOAT[...]


class Calls(nn.Module):
    """A function as a module, with a weight."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        torch.manual_seed(5)
        self.scale = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return self.function(x * self.scale)


class Nested(nn.Module):
    def forward(self, state, batch, mask=None):
        hidden, cell = state
        mixed = hidden * 2 + cell + batch["image"] - batch["more"]["deep"]
        return mixed if mask is None else mixed * mask


def nested():
    return Nested()


class Listed(nn.Module):
    def forward(self, parts: list[torch.Tensor]):
        assert isinstance(parts, list)
        return torch.cat(parts, dim=1)


def listed():
    return Listed()


@dataclasses.dataclass
class Batch:
    image: torch.Tensor
    weight: Optional[torch.Tensor] = None  # noqa: UP045


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Typed(nn.Module):
    def forward(self, batch: Batch, pair: Pair | None = None):
        assert batch.weight is not None
        assert pair is not None
        return Batch(image=batch.image * batch.weight + pair.left - pair.right)


def typed():
    return Typed()


class KeywordOnly(nn.Module):
    def forward(self, x, *, bias, gain=None):
        return x + bias if gain is None else x * gain + bias


def keyword_only():
    return KeywordOnly()


def result():
    """Every kind of container, and None in between."""

    def build(x):
        # Containers, where tensors are declared.
        nest = {"pair": Pair(x, [x * 2, None, (x * 3,)]), "none": None}  # type: ignore[arg-type]
        return Batch(image=nest, weight=x.mean())  # type: ignore[arg-type]

    return Calls(build)


def scalars():
    return Calls(lambda x: {"mean": x.mean(), "any": (x > 0).any(), "count": (x > 0).sum(), "row": x[0]})


def twice():
    """The same tensor under two names, and the input itself."""

    def build(x):
        y = x * 2
        return y, y, x

    return Calls(build)


class Same(nn.Module):
    def forward(self, x):
        return {"same": x, "other": x}


def same():
    return Same()


def clashing_keys():
    return Calls(lambda x: {"a.b": x, "a": {"b": x * 2}})


def nothing():
    return Calls(lambda x: {"a": None})


def complex_output():
    return Calls(lambda x: torch.complex(x, x))


def sparse_output():
    return Calls(lambda x: x.to_sparse())


class Arithmetic(nn.Module):
    """Whole numbers, bools and floats of every width."""

    def forward(self, i8, u8, i32, b, f16, f64):
        return {
            "ints": i8.to(torch.int32) + u8 + i32,
            "bools": b & (i32 > 3),
            "half": f16 * 2,
            "double": f64 / 3,
        }


def arithmetic():
    return Arithmetic()


class Brain(nn.Module):
    """bfloat16 in and out, computed in float32: the CPU provider has no bfloat16 arithmetic."""

    def forward(self, x):
        return (x.float() * 3 + 1).to(torch.bfloat16)


def brain():
    return Brain()


def net():
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def half():
    return net().half()


def bfloat16():
    return net().bfloat16()


def double():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()


def double_erf():
    return net().double()


class Quantisable(nn.Module):
    """Between stubs, as torch.ao wants it."""

    def __init__(self):
        super().__init__()
        import torch.ao.quantization

        self.into, self.out = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.out(self.layers(self.into(x)))


def statically_quantised():
    import torch.ao.quantization

    torch.backends.quantized.engine = next(e for e in torch.backends.quantized.supported_engines if e != "none")
    model = Quantisable().eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig(torch.backends.quantized.engine)
    prepared = torch.ao.quantization.prepare(model)
    prepared(torch.randn(64, 4))
    return torch.ao.quantization.convert(prepared)


def quantised():
    import torch.ao.quantization

    return torch.ao.quantization.quantize_dynamic(net().eval(), {nn.Linear}, dtype=torch.qint8)


class Blocks(nn.Module):
    """Takes multiples of 8 only."""

    def forward(self, x):
        return x.reshape(x.shape[0], -1, 8).sum(dim=2)


def blocks():
    return Blocks()


class Positions(nn.Module):
    """Has 32 positions, and so takes at most 32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.table = nn.Parameter(torch.rand(32, 4))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


def positions():
    return Positions()


class ByLength(nn.Module):
    """Computes otherwise above 20."""

    def forward(self, x):
        return x * 2 if x.shape[1] > 20 else x - 1


def by_length():
    return ByLength()


class Counter(nn.Module):
    calls: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.calls


def counting_buffer():
    return Counter()


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(4)

    def forward(self, x):
        y = x + self.last
        self.last = x.mean(dim=0)
        return y


def remembering():
    return nn.Sequential(Remembers())


class Harmless(nn.Module):
    """Counts its calls, and answers the same."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 2


def harmless():
    return Harmless()


class Restless(nn.Module):
    """Puts its normalisation into training mode in each call."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        self.norm.train()
        return self.norm(x)


def restless():
    return Restless()


class AlwaysDropped(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5)


def always_dropped():
    return AlwaysDropped()


def normal_noise():
    return Calls(lambda x: x + torch.randn_like(x))


def coin():
    return Calls(lambda x: torch.bernoulli(torch.sigmoid(x)))


class Script(nn.Module):
    """Branches on values, which a script keeps."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.linear = nn.Linear(4, 4)

    def forward(
        self,
        state: tuple[torch.Tensor, torch.Tensor],
        batch: dict[str, torch.Tensor],
        mask: Optional[torch.Tensor] = None,  # noqa: UP045
    ):
        hidden, cell = state
        mixed = self.linear(hidden) + cell + batch["image"]
        if mask is not None:
            mixed = mixed * mask
        mixed = mixed * 2 if bool(mixed.sum() > 0) else mixed - 1
        return {"mixed": mixed, "double": hidden * 2}, cell + 1


class TwoTensors(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.linear = nn.Linear(4, 3)

    def forward(self, x, y):
        return {"a": self.linear(x), "b": x + y}


class Program(nn.Module):
    def forward(self, state, batch, scale=None):
        return {"out": state[0] + state[1] * batch["image"], "scaled": None if scale is None else scale * 2}


def scripted():
    return torch.jit.script(net().eval())


def custom():
    return Calls(torch.ops.gate_forms.double_plus_one)


def undeclared():
    return Calls(torch.ops.gate_forms.undeclared)


def untranslated():
    return Calls(torch.ops.gate_forms.untranslated)


def register():
    opset = onnxscript.opset18

    @torch.library.custom_op("gate_forms::double_plus_one", mutates_args=())
    def double_plus_one(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    @double_plus_one.register_fake
    def _(x):
        return torch.empty_like(x)

    @torch.library.custom_op("gate_forms::untranslated", mutates_args=())
    def untranslated(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @untranslated.register_fake
    def _(x):
        return torch.empty_like(x)

    @torch.library.custom_op("gate_forms::undeclared", mutates_args=())
    def undeclared_op(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @undeclared_op.register_fake
    def _(x):
        return torch.empty_like(x)

    @onnxscript.script()
    def translated(x: Floats) -> Floats:
        return opset.Add(opset.Mul(x, 2.0), 1.0)

    @onnxscript.script()
    def undeclared(x):
        return opset.Mul(x, 2.0)

    return {
        torch.ops.gate_forms.double_plus_one.default: translated,
        torch.ops.gate_forms.undeclared.default: undeclared,
    }


def register_nothing():
    return 3


def no_operator():
    return Calls(lambda x: torch.linalg.eigvalsh(x.unsqueeze(2) @ x.unsqueeze(1)))
