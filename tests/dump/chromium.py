"""A headless browser for the tests of pages, where one is installed."""

import shutil
import subprocess
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def browse(page: Path, folder: Path, *flags: str, state: str = "") -> subprocess.CompletedProcess:
    """Open a page with a new profile in `folder`; the errors that scripts log are in `stderr`."""
    profile = folder / f"profile-{len(list(folder.glob('profile-*')))}"
    profile.mkdir()
    command = [str(PROGRAM), *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", *flags]
    url = f"{page.resolve().as_uri()}{'#' + state if state else ''}"
    return subprocess.run([*command, url], capture_output=True, text=True, timeout=120, check=True)
