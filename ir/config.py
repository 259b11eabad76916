"""Every switch of jitgrad in one place; the only file that reads environment variables.

JITGRAD_DUMP=folder        write each compilation's stages there
JITGRAD_CACHE_DIR=folder   where compiled kernels are kept (default: the user's cache folder; empty: nowhere)
JITGRAD_CACHE_MB=512       size bound of that folder
JITGRAD_CACHE_GRAPHS=0     keep kernels there, but no whole graphs
JITGRAD_VERIFY=1           verify the graph after every pass
JITGRAD_NUM_THREADS=n      threads for kernels (default: the cores this process may use)
JITGRAD_COMPILE=0          run compiled functions eagerly
JITGRAD_CHECK=1            compare each compiled call with the same call run eagerly
JITGRAD_COMPILE_BACKWARD=0 never compile the gradient of an eager tape
JITGRAD_CUDA_SIMULATOR=n   n CUDA devices made of host memory, for tests (default: the real ones)
JITGRAD_CUDA_GRAPHS=0      launch kernels one by one, also where a call could replay a CUDA graph
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _flag(name: str, default: bool) -> bool:
    return os.environ.get(name, "1" if default else "0").lower() not in ("0", "", "false", "off", "no")


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise ValueError(f"environment variable {name} must be an integer, not {text!r}") from None


def _cache_dir() -> str | None:
    given = os.environ.get("JITGRAD_CACHE_DIR")
    if given is not None:
        return given or None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "jitgrad")


@dataclass
class Config:
    """The switches. Set fields on `jitgrad.config`; changes hold for what is compiled afterwards."""

    dump: str | None = field(default_factory=lambda: os.environ.get("JITGRAD_DUMP") or None)
    cache_dir: str | os.PathLike[str] | None = field(default_factory=_cache_dir)
    cache_mb: int = field(default_factory=lambda: _integer("JITGRAD_CACHE_MB", 512))
    cache_graphs: bool = field(default_factory=lambda: _flag("JITGRAD_CACHE_GRAPHS", True))
    verify: bool = field(default_factory=lambda: _flag("JITGRAD_VERIFY", False))
    num_threads: int = field(default_factory=lambda: _integer("JITGRAD_NUM_THREADS", 0))
    compile: bool = field(default_factory=lambda: _flag("JITGRAD_COMPILE", True))
    check: bool = field(default_factory=lambda: _flag("JITGRAD_CHECK", False))
    compile_backward: bool = field(default_factory=lambda: _flag("JITGRAD_COMPILE_BACKWARD", True))
    cuda_simulator: int = field(default_factory=lambda: _integer("JITGRAD_CUDA_SIMULATOR", 0))
    numba_simulator: bool = field(default_factory=lambda: _flag("NUMBA_ENABLE_CUDASIM", False))
    cuda_graphs: bool = field(default_factory=lambda: _flag("JITGRAD_CUDA_GRAPHS", True))


config = Config()
