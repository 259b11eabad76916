"""What `eager_functions.py` measures: expressions of `m`, which is jitgrad or PyTorch, and layers made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SMALL: dict[str, tuple[str, ...]] = {
    "views": (
        "A.view(5, 2)", "A.view(-1)", "A.reshape(10)", "A.reshape(5, -1)", "m.reshape(A, (5, 2))", "A.flatten()",
        "x.unflatten(0, (2, 5))", "A.transpose(0, 1)", "A.t()", "A.T", "A.mT", "A.permute(1, 0)", "T.permute(2, 0, 1)",
        "m.movedim(T, 0, 2)", "s.expand(10)", "one.expand(10)", "A.unsqueeze(1).expand(2, 3, 5)", "x.expand_as(x)",
        "m.broadcast_to(x, (2, 10))", "A.select(0, 1)", "x.narrow(0, 2, 3)", "x.unsqueeze(0)", "x.unsqueeze(-1)",
        "one.squeeze()", "one.squeeze(0)", "A.unbind(0)", "A.unbind(1)", "x.split(5)", "x.split([3, 7])", "x.chunk(2)",
        "m.tensor_split(x, 2)", "A.diagonal()", "x.unfold(0, 3, 2)", "A.view_as(A)", "x.detach()", "x.view(m.int32)",
        "x.as_strided((2, 2), (1, 2))", "x.contiguous()", "A.ravel()", "m.atleast_2d(x)", "m.swapaxes(A, 0, 1)",
    ),
    "indexing": (
        "x[0]", "x[-1]", "x[2:5]", "x[::2]", "A[0]", "A[1, 2]", "A[:, 1]", "A[0, 1:3]", "x[None]", "A[..., 0]", "x[i]",
        "x[b]", "A[M]", "A[r]", "A[:, [0, 1]]", "x[...]",
    ),
    "writes": (
        "z.__setitem__(0, 1.0)", "z.__setitem__(slice(2, 5), 0.0)", "Z.__setitem__(0, one)", "z.__setitem__(b, 0.0)",
        "z.__setitem__(i, 0.5)", "z.fill_(0.5)", "z.zero_()", "z.copy_(x)", "z.add_(0.0)", "z.add_(y, alpha=0.0)",
        "z.mul_(1.0)", "z.clamp_(0.0, 1.0)", "z.sub_(0.0)", "z.div_(1.0)", "z.normal_()", "z.uniform_()",
        "z.addcmul_(x, y)", "z.masked_fill_(b, 0.5)", "z.index_fill_(0, i, 0.5)", "z.index_add_(0, i, y)",
        "z.scatter_(0, i, y)", "z.lerp_(x, 0.5)", "z.relu_()",
    ),
    "creation": (
        "m.zeros(10)", "m.ones(2, 5)", "m.empty(10)", "m.full((10,), 0.5)", "m.zeros_like(x)", "m.ones_like(x)",
        "m.full_like(x, 2.0)", "m.empty_like(x)", "x.new_zeros(10)", "m.arange(10)", "m.arange(0.0, 1.0, 0.1)",
        "m.linspace(0, 1, 10)", "m.logspace(0, 1, 10)", "m.eye(3)", "m.tensor(0.5)", "m.tensor([0.1, 0.2, 0.3])",
        "m.tensor([[1, 2], [3, 4]])", "m.zeros(10, dtype=m.int64)", "m.tril_indices(3, 3)", "m.hann_window(10)",
        "m.rand(10)", "m.randn(10)", "m.randn(2, 5)", "m.randint(5, (10,))", "m.randint(0, 5, (10,))", "m.randperm(10)",
        "m.rand_like(x)", "m.randn_like(x)", "m.bernoulli(x)", "m.multinomial(x, 3)", "m.normal(0.0, 1.0, (10,))",
        "m.poisson(x)", "m.full((10,), 0.5, dtype=m.float64)", "m.as_tensor(0.5)",
    ),
    "reading": (
        "one.item()", "s.item()", "x.tolist()", "A.shape", "A.size()", "A.size(0)", "A.dtype", "A.device", "A.ndim",
        "A.dim()", "A.numel()", "A.stride()", "A.is_contiguous()", "x.requires_grad", "x.is_leaf", "len(x)", "float(s)",
        "bool(s)", "x.numpy()", "x.data_ptr()", "m.is_tensor(x)", "m.equal(x, y)", "m.allclose(x, y)",
        "x.is_floating_point()", "x.grad", "int(s)", "x.element_size()", "x.storage_offset()",
    ),
    "conversions": (
        "x.clone()", "x.to(m.float64)", "x.to(m.float32)", "x.double()", "x.float()", "i.float()", "x.int()",
        "x.bool()", "x.half()", "x.bfloat16()", "b.float()", "x.type_as(i)", "x.to('cpu')", "x.cpu()",
    ),
    "arithmetic": (
        "x + y", "x - y", "x * y", "x / y", "x + 1", "x * 2.0", "1.0 - x", "2.0 / x", "x ** 2", "x ** 0.5", "x ** y",
        "2.0 ** x", "x // y", "x % y", "i + j", "i * 2", "i // 2", "i % 3", "i / 2", "x + i", "x * s", "s * 2",
        "A + A[0]", "-x", "m.add(x, y)", "m.add(x, y, alpha=2)", "m.mul(x, y)", "m.sub(x, y)", "m.div(x, y)",
        "m.pow(x, 2)", "x.add(y)", "x.mul(y)", "m.floor_divide(x, y)", "m.fmod(x, y)", "m.remainder(x, y)",
        "m.maximum(x, y)", "m.minimum(x, y)", "m.lerp(x, y, 0.5)", "m.addcmul(x, y, y)", "m.addcdiv(x, y, y)",
        "m.hypot(x, y)", "m.atan2(x, y)", "m.div(x, y, rounding_mode='floor')", "i & j", "i | j", "~b", "b & c",
        "b | c", "b ^ c", "i << 1",
    ),
    "unary": (
        "x.exp()", "x.log()", "x.sqrt()", "x.rsqrt()", "x.sin()", "x.cos()", "x.tanh()", "x.sigmoid()", "x.relu()",
        "x.abs()", "x.neg()", "x.square()", "x.reciprocal()", "x.floor()", "x.ceil()", "x.round()", "x.trunc()",
        "x.sign()", "x.erf()", "x.lgamma()", "x.digamma()", "x.log1p()", "x.expm1()", "x.log2()", "x.atan()",
        "x.asin()", "x.sinh()", "m.exp(x)", "m.sigmoid(x)", "x.isnan()", "x.isfinite()", "x.logical_not()",
        "x.nan_to_num()", "x.frac()", "x.logit()", "x.sinc()",
    ),
    "comparisons": (
        "x == y", "x != y", "x < y", "x <= 0.5", "x > y", "x >= 0.5", "i == 3", "i == j", "m.eq(x, y)", "m.gt(x, 0.5)",
        "m.isclose(x, y)", "m.logical_and(b, c)", "m.logical_or(b, c)", "m.where(b, x, y)", "m.where(b, x, 0.0)",
        "m.where(x > 0.5, x, y)", "x.clamp(0.2, 0.5)", "x.clamp(min=0.2)", "m.clamp(x, 0.2, 0.5)", "x.clip(0.2, 0.5)",
        "x.masked_fill(b, 0.0)", "x.masked_select(b)", "m.isin(i, j)", "b.nonzero()",
    ),
    "reductions": (
        "x.sum()", "x.mean()", "x.max()", "x.min()", "x.prod()", "x.std()", "x.var()", "x.norm()", "x.argmax()",
        "x.argmin()", "x.amax()", "x.all()", "b.any()", "A.sum(0)", "A.sum(1)", "A.sum(-1, keepdim=True)", "A.mean(0)",
        "A.mean(-1)", "A.max(1)", "A.min(0)", "A.argmax(1)", "A.amax(1)", "A.std(0)", "A.var(1)", "x.logsumexp(0)",
        "x.cumsum(0)", "x.cumprod(0)", "x.median()", "x.count_nonzero()", "i.sum()", "b.sum()", "x.aminmax()",
        "x.softmax(0)", "x.log_softmax(0)", "m.std_mean(x)", "m.linalg.norm(x)", "m.linalg.vector_norm(x)", "x.diff()",
        "i.bincount()", "x.quantile(0.5)", "x.histc(5)", "m.nansum(x)",
    ),
    "order": (
        "x.sort()", "x.argsort()", "x.topk(3)", "x.kthvalue(3)", "x.unique()", "m.searchsorted(y, x)",
        "m.bucketize(x, y)", "i.unique()", "x.sort(descending=True)", "x.mode()",
    ),
    "gathering": (
        "x.gather(0, i)", "A.gather(1, I)", "x.index_select(0, i)", "x.take(i)", "m.take_along_dim(A, I, 1)",
        "x.scatter(0, i, y)", "x.scatter_add(0, i, y)", "x.index_add(0, i, y)", "m.cat([x, y])", "m.cat((A, B), 1)",
        "m.stack([x, y])", "m.stack([x, y], 1)", "m.hstack([x, y])", "m.vstack([x, y])", "x.repeat(2)", "x.tile(2)",
        "x.repeat_interleave(2)", "x.flip(0)", "x.roll(1)", "A.tril()", "A.triu()", "m.diag(x)", "S.trace()",
        "x.outer(y)", "m.meshgrid(x, y, indexing='ij')", "m.cartesian_prod(one, x)", "F.one_hot(i, 5)",
    ),
    "products": (
        "x @ y", "x.dot(y)", "A @ B.t()", "A @ w", "m.mm(A, w)", "m.matmul(A, w)", "A.mv(w[0])", "m.bmm(T, T.mT)",
        "m.einsum('ij,kj->ik', A, B)", "m.addmm(A, A, w)", "m.tensordot(A, B, 2)", "m.inner(x, y)", "m.linalg.inv(S)",
        "m.linalg.det(S)", "m.linalg.solve(S, S)", "m.cdist(A, B)", "m.cross(A[:, :3], B[:, :3])", "m.kron(x, one)",
        "m.linalg.cholesky(S @ S.t())", "m.linalg.eigh(S)", "m.linalg.svd(S)",
    ),
    "layers": (
        "F.relu(x)", "F.gelu(x)", "F.silu(x)", "F.leaky_relu(x)", "F.elu(x)", "F.softplus(x)", "F.softmax(A, -1)",
        "F.log_softmax(A, -1)", "F.linear(A, w)", "F.layer_norm(A, (5,))", "F.mse_loss(x, y)", "F.l1_loss(x, y)",
        "F.cross_entropy(A, labels)", "F.nll_loss(A, labels)", "F.binary_cross_entropy(x, y)",
        "F.binary_cross_entropy_with_logits(x, y)", "F.smooth_l1_loss(x, y)", "F.kl_div(x, y)", "F.embedding(i, w)",
        "F.dropout(x, 0.5)", "F.dropout(x, 0.5, False)", "F.normalize(A)", "F.cosine_similarity(A, B)",
        "F.pad(x, (1, 1))", "F.conv2d(img, ker)", "F.max_pool2d(img, 2)", "F.avg_pool2d(img, 2)",
        "F.batch_norm(A, None, None, training=True)", "F.group_norm(img, 2)", "F.interpolate(img, scale_factor=2)",
        "F.scaled_dot_product_attention(T, T, T)", "F.hardtanh(x)", "F.sigmoid(x)", "F.tanh(x)", "F.unfold(img, 2)",
        "F.pairwise_distance(A, B)",
    ),
}  # fmt: skip

MEDIUM: tuple[str, ...] = (
    "x + y", "x * 2.0", "x / y", "x.exp()", "x.tanh()", "x.sigmoid()", "x.relu()", "F.gelu(x)", "x > 0.5",
    "m.where(b, x, y)", "x.clamp(0.2, 0.5)", "x.sqrt()", "x ** 2", "x + A.view(-1)[:1]", "A + A[0]", "A + A[:, :1]",
    "i + j", "x.to(m.float64)", "i.float()", "x.clone()", "z.copy_(x)", "z.add_(y)", "z.fill_(0.5)", "m.zeros(n)",
    "m.full((n,), 0.5)", "m.arange(n)", "m.rand(n)", "m.randn(n)", "m.randint(5, (n,))", "x.sum()", "x.mean()",
    "x.max()", "x.argmax()", "A.sum(0)", "A.sum(1)", "A.mean(0)", "A.mean(1)", "A.max(1)", "A.max(0)", "A.argmax(1)",
    "A.var(1)", "A.std(0)", "A.amax(0)", "x.norm()", "b.any()", "b.sum()", "F.softmax(A, -1)", "F.softmax(A, 0)",
    "F.log_softmax(A, -1)", "A.logsumexp(1)", "F.layer_norm(A, A.shape[-1:])", "m.cat([x, y])", "m.cat([A, B], 1)",
    "m.stack([x, y])", "m.stack([x, y], 1)", "A.t().contiguous()", "A.t() + B.t()", "A.t().reshape(-1)",
    "A.permute(1, 0).clone()", "x.flip(0)", "x.roll(1)", "x.repeat(2)", "A.tril()", "x[i]", "x[p]", "x[b]", "A[r]",
    "A.index_select(0, r)", "x.index_select(0, p)", "A.gather(1, I)", "A.scatter_add(1, I, B)", "x.masked_fill(b, 0.0)",
    "x.sort()", "A.sort(1)", "x.argsort()", "x.topk(10)", "A.topk(5, 1)", "x.cumsum(0)", "A.cumsum(1)", "A.cumsum(0)",
    "x.unique()", "i.unique()", "b.nonzero()", "m.searchsorted(x.sort()[0], y)", "i.bincount()", "x.median()", "A @ w",
    "A @ A.t()", "A.mv(w[:, 0])", "x @ y", "F.linear(A, w.t())", "F.conv2d(img, ker)", "F.conv2d(img, ker, padding=1)",
    "F.max_pool2d(img, 2)", "F.avg_pool2d(img, 2)", "F.cross_entropy(A, labels)", "F.mse_loss(x, y)",
    "F.embedding(i, w)", "F.dropout(x, 0.5)", "F.batch_norm(img, None, None, training=True)",
    "F.interpolate(img, scale_factor=2)", "m.outer(x[:100], y[:100])", "m.eye(10)", "m.linalg.inv(S[:64, :64])",
    "m.einsum('ij,kj->ik', A, B)", "x.split(100)", "x[::2] + y[::2]",
)  # fmt: skip


def _step(build: Callable[[Any], tuple[Any, tuple[Any, ...]]]) -> Callable[[Any], Callable[[], None]]:
    """For a library, the function that takes a layer, given with its inputs, forwards and backwards."""

    def make(m: Any) -> Callable[[], None]:
        m.manual_seed(0)
        layer, inputs = build(m)
        leaves = [t for t in (*layer.parameters(), *inputs) if t.requires_grad]

        def run() -> None:
            for t in leaves:
                t.grad = None
            layer(*inputs).sum().backward()

        return run

    return make


def _points(m: Any, *shape: int) -> Any:
    return m.rand(*shape, requires_grad=True)


def _labels(m: Any, count: int, below: int) -> Any:
    return m.arange(count) % below


LAYERS: dict[str, Callable[[Any], Callable[[], None]]] = {
    "linear 10 -> 10, relu, 4 rows": _step(
        lambda m: (m.nn.Sequential(m.nn.Linear(10, 10), m.nn.ReLU()), (m.rand(4, 10),))
    ),
    "linear 64 -> 64, relu, 32 rows": _step(
        lambda m: (m.nn.Sequential(m.nn.Linear(64, 64), m.nn.ReLU()), (m.rand(32, 64),))
    ),
    "perceptron 16 -> 32 -> 32 -> 4": _step(
        lambda m: (
            m.nn.Sequential(m.nn.Linear(16, 32), m.nn.ReLU(), m.nn.Linear(32, 32), m.nn.ReLU(), m.nn.Linear(32, 4)),
            (m.rand(8, 16),),
        )
    ),
    "layer_norm 4 x 10": _step(lambda m: (m.nn.LayerNorm(10), (_points(m, 4, 10),))),
    "layer_norm 32 x 64": _step(lambda m: (m.nn.LayerNorm(64), (_points(m, 32, 64),))),
    "batch_norm 8 x 10": _step(lambda m: (m.nn.BatchNorm1d(10), (_points(m, 8, 10),))),
    "embedding 20 x 8, 6 of them": _step(lambda m: (m.nn.Embedding(20, 8), (_labels(m, 6, 20),))),
    "cross_entropy 4 x 5": _step(lambda m: (m.nn.CrossEntropyLoss(), (_points(m, 4, 5), _labels(m, 4, 5)))),
    "cross_entropy 64 x 100": _step(lambda m: (m.nn.CrossEntropyLoss(), (_points(m, 64, 100), _labels(m, 64, 100)))),
    "mse_loss 10": _step(lambda m: (m.nn.MSELoss(), (_points(m, 10), m.rand(10)))),
    "conv2d 3 -> 4, 8 x 8": _step(lambda m: (m.nn.Conv2d(3, 4, 3), (_points(m, 1, 3, 8, 8),))),
    "conv2d 8 -> 16, 16 x 16, batch 4": _step(lambda m: (m.nn.Conv2d(8, 16, 3), (_points(m, 4, 8, 16, 16),))),
    "max_pool2d 8 x 8": _step(lambda m: (m.nn.MaxPool2d(2), (_points(m, 1, 3, 8, 8),))),
    "softmax 4 x 10": _step(lambda m: (m.nn.Softmax(-1), (_points(m, 4, 10),))),
    "gelu 10": _step(lambda m: (m.nn.GELU(), (_points(m, 10),))),
    "lstm 8 -> 8, 5 steps": _step(lambda m: (_First(m, m.nn.LSTM(8, 8)), (_points(m, 5, 2, 8),))),
    "attention 16, 2 heads, 6 tokens": _step(
        lambda m: (_First(m, m.nn.MultiheadAttention(16, 2), 3), (_points(m, 6, 2, 16),))
    ),
    "views: x[1:3].t().reshape(-1)": _step(lambda m: (_Views(), (_points(m, 4, 5),))),
}


class _First:
    """A layer of several inputs and results: it takes one as all, and gives the first."""

    def __init__(self, m: Any, layer: Any, copies: int = 1) -> None:
        self.layer = layer
        self.copies = copies
        self.parameters = layer.parameters

    def __call__(self, x: Any) -> Any:
        return self.layer(*[x] * self.copies)[0]


class _Views:
    """Views alone."""

    def parameters(self) -> tuple[Any, ...]:
        """It has none."""
        return ()

    def __call__(self, x: Any) -> Any:
        return x[1:3].t().reshape(-1)
