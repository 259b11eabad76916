"""`python -m jitgrad doctor` and `cache`, and how the command line answers mistakes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.cli import main
from jitgrad.cli.report import amount, table
from jitgrad.codegen.cache import disk_cache


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(jg.config, "cache_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(capsys, *arguments):
    """The exit code, and what `--json` prints."""
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_doctor(capsys):
    code, data = answer(capsys, "doctor")
    found = {f["name"]: f for f in data["findings"]}
    assert code == 0 and data["healthy"] and data["jitgrad"] == jg.__version__
    assert found["numpy"]["found"] == np.__version__
    assert {"Python", "processor", "vectors", "LLVM", "BLAS", "threads", "kernel cache"} <= found.keys()
    assert found["compile and run"]["status"] == "ok"


def test_doctor_prints_text(capsys):
    assert main(["doctor", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "software" in out and "all that is needed is there" in out and "compile and run" not in out


def test_doctor_names_what_is_missing(capsys, monkeypatch):
    import importlib.metadata as metadata

    real = metadata.version

    def version(name):
        if name in ("llvmlite", "tbb"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    code, data = answer(capsys, "doctor", "--quick")
    found = {f["name"]: f for f in data["findings"]}
    assert code == 1 and not data["healthy"]
    assert found["llvmlite"]["status"] == "fault" and "pip install llvmlite" in found["llvmlite"]["hint"]
    assert found["tbb"]["status"] == "note"


def test_doctor_works_where_a_part_is_broken(capsys, monkeypatch):
    from jitgrad.codegen.cpu import blas

    def broken():
        raise OSError("no such library")

    monkeypatch.setattr(blas, "own_openblas", broken)
    code, data = answer(capsys, "doctor", "--quick")
    (found,) = [f for f in data["findings"] if f["name"] == "BLAS"]
    assert code == 1 and found["found"] == "OSError: no such library"


def test_cache_info_and_clear(capsys, cache_folder):
    assert answer(capsys, "cache", "info") == (
        0,
        {"folder": str(cache_folder), "entries": 0, "kernels": 0, "bytes": 0, "limit_bytes": jg.config.cache_mb << 20,
         "oldest": None, "newest": None},
    )  # fmt: skip
    disk_cache().write("kernel-a", b"code")
    disk_cache().write("module-b", b"more code")
    (cache_folder / "notes.txt").write_text("not an entry")
    code, data = answer(capsys, "cache", "info")
    assert code == 0 and (data["entries"], data["kernels"]) == (2, 1) and data["bytes"] > len(b"code" + b"more code")
    assert main(["cache", "info"]) == 0 and str(cache_folder) in capsys.readouterr().out
    code, data = answer(capsys, "cache", "clear")
    assert code == 0 and (data["removed"], data["left"]) == (2, 0)
    assert [p.name for p in cache_folder.iterdir()] == ["notes.txt"]


def test_no_cache(capsys, monkeypatch):
    monkeypatch.setattr(jg.config, "cache_dir", None)
    assert answer(capsys, "cache", "info") == (0, {"folder": None})
    assert answer(capsys, "cache", "clear") == (0, {"removed": 0, "bytes": 0, "left": 0})


@pytest.mark.parametrize("arguments", [[], ["cache"], ["nonsense"], ["doctor", "--nonsense"]])
def test_wrong_command_lines(capsys, arguments):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m jitgrad")


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "-h"], ["cache", "info", "-h"], ["--version"]])
def test_help(capsys, arguments):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "exit codes: 0" in out or out == f"jitgrad {jg.__version__}\n"


def test_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "jitgrad", "cache", "info"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("kernel cache")


def test_table_and_amount():
    assert table([]) == "" and table([("a",), ("b",)], "") == "a\nb"
    assert amount(1.5e13) == "15 TB" and amount(999) == "999 B"
