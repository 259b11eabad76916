"""`python -m jitgrad inspect`, `run`, `check` and `dump`: exported programs."""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import jitgrad
from jitgrad.dump import write
from jitgrad.export.files import TEXT
from jitgrad.export.trees import Container, Leaf, Tree, build
from jitgrad.ir import dtypes
from jitgrad.ir.errors import JitgradError, ParseError

from .report import Report, UsageError, amount, table

_MOST_OPS: Final = 12
_FEW: Final = 60  # elements of a result that are printed whole


def inspect(args: argparse.Namespace) -> Report:
    """Signature, state, ops and costs."""
    program = _load(args.file)
    sizes = _sizes(program, args.size)
    stats = program.stats(sizes).as_dict()
    state = {name: str(t.type_) for name, t in program.state.items()}
    data = {
        "name": program.name,
        "signature": str(program.signature),
        "dimensions": {name: str(dim) for name, dim in program.dims.items()},
        "constraints": [str(c) for c in program.constraints],
        "sizes": {name: sizes.get(name, dim.example) for name, dim in program.dims.items()},
        "state": state,
        "metadata": program.metadata,
        "stats": stats,
        "file_bytes": _bytes_of(Path(args.file)),
    }
    if args.text:
        data["text"] = program.text
    return Report(_inspected(data) + (f"\n\n{program.text}" if args.text else ""), data)


def _inspected(data: dict[str, Any]) -> str:
    stats = data["stats"]
    at = ", ".join(f"{name}={n}" for name, n in data["sizes"].items())
    rows = [
        ("file", amount(data["file_bytes"])),
        ("nodes", str(stats["nodes"])),
        ("parameters", f"{stats['parameters']} (state {amount(stats['state_bytes'])} in {len(data['state'])} tensors)"),
        ("a call" + (f" at {at}" if at else ""), f"{amount(stats['flops'], 'flop')}, {amount(stats['bytes'])} moved by "
                                                 f"ops alone, at most {amount(stats['peak_bytes'])} alive"),
    ]  # fmt: skip
    parts = [data["signature"], table(rows)]
    if data["dimensions"]:
        parts.append("dimensions\n" + table([(text,) for text in data["dimensions"].values()]))
    if data["constraints"]:
        parts.append("constraints\n" + table([(text,) for text in data["constraints"]]))
    ops = list(stats["ops"].items())
    more = f", {len(ops) - _MOST_OPS} others" if len(ops) > _MOST_OPS else ""
    parts.append("ops\n  " + ", ".join(f"{count} {name}" for name, count in ops[:_MOST_OPS]) + more)
    if data["state"]:
        parts.append("state\n" + table(list(data["state"].items())))
    if data["metadata"]:
        parts.append("metadata\n" + table([(str(k), str(v)) for k, v in data["metadata"].items()]))
    return "\n\n".join(parts)


def run(args: argparse.Namespace) -> Report:
    """Run the program on arrays from files."""
    program = _load(args.file).to(_device(args.device))
    given, kwargs = _arguments(program, [text for group in args.input for text in group], args)
    if args.repeat < 1:
        raise UsageError(f"--repeat must be at least 1, not {args.repeat}")
    times = []
    for _ in range(args.repeat):
        start = time.perf_counter()
        result = program(*given, **kwargs)
        times.append(time.perf_counter() - start)
    arrays = dict(_named_results(result))
    written = _write(arrays, args.output) if args.output else {}
    if args.save:
        program.save(args.save)
    data = {
        "results": [
            {"name": name, "type": str(jitgrad.from_numpy(a).type_), "file": written.get(name), "values": _values(a)}
            for name, a in arrays.items()
        ],
        "first_call_ms": 1e3 * times[0],
        "median_call_ms": 1e3 * statistics.median(times[1:] or times),
        "calls": args.repeat,
    }
    return Report(_ran(data, arrays), data)


