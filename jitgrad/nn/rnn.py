"""Recurrent layers over whole sequences: `RNN`, `LSTM`, `GRU`."""

from __future__ import annotations

import math
import warnings
from itertools import accumulate, groupby
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from ..autocasting import autocast_operands
from ..creation import empty, zeros
from ..errors import located
from ..functions.joining import cat, stack
from ..mode import local
from ..tensor import read_array
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .recurrence import Weights, recur
from .utils.rnn import PackedSequence

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}

_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")  # in the order of `all_weights`


class RNNBase(Module):
    """Layers of recurrent cells, in one direction or both; `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    Parameters are named as in PyTorch: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, and for layer 1 and
    the backward direction `weight_ih_l1_reverse`.
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        rows, width = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer, suffix in self._directions():
            columns = input_size if layer == 0 else width * (2 if bidirectional else 1)
            shapes = {"weight_ih": (rows, columns), "weight_hh": (rows, width)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for name, shape in shapes.items():
                self.register_parameter(f"{name}_{suffix}", Parameter(empty(shape, **where)))
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise located(
                ArgumentError(
                    "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
                )
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        if not isinstance(self.hidden_size, int):
            raise located(
                ArgumentTypeError(f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}")
            )
        if self.hidden_size <= 0:
            raise located(ArgumentError("hidden_size must be greater than zero"))
        if self.num_layers <= 0:
            raise located(ArgumentError("num_layers must be greater than zero"))
        if self.proj_size < 0:
            raise located(ArgumentError("proj_size should be a positive integer or zero to disable projections"))
        if self.proj_size >= self.hidden_size:
            raise located(ArgumentError("proj_size has to be smaller than hidden_size"))

    def _directions(self) -> list[tuple[int, str]]:
        """Layers and directions: the layer's number, and what its parameters' names end with."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [(layer, f"l{layer}{end}") for layer in range(self.num_layers) for end in ends]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        found = [[getattr(self, f"{name}_{suffix}", None) for name in _NAMES] for _, suffix in self._directions()]
        return [[weight for weight in weights if weight is not None] for weights in found]

    def reset_parameters(self) -> None:
        """Draw new initial values: evenly between ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters need not lie side by side."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at all times, and the last state of each layer and direction.

        `input` is [t, n, input_size], or [n, t, input_size] if `batch_first`, or [t, input_size], or packed; `hx`, the
        states to start from, is [layers * directions, n, hidden_size] (a pair of those for an LSTM), and zero if left
        out.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise located(
                ArgumentError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}D instead")
            )
        is_batched = input.ndim == 3
        x = input if is_batched else input.unsqueeze(1)
        if is_batched and self.batch_first:
            x = x.transpose(0, 1)
        if not is_batched and hx is not None:
            hx = tuple(h.unsqueeze(1) for h in hx) if isinstance(hx, tuple) else hx.unsqueeze(1)
        if x.shape[0] == 0:
            raise located(OperationError("Expected sequence length to be larger than 0 in RNN"))
        runs = [(x.shape[0], x.shape[1])]
        output, states = self._layers(x.reshape(-1, x.shape[-1]), runs, self._start(x, x.shape[1], hx))
        output = output.reshape(*x.shape[:2], output.shape[-1])
        if not is_batched:
            return output.squeeze(1), self._result([s.squeeze(1) for s in states])
        return (output.transpose(0, 1) if self.batch_first else output), self._result(states)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        steps = read_array(packed.batch_sizes).tolist()
        start = self._start(packed.data, steps[0], hx)
        if packed.sorted_indices is not None:
            start = [s.index_select(1, packed.sorted_indices) for s in start]
        runs = [(len(list(same)), n) for n, same in groupby(steps)]
        output, states = self._layers(packed.data, runs, start)
        if packed.unsorted_indices is not None:
            states = [s.index_select(1, packed.unsorted_indices) for s in states]
        return packed._replace(data=output), self._result(states)

    def _start(self, x: Any, batch: int, hx: Any) -> list[Any]:
        """The states to start from: hidden, and for an LSTM cell."""
        own, count = self._get_name(), len(self._directions())
        if x.shape[-1] != self.input_size:
            raise located(
                OperationError(
                    f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
                )
            )
        widths = [self.proj_size or self.hidden_size] + [self.hidden_size] * (self.mode == "LSTM")
        if hx is None:
            return [zeros(count, batch, width, dtype=x.dtype, device=x.device) for width in widths]
        given = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        if len(given) != len(widths):
            raise located(
                OperationError(f"{own}: {len(widths)} states are needed to start from, {len(given)} were given")
            )
        for state, width, name in zip(given, widths, ("hidden[0]", "hidden[1]"), strict=False):
            shape = (count, batch, width)
            if tuple(state.shape) != shape:
                what = f"Expected {name if self.mode == 'LSTM' else 'hidden'} size {shape}, got {list(state.shape)}"
                raise located(OperationError(what))
        return given

    def _result(self, states: list[Any]) -> Any:
        return tuple(states) if self.mode == "LSTM" else states[0]

    def _layers(self, x: Any, runs: list[tuple[int, int]], start: list[Any]) -> tuple[Any, list[Any]]:
        """All layers over `x`, whose rows are the items of step 0, then those of step 1, and so on.

        `runs` are pairs: so many steps of so many items.
        """
        if self.mode == "LSTM" and not self.proj_size:  # which is one function to PyTorch
            start = list(autocast_operands("lstm", *start))
        last: list[list[Any]] = []
        directions = self._directions()
        for layer in range(self.num_layers):
            outputs = []
            for at, (_, suffix) in enumerate(directions):
                if directions[at][0] == layer:
                    output, states = self._direction(x, suffix, runs, [s[at] for s in start])
                    outputs.append(output)
                    last.append(states)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
            if self.dropout and layer + 1 < self.num_layers:
                x = F.dropout(x, self.dropout, self.training)
        return x, [stack(column) for column in zip(*last, strict=True)]

    def _direction(self, x: Any, suffix: str, runs: list[tuple[int, int]], start: list[Any]) -> tuple[Any, list[Any]]:
        """One layer in one direction: its outputs, in the order of `x`, and its last states."""
        w_ih, w_hh, b_ih, b_hh, w_hr = (getattr(self, f"{name}_{suffix}", None) for name in _NAMES)
        casts = local.mode.autocast is not None  # and a step would add a bias of another dtype
        gates = F.linear(x, w_ih, b_ih if casts else None)  # type: ignore[arg-type]
        weights = Weights(w_hh, b_hh, w_hr, None if casts else b_ih)  # type: ignore[arg-type]
        backward = suffix.endswith("_reverse")
        if len(runs) == 1:
            ((count, n),) = runs
            output, states = recur(self.mode, gates.reshape(count, n, gates.shape[-1]), start, weights, backward)
            return output.reshape(count * n, output.shape[-1]), states
        ends = list(accumulate(count * n for count, n in runs))
        states = [s[: runs[-1 if backward else 0][1]] for s in start]
        finished: list[list[Any]] = []
        outputs: list[Any] = [None] * len(runs)
        for k in reversed(range(len(runs))) if backward else range(len(runs)):
            count, n = runs[k]
            have = states[0].shape[0]
            if n < have:  # forwards: sequences that have ended
                finished.append([s[n:] for s in states])
                states = [s[:n] for s in states]
            elif n > have:  # backwards: sequences that begin
                states = [cat([s, first[have:n]]) for s, first in zip(states, start, strict=True)]
            piece = gates[ends[k] - count * n : ends[k]].reshape(count, n, gates.shape[-1])
            output, states = recur(self.mode, piece, states, weights, backward)
            outputs[k] = output.reshape(count * n, output.shape[-1])
        last = [cat(column) for column in zip(*[states, *reversed(finished)], strict=True)] if finished else states
        return cat(outputs), last

    def extra_repr(self) -> str:
        """Its sizes, and options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        for name, default in (("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Elman's recurrent layer: h = tanh (or ReLU) of `W_ih x + b_ih + W_hh h + b_hh`, at each step."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise located(ArgumentError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."))
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with projections if `proj_size` is set.

    >>> import jitgrad as jg
    >>> lstm = jg.nn.LSTM(10, 20, num_layers=2)
    >>> output, (h, c) = lstm(jg.zeros(5, 3, 10))
    >>> output.shape, h.shape, c.shape
    (jitgrad.Size([5, 3, 20]), jitgrad.Size([2, 3, 20]), jitgrad.Size([2, 3, 20]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014, arXiv:1406.1078)."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
