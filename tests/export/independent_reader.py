"""A reader of program files made from ARCHITECTURE.md alone: the standard library, NumPy and a few ops.

It knows nothing of jitgrad, and shows that another program, in another language, can read and run the files.
"""

import json
import re
from pathlib import Path

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}
STORED = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "BOOL": np.bool_}
OPS = {
    "linear": lambda f, x, w, b=0: x @ w.T + b,
    "matmul": lambda f, x, y: x @ y,
    "add": lambda f, x, y: x + y,
    "mul": lambda f, x, y: x * y,
    "sub": lambda f, x, y: x - y,
    "tanh": lambda f, x: np.tanh(x),
    "relu": lambda f, x: np.maximum(x, 0),
    "full": lambda f: np.full(f["shape"], f["value"], DTYPES[f["dtype"]]),
    "broadcast_to": lambda f, x: np.broadcast_to(x, f["shape"]),
    "reshape": lambda f, x: x.reshape(f["shape"]),
    "mean": lambda f, x: x.mean(f["axes"], keepdims=f.get("keepdim", False)),
}


class Program:
    """A program file: call it with arrays by position."""

    def __init__(self, path):
        raw = Path(path).read_bytes()
        end = raw.index(b"\n", raw.index(b"\nweights ") + 1)
        self.lines = raw[:end].decode().splitlines()
        assert self.lines[0] == "jitgrad program 1"
        place = re.fullmatch(r"weights here (\d+), bytes (\d+), sha256 \"\w+\"", self.lines[-1])
        self.weights = self._read_weights(raw, int(place[1]))
        self.arguments = [m[1] for m in self._all(r'argument "\w+" = (%\S+)')]
        self.state = {m[2]: m[1] for m in self._all(r'state "([^"]+)" = (\S+) : .*')}
        self.inputs = re.findall(
            r"(%[^:,()]+): (\w+)\[([^\]]*)\]", next(x for x in self.lines if x.startswith("graph"))
        )

    def _all(self, pattern):
        return [m for m in (re.fullmatch(pattern, line) for line in self.lines) if m]

    @staticmethod
    def _read_weights(raw, start):
        length = int.from_bytes(raw[start : start + 8], "little")
        header = json.loads(raw[start + 8 : start + 8 + length])
        data = raw[start + 8 + length :]
        return {
            name: np.frombuffer(data[slice(*e["data_offsets"])], STORED[e["dtype"]]).reshape(e["shape"])
            for name, e in header.items()
        }

    def __call__(self, *args):
        values = dict(zip(self.arguments, args, strict=True))
        values.update({value: self.weights[name] for value, name in self.state.items()})
        sizes = {}
        for value, _, shape in self.inputs:  # an axis that is a name gives that dimension's length
            for n, actual in zip(filter(None, shape.split(",")), values[value].shape, strict=True):
                if n.isidentifier():
                    sizes[n] = actual
        for line in self.lines:
            m = re.match(r"  (%\S+) = (\w+)(?:\[(.*)\])?\((.*?)\) : ", line)
            if m:
                operands = [values[v] for v in filter(None, m[4].split(", "))]
                values[m[1]] = OPS[m[2]](self._fields(m[3] or "", sizes), *operands)
        results = next(line for line in self.lines if line.startswith("  return")).split()[1:]
        return [values[r.strip(",")] for r in results]

    @staticmethod
    def _fields(text, sizes):
        """Fields are numbers, words, tuples and, in braces, expressions of the dimensions."""
        names = {
            "dict": dict,
            **sizes,
            "true": True,
            "false": False,
            "none": None,
            "min": min,
            "max": max,
            **{k: k for k in DTYPES},
        }
        text = text.replace("{", "(").replace("}", ")")
        return eval(f"dict({text})", {"__builtins__": {}}, names) if text else {}