def _ran(data: dict[str, Any], arrays: dict[str, Any]) -> str:
    lines = []
    for found in data["results"]:
        where = f" -> {found['file']}" if found["file"] else ""
        lines.append(f"{found['name']}: {found['type']}{where}")
        if not found["file"]:
            lines += [f"  {line}" for line in np.array2string(arrays[found["name"]], threshold=_FEW).split("\n")]
    if data["calls"] > 1:
        lines.append(f"first call {data['first_call_ms']:.3g} ms, then {data['median_call_ms']:.3g} ms (median)")
    return "\n".join(lines)


def check(args: argparse.Namespace) -> Report:
    """Whether the file is whole, its graph valid, and the compiled program right."""
    program = _load(args.file)
    problems = program.check()
    lines = [f"{args.file}: {len(problems)} problems", *(f"  {p}" for p in problems)] if problems else [
        f"{args.file}: sound"]  # fmt: skip
    return Report("\n".join(lines), {"file": args.file, "sound": not problems, "problems": problems}, bool(problems))


def dump(args: argparse.Namespace) -> Report:
    """Write every stage of the program's compilation."""
    program = _load(args.file)
    folder = _dumped(program, args)
    files = sorted(p.name for p in folder.iterdir())
    text = f"{folder / 'index.html'}\n  and {', '.join(f for f in files if f != 'index.html')}"
    return Report(text, {"folder": str(folder), "page": str(folder / "index.html"), "files": files})


