"""One step of a recurrent layer: cells, and the formulas that layers share with them."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, OperationError

from ..creation import empty, zeros
from ..errors import located
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


def rnn_step(x: Any, hidden: Any, activation: Any) -> Any:
    """Elman's step, from what input and hidden state give, each multiplied by its weight."""
    return activation(x + hidden)


def lstm_step(gates: Any, cell: Any) -> tuple[Any, Any]:
    """The new hidden and cell state, from the sum of what input and hidden state give for the four gates i, f, g, o.

    After Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_step(x: Any, hidden: Any, state: Any) -> Any:
    """The new state, from what input and state give for the gates r, z and n (Cho et al. 2014, arXiv:1406.1078)."""
    x_r, x_z, x_n = x.chunk(3, -1)
    h_r, h_z, h_n = hidden.chunk(3, -1)
    z = (x_z + h_z).sigmoid()
    n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return n + z * (state - n)


class RNNCellBase(Module):
    """What the cells share: weights for the input and for the state, of `num_chunks` gates."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, **where))
        self.weight_hh = Parameter(empty(rows, hidden_size, **where))
        self.register_parameter("bias_ih", Parameter(empty(rows, **where)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty(rows, **where)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values: evenly between ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        """Its sizes, and options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")

    def _projected(self, input: Any, states: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
        """What input and state give for the gates, and the states."""
        own = type(self).__name__
        if input.ndim not in (1, 2):
            raise located(ArgumentError(f"{own}: Expected input to be 1D or 2D, got {input.ndim}D instead"))
        if input.shape[-1] != self.input_size:
            raise located(
                OperationError(
                    f"{own}: input has inconsistent input_size: got {input.shape[-1]}, expected {self.input_size}"
                )
            )
        shape = (*input.shape[:-1], self.hidden_size)
        for state in states:
            if state is not None and tuple(state.shape) != shape:
                raise located(
                    OperationError(f"{own}: a state of shape {tuple(state.shape)} was given, {shape} is needed")
                )
        start = tuple(
            zeros(shape, dtype=input.dtype, device=input.device) if state is None else state for state in states
        )
        x = F.linear(input, self.weight_ih, self.bias_ih)
        return x, F.linear(start[0], self.weight_hh, self.bias_hh), start


class RNNCell(RNNCellBase):
    """tanh (or ReLU) of `W_ih x + b_ih + W_hh h + b_hh`, for x [n, input_size] and h [n, hidden_size]."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new state; `hx` is zero if left out."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise located(OperationError(f"Unknown nonlinearity: {self.nonlinearity}"))
        x, hidden, _ = self._projected(input, (hx,))
        result: Tensor = rnn_step(x, hidden, F.tanh if self.nonlinearity == "tanh" else F.relu)
        return result


class LSTMCell(RNNCellBase):
    """A step of an `LSTM`.

    >>> import jitgrad as jg
    >>> h, c = jg.nn.LSTMCell(3, 5)(jg.zeros(2, 3))
    >>> h.shape, c.shape
    (jitgrad.Size([2, 5]), jitgrad.Size([2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The new hidden and cell state; both are zero if left out."""
        x, hidden, (_, cell) = self._projected(input, (None, None) if hx is None else tuple(hx))
        return lstm_step(x + hidden, cell)


class GRUCell(RNNCellBase):
    """A step of a `GRU`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new state; `hx` is zero if left out."""
        x, hidden, (state,) = self._projected(input, (hx,))
        result: Tensor = gru_step(x, hidden, state)
        return result
