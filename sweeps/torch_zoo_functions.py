"""Steps of forward passes between layers: distances, losses, indexing, sorting, algebra, control flow, outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from sweeps.torch_entry import bools, floats, function, ints

ROWS = floats("batch", 6)
STEPS = floats("batch", "seq", 6)
LABELS = ints("batch", below=6)
SQUARE = floats("batch", 4, 4)
LOOSER = {"tolerance": {"rtol": 1e-3, "atol": 1e-4}}

cosine_similarity = function("distance", lambda x, y: F.cosine_similarity(x, y, dim=-1), x=STEPS, y=STEPS)
pairwise_distance = function("distance", lambda x, y: F.pairwise_distance(x, y, p=2), x=STEPS, y=STEPS)
cdist = function(
    "distance", lambda x, y: torch.cdist(x, y), x=STEPS, y=floats("batch", "keys", 6), ends="unsupported-operator"
)

cross_entropy = function("loss", lambda x, y: F.cross_entropy(x, y), x=ROWS, y=LABELS)
cross_entropy_smooth = function(
    "loss",
    lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="none"),
    x=ROWS,
    y=LABELS,
    ends="operator",
    why="the exporter leaves label smoothing out",
)
nll_loss = function("loss", lambda x, y: F.nll_loss(F.log_softmax(x, 1), y, reduction="none"), x=ROWS, y=LABELS)
mse_loss = function("loss", F.mse_loss, x=STEPS, y=STEPS)
smooth_l1_loss = function("loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), x=STEPS, y=STEPS)
huber_loss = function("loss", lambda x, y: F.huber_loss(x, y, delta=0.5), x=STEPS, y=STEPS)
bce_with_logits = function(
    "loss", lambda x, y: F.binary_cross_entropy_with_logits(x, y), x=STEPS, y=floats("batch", "seq", 6, low=0, high=1)
)
kl_div = function(
    "loss",
    lambda x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"),
    x=STEPS,
    y=STEPS,
)
triplet_loss = function("loss", F.triplet_margin_loss, x=ROWS, y=ROWS, z=ROWS)
margin_ranking_loss = function("loss", lambda x, y: F.margin_ranking_loss(x, y, y.sign(), margin=0.3), x=ROWS, y=ROWS)
ctc_loss = function(
    "loss",
    lambda x, y: F.ctc_loss(x.log_softmax(-1), y, torch.full((y.shape[0],), 12), torch.full((y.shape[0],), 3)),
    x=floats(12, "rows", 6),
    y=ints("rows", 3, low=1, below=6),
    ends="conversion-failed",
    why="the size of ctc_loss's inner tensors depends on the values of its inputs",
)

gather = function("indexing", lambda x, y: x.gather(1, y), x=ROWS, y=ints("batch", "keys", below=6))
scatter = function("indexing", lambda x, y: x.scatter(1, y, 7.0), x=ROWS, y=ints("batch", 2, below=6))
scatter_add = function(
    "indexing", lambda x, y: torch.zeros(x.shape[0], 4).scatter_add(1, y, x), x=ROWS, y=ints("batch", 6, below=4)
)
scatter_reduce = function(
    "indexing", lambda x, y: x.scatter_reduce(1, y, x * 2, "amax"), x=ROWS, y=ints("batch", 6, below=6)
)
index_select = function("indexing", lambda x, y: x.index_select(1, y), x=ROWS, y=ints("keys", below=6))
index_add = function("indexing", lambda x, y: torch.zeros(5, 6).index_add(0, y, x), x=ROWS, y=ints("batch", below=5))
index_put = function("indexing", lambda x, y: x.index_put((y,), torch.tensor(3.0)), x=ROWS, y=ints(2, below=1))
index_rows = function("indexing", lambda x: x[torch.arange(x.shape[0]), x.argmax(1)], x=ROWS)
take_along = function(
    "indexing",
    lambda x: torch.take_along_dim(x, x.argsort(dim=-1), dim=-1),
    x=STEPS,
    ends="batch-baked",
    why="torch.export turns the sizes of the example into a constant",
)
slices = function("indexing", lambda x: (x[:, -1], x[..., 1:5:2], x[:, None, ..., 0]), x=STEPS)
flip_and_roll = function("indexing", lambda x: x.flip(1).roll(2, dims=-1), x=STEPS)
slice_assign = function("indexing", lambda x: _assign(x), x=STEPS)
masked_select = function("indexing", lambda x: x[x > 0], x=STEPS)
nonzero = function("indexing", lambda x: x.nonzero(), x=bools("batch", "seq"))

sort = function("sorting", lambda x: x.sort(dim=-1, descending=True), x=STEPS)
argsort = function("sorting", lambda x: x.argsort(dim=1), x=STEPS)
topk = function("sorting", lambda x: x.topk(3, dim=-1), x=STEPS)
argmax = function("sorting", lambda x: (x.argmax(-1), x.argmin(1, keepdim=True)), x=STEPS)
cumsum = function("sorting", lambda x: x.cumsum(1), x=STEPS)
cumprod = function("sorting", lambda x: x.cumprod(-1), x=STEPS, ends="unsupported-operator")
cummax = function("sorting", lambda x: x.cummax(-1), x=STEPS, ends="unsupported-operator")
median = function("sorting", lambda x: x.median(-1), x=STEPS, ends="unsupported-operator")
kthvalue = function("sorting", lambda x: x.kthvalue(2, dim=-1), x=STEPS, ends="unsupported-operator")
quantile = function("sorting", lambda x: torch.quantile(x, 0.3, dim=-1), x=STEPS)
searchsorted = function(
    "sorting", lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x), x=STEPS, ends="unsupported-operator"
)
bucketize = function("sorting", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), x=STEPS)
unique = function("sorting", lambda x: torch.unique(x), x=ints("batch", "seq", below=50))

where = function("selection", lambda x, y: torch.where(x > 0, x, y), x=STEPS, y=STEPS)
masked_fill = function("selection", lambda x, y: x.masked_fill(y, -3.0), x=STEPS, y=bools("batch", "seq", 6))
clamp = function("selection", lambda x, y: x.clamp(-0.5, 1.0).clamp(min=y), x=STEPS, y=STEPS)
tril = function("selection", lambda x: x.tril(1) - x.triu(-1), x=floats("batch", "seq", "keys"))
nan_to_num = function("selection", lambda x: torch.nan_to_num(torch.log(x), nan=0.5, neginf=-9.0), x=STEPS)

matmul = function("algebra", lambda x, y: x @ y.transpose(1, 2), x=STEPS, y=floats("batch", "keys", 6))
einsum = function("algebra", lambda x, y: torch.einsum("bsi,bki->bsk", x, y), x=STEPS, y=floats("batch", "keys", 6))
einsum_diagonal = function("algebra", lambda x: torch.einsum("bii->bi", x), x=SQUARE)
baddbmm = function(
    "algebra",
    lambda x, y, z: torch.baddbmm(x, y, z, beta=0.5),
    x=SQUARE,
    y=floats("batch", 4, "keys"),
    z=floats("batch", "keys", 4),
)
tensordot = function("algebra", lambda x: torch.tensordot(x, torch.eye(6)[:, :3] + 0.1, dims=1), x=STEPS)
kron = function(
    "algebra",
    lambda x, y: torch.kron(x, y),
    x=floats("batch", 2),
    y=floats("keys", 3),
    ends="batch-baked",
    why="torch.export turns the sizes of the example into a constant",
)
cross = function(
    "algebra", lambda x, y: torch.linalg.cross(x, y), x=floats("batch", "seq", 3), y=floats("batch", "seq", 3)
)
covariance = function(
    "algebra",
    lambda x: torch.cov(x.T),
    x=ROWS,
    batches=(2, 5, 9),
    ends="conversion-failed",
    why="torch.cov looks at the values of its weights",
)

fft_abs = function("fft", lambda x: torch.fft.fft(x).abs(), x=floats("batch", "time"))
rfft_parts = function("fft", lambda x: torch.view_as_real(torch.fft.rfft(x)), x=floats("batch", "time"), keys=LOOSER)
irfft = function("fft", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=16), x=floats("batch", 16))
fft2_abs = function("fft", lambda x: torch.fft.fft2(x).abs(), x=floats("batch", "height", "width"))
stft = function(
    "fft",
    lambda x: torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True).abs(),
    x=floats("batch", "samples"),
)

inverse = function("linalg", lambda x: torch.linalg.inv(x + 4 * torch.eye(4)), x=SQUARE, ends="unsupported-operator")
determinant = function("linalg", lambda x: torch.linalg.det(x), x=SQUARE)
cholesky = function(
    "linalg", lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4)), x=SQUARE, ends="unsupported-operator"
)
solve = function(
    "linalg",
    lambda x, y: torch.linalg.solve(x + 4 * torch.eye(4), y),
    x=SQUARE,
    y=floats("batch", 4, 2),
    ends="unsupported-operator",
)
singular_values = function("linalg", lambda x: torch.linalg.svdvals(x), x=SQUARE, ends="unsupported-operator")
qr = function("linalg", lambda x: torch.linalg.qr(x)[1].abs(), x=SQUARE, ends="unsupported-operator")
eigenvalues = function("linalg", lambda x: torch.linalg.eigvalsh(x + x.mT), x=SQUARE, ends="unsupported-operator")
norms = function("linalg", lambda x: (x.norm(dim=-1), torch.linalg.vector_norm(x, ord=3, dim=1)), x=STEPS)
matrix_power = function("linalg", lambda x: torch.linalg.matrix_power(x, 3), x=SQUARE)
diagonal = function("linalg", lambda x: (x.diagonal(dim1=1, dim2=2), torch.diag_embed(x[:, 0])), x=SQUARE)

variance = function("reduction", lambda x: (x.var(-1), x.std(dim=(0, 2), correction=0)), x=STEPS)
log_sum_exp = function("reduction", lambda x: x.logsumexp(dim=-1), x=STEPS)
extremes = function("reduction", lambda x: (x.amax(1), x.min(dim=-1), x.prod(-1)), x=STEPS)
any_and_all = function("reduction", lambda x: (x.any(1), x.all(-1)), x=bools("batch", "seq"))
count_nonzero = function("reduction", lambda x: torch.count_nonzero(x > 0, dim=1), x=STEPS)

join_and_split = function(
    "shape", lambda x, y: torch.split(torch.cat([x, y], 1), [2, 3, 1], dim=2), x=STEPS, y=floats("batch", "keys", 6)
)
stack_and_permute = function(
    "shape", lambda x: torch.stack([x, x * 2], 1).permute(0, 3, 2, 1).reshape(x.shape[0], -1), x=STEPS
)
repeats = function(
    "shape", lambda x: (x.repeat(1, 2, 1), x.repeat_interleave(2, dim=1), x[:, :1].expand_as(x)), x=STEPS
)
mesh = function("shape", lambda x: torch.stack(torch.meshgrid(x[:, 0], x[0], indexing="ij")), x=ROWS)
windows = function("shape", lambda x: x.unfold(1, 4, 2), x=floats("batch", "time", 2))
positions = function("shape", lambda x: x + torch.arange(x.shape[1], dtype=x.dtype)[None, :, None], x=STEPS)

special = function("arithmetic", lambda x: (x.erf(), torch.sinc(x), torch.special.xlogy(x, x.abs())), x=STEPS)
log_gamma = function("arithmetic", lambda x: torch.lgamma(x.abs() + 1), x=STEPS, ends="unsupported-operator")
trigonometry = function(
    "arithmetic", lambda x, y: (x.sin(), torch.atan2(x, y), x.clamp(-0.9, 0.9).asin()), x=STEPS, y=STEPS
)
powers = function("arithmetic", lambda x: (x.abs().pow(0.3), x.pow(3), x.exp().rsqrt(), 2.0**x), x=STEPS)
rounding = function(
    "arithmetic", lambda x: (x.round(), x.floor(), x.trunc(), x.frac()), x=floats("batch", "seq", 6, low=-5, high=5)
)
remainders = function(
    "arithmetic",
    lambda x, y: (x % y, torch.fmod(x, y), x // y),
    x=ints("batch", "seq", low=-20, below=20),
    y=ints("batch", "seq", low=1, below=7),
)
bits = function(
    "arithmetic",
    lambda x, y: (x & y, x ^ y, x | 1, x << 2),
    x=ints("batch", "seq", below=99),
    y=ints("batch", "seq", below=99),
)
complex_product = function(
    "arithmetic",
    lambda x: torch.view_as_real(torch.view_as_complex(x) ** 2),
    x=floats("batch", "seq", 2),
    ends="unsupported-operator",
)

half = function("dtype", lambda x: x * 2 + 1, x=floats("batch", "seq", 6, dtype="float16"))
double = function("dtype", lambda x: x.exp().sum(-1), x=floats("batch", "seq", 6, dtype="float64"))
small_integers = function("dtype", lambda x: x + 3, x=ints("batch", "seq", below=9, dtype="int32"))
bytes_to_floats = function(
    "dtype", lambda x: x.float() / 255, x=ints("batch", 3, "height", "width", below=256, dtype="uint8")
)
casts = function(
    "dtype", lambda x: (x.long(), x.bool(), x.half(), x.to(torch.int32)), x=floats("batch", "seq", 6, low=-9, high=9)
)

cond = function("control flow", lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), x=STEPS)
nested_cond = function(
    "control flow",
    lambda x: torch.cond(
        x.mean() > 0,
        lambda x: torch.cond(x.max() > 2, lambda x: x * 3, lambda x: x * 2, (x,)),
        lambda x: x.cos(),
        (x,),
    ),
    x=STEPS,
)
while_loop = function(
    "control flow",
    lambda x: _while_loop(x),
    x=STEPS,
)
scan = function("control flow", lambda x: _scan(x), x=STEPS)
branch_on_values = function(
    "control flow",
    lambda x: x * 2 if x.sum() > 0 else x - 1,
    x=STEPS,
    ends="conversion-failed",
    why="forward() branches on a tensor's values",
)

dict_of_tuples = function("outputs", lambda x: {"logits": x * 2, "aux": (x.sum(1), {"mean": x.mean(1)})}, x=STEPS)
none_among_outputs = function("outputs", lambda x: (x * 2, None, [x.sum(-1), None]), x=STEPS)
same_output_twice = function("outputs", lambda x: {"first": (y := x * 2), "again": y}, x=STEPS)
input_as_output = function("outputs", lambda x: {"given": x, "twice": x * 2}, x=STEPS)
constant_output = function("outputs", lambda x: (x.exp(), torch.arange(1.0, 5.0)), x=STEPS)
scalar_output = function("outputs", lambda x: {"total": x.sum(), "size": x.shape[1] * x.mean()}, x=STEPS)


def _assign(x: Any) -> Any:
    x = x.clone()
    x[:, 0] = 1.5
    x[..., 2:4] *= 2
    return x


def _while_loop(x: Any) -> Any:
    # torch has no type annotations for it.
    loop: Any = torch.while_loop
    return loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + 0.1), (torch.tensor(0), x))[1]


def _scan(x: Any) -> Any:
    from torch._higher_order_ops.scan import scan as run_scan

    return run_scan(lambda carried, step: (carried * 0.5 + step, carried * 2), torch.zeros(x.shape[0], 6), x, dim=1)[1]
