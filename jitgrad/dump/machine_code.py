"""The code of an executable's kernels at each level, as text.

Making it makes expressions, which are interned: hold `EXCLUSIVE`, as compiling does.
"""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.codegen.compile import EXCLUSIVE
from jitgrad.codegen.plan import kernels_of
from jitgrad.codegen.program_text import groups_text, kernel_text, kernels_text, plan_text

__all__ = ["EXCLUSIVE", "kernel_texts", "native_texts", "stage_texts"]


def stage_texts(executable: Any) -> dict[str, str]:
    """The stages between the graph and machine code."""
    plan = executable.plan
    return {"groups": groups_text(plan.program), "kernels": kernels_text(plan), "plan": plan_text(plan)}


def kernel_texts(executable: Any) -> list[dict[str, str]]:
    """By kernel, in the order of `codegen.plan.kernels_of`: the text of each level by its title."""
    loops = kernels_of(executable.plan)
    native = list(executable.kernels)
    found = []
    for n, kernel in enumerate(loops):
        texts = {"loops": kernel_text(kernel)}
        if n < len(native):
            texts.update(native_texts(native[n]))
        found.append({title: text for title, text in texts.items() if text})
    return found


def native_texts(kernel: Any) -> dict[str, str]:
    """A compiled kernel's text by level."""
    if hasattr(kernel, "ptx"):
        return {"CUDA source": kernel.source, "PTX": kernel.ptx}
    try:
        return dict(zip(("LLVM", "LLVM, optimised", "assembly"), kernel.texts()))
    except Exception as error:  # a page without machine code is of more use than none
        warnings.warn(f"no machine code of {kernel.symbol}: {error}", RuntimeWarning, stacklevel=2)
        return {"LLVM": kernel.llvm_ir()}