def _dumped(program: Any, args: argparse.Namespace) -> Path:
    """The folder that was written to. Elsewhere a fault of writing is a warning; here it is what was asked for."""
    sizes = _sizes(program, args.size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folders = write(program, args.folder, measure=args.measure, sizes=sizes)
    faults = [str(w.message) for w in caught if "dumped" in str(w.message)]
    if faults:
        raise UsageError(faults[0])
    return Path(folders[0])


# What is given ----------------------------------------------------------------------------------------------


def _load(path: str) -> Any:
    where = Path(path)
    if not where.exists():
        raise UsageError(f"{path}: no such file or folder")
    if where.is_dir() and not (where / TEXT).exists():
        raise UsageError(f"{path}: a folder without {TEXT}, and so no exported program")
    if not where.is_dir() and not where.is_file():  # it would be read twice, and mapped into memory
        raise UsageError(f"{path}: neither a file nor a folder; a program can't be read from a pipe or a device")
    try:
        return jitgrad.load_program(path)
    except ParseError as error:
        error.message = f"{path}: {error.message}"  # the line that says where is not printed here
        raise


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def _sizes(program: Any, texts: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals or not number.isdigit():
            raise UsageError(f"--size takes NAME=N, not {text!r}")
        if name not in program.dims:
            known = ", ".join(program.dims) or "none"
            raise UsageError(f"--size {text}: no dimension is called {name!r}; there are: {known}")
        found[name] = int(number)
    return found


def _device(name: str) -> Any:
    """The device, which must be there."""
    try:
        return jitgrad.zeros(0, device=name).device  # type: ignore[attr-defined]  # fails where there is none
    except JitgradError as error:
        raise UsageError(f"--device {name}: {str(error).splitlines()[0]}") from None


def _arguments(program: Any, texts: Sequence[str], args: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """What the program is to be called with."""
    signature = program.signature
    leaves = [(path, index) for a in signature.arguments for path, index in _leaves(a.tree, a.name)]
    indices = dict(leaves)
    arrays: dict[int, Any] = {}
    waiting = []
    for text in texts:
        name, equals, path = text.partition("=")
        if equals and indices.get(name) in arrays:
            raise UsageError(f"--input {text}: {name!r} is given twice")
        if equals and name in indices:
            arrays[indices[name]] = _read(path)
        elif equals and not Path(text).exists():
            raise UsageError(f"--input {text}: no argument is called {name!r}; {signature}")
        else:
            waiting.append(text)
    free = [index for _, index in leaves if index not in arrays]
    if len(waiting) > len(free):
        raise UsageError(f"{len(texts)} inputs for {len(leaves)} arguments: {signature}")
    arrays.update({index: _read(path) for index, path in zip(free, waiting)})
    missing = [path for path, index in leaves if index not in arrays]
    if missing:
        raise UsageError(f"no --input for {', '.join(missing)}: {signature}")
    tensors = {index: jitgrad.from_numpy(a).to(_device(args.device)) for index, a in arrays.items()}
    values = {a.name: build(a.tree, tensors, {}) for a in signature.arguments if _leaves_any(a.tree)}
    positional = [values[a.name] for a in signature.arguments if not a.keyword and a.name in values]
    if len(positional) == sum(not a.keyword for a in signature.arguments):
        named = {a.name: values[a.name] for a in signature.arguments if a.keyword and a.name in values}
        return positional, {**named, **_numbers(signature, args.set)}
    return [], {**values, **_numbers(signature, args.set)}


def _numbers(signature: Any, texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in [n.name for n in signature.numbers]:
            raise UsageError(f"--set {text}: no number is called {name!r}; {signature}")
        try:
            found[name] = float(number)
        except ValueError:
            raise UsageError(f"--set takes NAME=NUMBER, not {text!r}") from None
    return found


def _leaves(tree: Tree, name: str) -> Iterator[tuple[str, int]]:
    """The names and the input numbers of an argument's tensors."""
    if isinstance(tree, Leaf):
        yield name, tree.index
    elif isinstance(tree, Container):
        for key, item in zip(tree.keys or range(len(tree.items)), tree.items):
            yield from _leaves(item, f"{name}.{key}")


def _leaves_any(tree: Tree) -> bool:
    return next(_leaves(tree, ""), None) is not None


def _read(path: str) -> Any:
    """An array, always in memory of its own, since programs may write to their arguments.

    NumPy writes bfloat16 as two bytes without a type, and keeps the byte order of where an array was made.
    """
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        pickled = "pickle" in str(error)  # NumPy takes whatever it doesn't know for that, and recommends to load it
        raise UsageError(f"{path}: not a .npy file of numbers" + ("" if pickled else f": {error}")) from None
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{path}: several arrays; give one .npy file per input")
    if found.dtype == np.dtype("V2"):
        return found.view(dtypes.bfloat16.np)
    if found.dtype.kind not in "biufc":
        raise UsageError(f"{path}: not numbers, but elements of type {found.dtype}")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


# What comes out ---------------------------------------------------------------------------------------------


def _named_results(result: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and numbers in nested results, by their places."""
    if isinstance(result, jitgrad.Tensor):
        yield name or "result", result.detach().cpu().numpy()  # type: ignore[attr-defined]
    elif isinstance(result, dict):
        for key, item in result.items():
            yield from _named_results(item, f"{name}.{key}" if name else str(key))
    elif isinstance(result, tuple | list):
        names = getattr(result, "_fields", range(len(result)))
        for key, item in zip(names, result):
            yield from _named_results(item, f"{name}.{key}" if name else str(key))
    elif isinstance(result, bool | int | float | complex):
        yield name or "result", np.asarray(result)


def _write(arrays: dict[str, Any], output: str) -> dict[str, str]:
    """One result to the file, several beside it by number, or all into a folder by name."""
    target = Path(output)
    if target.is_dir():
        paths = {name: target / f"{name}.npy" for name in arrays}
    elif len(arrays) == 1:
        paths = dict.fromkeys(arrays, target)
    else:
        paths = {name: target.with_name(f"{target.stem}-{n}.npy") for n, name in enumerate(arrays)}
    for name, path in paths.items():
        with open(path, "wb") as file:  # NumPy appends .npy to names of its own accord
            np.save(file, arrays[name], allow_pickle=False)
    return {name: str(path) for name, path in paths.items()}


def _values(a: Any) -> Any:
    """A small array's numbers, None for a large one; what JSON has no number for as text."""
    if a.size > _FEW:
        return None
    return [
        x if isinstance(x, bool | int) or (isinstance(x, float) and np.isfinite(x)) else str(x)
        for x in a.ravel().tolist()
    ]
