"""Contestants, each in a process of its own, that take turns.

A process keeps one framework's thread pool, allocator and settings away from another's, makes a first call really
the first, and has a peak of memory that is its own. It reads how many calls to make, makes them, and writes their
times; meanwhile the others wait on their input. As a script this is such a process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

CONTESTANTS = ("jitgrad", "jitgrad eager", "torch", "torch.compile", "jax")
PEERS = ("torch", "torch.compile", "jax")
# What would change another library's kernels or threads behind its back.
_UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")


def installed(contestant: str) -> bool:
    """Whether its library is there, and a C++ compiler where it needs one."""
    return find_spec(contestant.split()[0].split(".")[0]) is not None


def program(row: Any, contestant: str, params: Any) -> Any:
    """The row's work for one contestant."""
    from rows import Tools

    if contestant == "jax":
        import jax

        if params.get("dtype") == "float64":
            jax.config.update("jax_enable_x64", True)
        work = row.jax(params)
        return lambda: jax.block_until_ready(work())
    m = __import__(contestant.split()[0].split(".")[0])
    plain = lambda f: f  # noqa: E731
    whole = contestant == "jitgrad" and not row.eager
    return row.torch_like(
        Tools(m, m.compile if contestant == "torch.compile" or whole else plain, m.compile if whole else plain), params
    )


def _resident_mib(peak: bool) -> float:
    """Memory of this process that is in RAM, now or at most so far."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:  # not Linux: no figure for now, so that a peak is the whole process's
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if peak else 0.0
    field = "VmHWM:" if peak else "VmRSS:"
    return int(next(line for line in text.splitlines() if line.startswith(field)).split()[1]) / 1024


def _first_numbers(result: Any) -> list[float]:
    """Some numbers of a result, by which contestants are compared."""
    if isinstance(result, tuple | list):
        result = result[0]
    if result is None:
        return []
    values = result.detach().double().numpy() if hasattr(result, "detach") else np.asarray(result, "f8")
    flat = np.asarray(values).reshape(-1)
    return [float(v) for v in flat[:: max(1, flat.size // 64)][:64]]


def serve(name: str, contestant: str, params: Any) -> None:
    """Be a contestant until there is no more to read."""
    from rows import ROWS

    row, imported = ROWS[name], contestant.split()[0].split(".")[0]
    __import__(imported)
    if contestant == "jitgrad":
        __import__("jitgrad.codegen.compile")
    before, start = _resident_mib(peak=False), time.perf_counter()
    run = program(row, contestant, params)
    result = run()
    first = time.perf_counter() - start
    numbers = _first_numbers(result)
    del result
    start = time.perf_counter()
    run(), run()
    _say({"first_s": first, "three_s": first + time.perf_counter() - start, "numbers": numbers})
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        _say({"times": times, "peak_mib": _resident_mib(peak=True) - before})


def _say(message: dict[str, Any]) -> None:
    print("@" + json.dumps(message), flush=True)


@dataclass
class Contestant:
    """One process, and what it has measured: seconds."""

    row: str
    name: str
    params: Any
    cache: str
    times: list[float] = field(default_factory=list)
    first_s: float = 0.0
    three_s: float = 0.0
    peak_mib: float = 0.0
    numbers: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        env = {k: v for k, v in os.environ.items() if k not in _UNSET}
        env |= {"JITGRAD_CACHE_DIR": self.cache, "TORCHINDUCTOR_CACHE_DIR": self.cache, "PYTHONPYCACHEPREFIX": ""}
        command = [sys.executable, "-W", "ignore", __file__, self.row, self.name, json.dumps(dict(self.params))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        hello = self._hear()
        self.first_s, self.three_s, self.numbers = hello["first_s"], hello["three_s"], hello["numbers"]

    def run(self, calls: int) -> list[float]:
        """Times of some calls, one after another."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        said = self._hear()
        self.peak_mib = said["peak_mib"]
        return list(said["times"])

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None and self._process.stderr is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                return dict(json.loads(line[1:]))
        raise RuntimeError(f"{self.row}: {self.name} ended:\n{self._process.stderr.read()[-2000:]}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def contest(row: Any, params: Any, names: list[str], rounds: int, seconds: float) -> dict[str, Contestant]:
    """Let contestants take turns: in each round all make as many calls as fit into `seconds`, after two unmeasured."""
    with tempfile.TemporaryDirectory() as folder:
        entered: dict[str, Contestant] = {}
        try:
            for name in names:
                try:
                    entered[name] = Contestant(row.name, name, params, os.path.join(folder, name.replace(" ", "-")))
                except RuntimeError as error:
                    print(f"  {error}", file=sys.stderr)
            calls = {name: _calls(c, seconds) for name, c in entered.items()}
            for _ in range(rounds):
                for name, contestant in entered.items():
                    contestant.times += contestant.run(2 + calls[name])[2:]
        finally:
            for contestant in entered.values():
                contestant.close()
    return entered


def _calls(contestant: Contestant, seconds: float) -> int:
    """Calls in a turn, after the warm-up that eager libraries and our backward plans need."""
    warm = contestant.run(3)
    return max(2, min(200, round(seconds / max(min(warm), 1e-6))))


def second_process(row: Any, params: Any, name: str) -> float:
    """Seconds of the first three calls in a process that finds the kernels of an earlier one on disk."""
    with tempfile.TemporaryDirectory() as folder:
        found = 0.0
        for _ in range(2):
            contestant = Contestant(row.name, name, params, folder)
            found = contestant.three_s
            contestant.close()
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
