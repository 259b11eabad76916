"""Softmax over very many classes, of which rare ones stand in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, OperationError

from ..errors import located
from ..functions.comparison import where
from ..functions.joining import cat
from ..tensor import Tensor
from . import functional as F
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module


class _ASMoutput(NamedTuple):
    """Log-probabilities of the targets, and the loss."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax in two stages, for classes sorted by how often they occur (Grave et al. 2017, arXiv:1609.04309).

    The first `cutoffs[0]` classes stand in the head, and a place for each cluster; cluster k holds the classes
    from `cutoffs[k]` on, and projects to a width smaller by `div_value ** (k + 1)`.

    >>> import jitgrad as jg
    >>> layer = jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10])
    >>> output, loss = layer(jg.randn(4, 8), jg.tensor([0, 6, 12, 19]))
    >>> output.shape, layer.log_prob(jg.randn(4, 8)).shape
    (jitgrad.Size([4]), jitgrad.Size([4, 20]))
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        bounds = list(cutoffs)
        is_plain = all(isinstance(c, int) for c in bounds)
        if not bounds or not is_plain or bounds != sorted(set(bounds)) or bounds[0] <= 0 or bounds[-1] > n_classes - 1:
            raise located(
                ArgumentError(
                    "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                    f"each value is between 1 and n_classes-1, not {cutoffs}"
                )
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        where_: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where_)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, bias=False, **where_), Linear(width, size, bias=False, **where_))
            )

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input: Any, target: Any) -> _ASMoutput:
        """Log-probabilities of the targets, and the mean of their negatives; input [n, in_features], target [n]."""
        if (input.ndim, target.ndim) not in ((2, 1), (1, 0)):
            raise located(OperationError("0D or 1D target tensor expected, and an input of one more dimension"))
        if input.ndim == 2 and input.shape[0] != target.shape[0]:
            raise located(OperationError("Input and target should have the same size in the batch dimension."))
        x, classes = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.unsqueeze(0))
        # Every row goes through every cluster, and what does not concern it is dropped: no shape depends on targets.
        head = F.log_softmax(self.head(x), dim=1)
        output = head.gather(1, classes.clamp(max=self.shortlist_size - 1).unsqueeze(1)).squeeze(1)
        for i, cluster in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = (classes >= low) & (classes < high)
            at = (classes - low).clamp(min=0, max=high - low - 1).unsqueeze(1)
            within = F.log_softmax(cluster(x), dim=1).gather(1, at).squeeze(1)
            output = where(inside, head[:, self.shortlist_size + i] + within, output)
        loss = -output.mean()
        return _ASMoutput(output if input.ndim == 2 else output.squeeze(0), loss)

    def log_prob(self, input: Any) -> Tensor:
        """Log-probabilities of all classes: [n, n_classes]."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Any) -> Tensor:
        """The most likely class of each row: [n]."""
        result: Tensor = self.log_prob(input).argmax(1)  # type: ignore[attr-defined]
        return result
