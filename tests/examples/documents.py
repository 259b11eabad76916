"""The Python blocks of a Markdown file, run as they stand, with what they print compared to what they say."""

import contextlib
import doctest
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINT = re.compile(r"^print\(.*\)(?:  # (?P<here>.*)|(?P<below>(?:\n# .*)+))", re.MULTILINE)


def python_blocks(name: str) -> list[tuple[str, str]]:
    """Each block's code, padded so that line numbers are the file's, and what its commented `print`s should give."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        code = block.group(1)
        said = [m["here"] or re.sub(r"^\n?# ", "", m["below"], flags=re.MULTILINE) for m in _PRINT.finditer(code)]
        found.append(("\n" * (text[: block.start(1)].count("\n")) + code, "".join(f"{s}\n" for s in said)))
    return found


def run_blocks(name: str) -> None:
    """Run all blocks in one namespace, as a reader would who types them in."""
    scope: dict[str, object] = {"__name__": Path(name).stem}
    for code, said in python_blocks(name):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), scope)
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        have = printed.getvalue()
        assert doctest.OutputChecker().check_output(said, have, options), f"{name} says\n{said}\nand gives\n{have}"
