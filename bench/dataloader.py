"""Pictures per second through `DataLoader` with workers, beside PyTorch's on the same transforms.

    python bench/dataloader.py [--workers N] [--images N] [--rounds N] [--json FILE]

Three datasets: uint8 arrays in memory, JPEGs decoded by Pillow, and both sides' items made by NumPy alone, which leaves
the loaders' own cost. Each is cropped at random, flipped, scaled to floats and normalised, with each side's own tensors
(PyTorch's by the calls torchvision makes). Loaders take turns, whole passes, nothing is done with the batches; figures
are the best and the median of the rounds, and ratios are of rates, jitgrad's to PyTorch's. The last ratio is of the
time that all processes spend on a picture, PyTorch's to jitgrad's, which other programs on the machine disturb least.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad.vision import transforms as T

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIDE, PADDED, PARTS = 64, 4, (("memory", 2048), ("jpeg", 1024), ("numpy", 4096))


class InMemory(jg.utils.data.Dataset):
    """uint8 tensors [3, side, side] and their transform."""

    def __init__(self, pictures: Any, transform: Callable[[Any], Any]) -> None:
        self.pictures, self.transform = pictures, transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return self.transform(self.pictures[i]), i


class Encoded(InMemory):
    """JPEG files in memory, opened by Pillow."""

    def __getitem__(self, i: int) -> tuple[Any, int]:
        from PIL import Image

        return self.transform(Image.open(io.BytesIO(self.pictures[i])).convert("RGB")), i


def numpy_transform(picture: np.ndarray) -> np.ndarray:
    """Nothing but the conversion: what is left is the loader."""
    return picture.astype(np.float32)


def our_transforms() -> dict[str, Callable[[Any], Any]]:
    """jitgrad's, by dataset."""
    moves = [T.RandomCrop(SIDE, padding=PADDED), T.RandomHorizontalFlip()]
    return {
        "memory": T.Compose([*moves, T.ConvertImageDtype(jg.float32), T.Normalize(MEAN, STD)]),
        "jpeg": T.Compose([*moves, T.ToTensor(), T.Normalize(MEAN, STD)]),
        "numpy": numpy_transform,
    }


def torch_transforms(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """PyTorch's, by dataset: the same steps by the calls that torchvision's transforms come down to."""
    from PIL import ImageOps

    def place() -> tuple[int, int]:
        top = torch.randint(0, 2 * PADDED + 1, size=(1,)).item()
        return top, torch.randint(0, 2 * PADDED + 1, size=(1,)).item()

    def normalized(image: Any) -> Any:
        mean, std = (torch.as_tensor(x, dtype=image.dtype).view(-1, 1, 1) for x in (MEAN, STD))
        return image.clone().sub_(mean).div_(std)

    def of_tensor(image: Any) -> Any:
        image = torch.nn.functional.pad(image, [PADDED] * 4)
        top, left = place()
        image = image[..., top : top + SIDE, left : left + SIDE]
        image = image.flip(-1) if torch.rand(1) < 0.5 else image
        return normalized(image.to(torch.float32).div(255))

    def of_picture(image: Any) -> Any:
        image = ImageOps.expand(image, PADDED, 0)
        top, left = place()
        image = image.crop((left, top, left + SIDE, top + SIDE))
        image = image.transpose(0) if torch.rand(1) < 0.5 else image
        tensor = torch.from_numpy(np.array(image, copy=True)).permute(2, 0, 1).contiguous()
        return normalized(tensor.to(torch.float32).div(255))

    return {"memory": of_tensor, "jpeg": of_picture, "numpy": numpy_transform}


def pictures(name: str, count: int) -> tuple[Any, Any]:
    """The same pictures for both: smooth ones with noise, which JPEG finds neither too easy nor too hard."""
    rng = np.random.default_rng(0)
    x, y = np.linspace(0, 9, SIDE), np.linspace(0, 5, SIDE)[:, None]
    waves = np.sin(x + rng.uniform(0, 6, (count, 3, 1, 1))) * np.cos(y)
    array = np.clip(127 + 100 * waves + rng.normal(0, 10, waves.shape), 0, 255).astype(np.uint8)
    if name != "jpeg":
        return array, array
    from PIL import Image

    files = []
    for picture in array:
        file = io.BytesIO()
        Image.fromarray(picture.transpose(1, 2, 0)).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files, files


def contest(name: str, count: int, args: argparse.Namespace, torch: Any) -> dict[str, Any]:
    """One dataset's rates, the loaders taking turns."""
    ours, theirs = pictures(name, count)
    if name == "memory":
        ours, theirs = jg.from_numpy(ours), torch.from_numpy(theirs)
    kind = Encoded if name == "jpeg" else InMemory
    options = {"batch_size": args.batch_size, "num_workers": args.workers, "shuffle": True}
    makers = {
        "jitgrad": partial(jg.utils.data.DataLoader, kind(ours, our_transforms()[name]), **options),
        "torch": partial(torch.utils.data.DataLoader, kind(theirs, torch_transforms(torch)[name]), **options),
    }
    loaders = {side: make(persistent_workers=args.workers > 0) for side, make in makers.items()}
    rates: dict[str, list[float]] = {side: [] for side in loaders}
    for turn in range(args.rounds + 1):
        for side, loader in loaders.items():
            start = time.perf_counter()
            seen = sum(len(labels) for _, labels in loader)
            if turn:  # the first pass starts the workers
                rates[side].append(seen / (time.perf_counter() - start))
    row: dict[str, Any] = {side: {"best": max(r), "median": statistics.median(r)} for side, r in rates.items()}
    row["ratio of bests"] = row["jitgrad"]["best"] / row["torch"]["best"]
    row["median ratio"] = statistics.median(a / b for a, b in zip(rates["jitgrad"], rates["torch"], strict=True))
    del loaders
    cpu = {side: min(processor_time(make(), count) for _ in range(3)) for side, make in makers.items()}
    row["processor time, us"] = cpu
    row["processor ratio"] = cpu["torch"] / cpu["jitgrad"]
    return row


def processor_time(loader: Any, count: int) -> float:
    """Microseconds of all processes for a picture, of a pass with workers of its own."""

    def spent() -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    start = spent()
    for _ in loader:
        pass
    return 1e6 * (spent() - start) / count


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--images", type=int, help="pictures in a pass")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=[name for name, _ in PARTS])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    rows = {}
    columns = f"{'jitgrad':>18}{'torch':>18}{'ratio of bests':>16}{'median ratio':>14}{'processor':>11}"
    print(f"{'pictures a second':20}{columns}")
    for name, count in PARTS:
        if args.only in (None, name):
            row = rows[name] = contest(name, args.images or count, args, torch)
            sides = "".join(f"{row[side]['best']:>9.0f}{row[side]['median']:>9.0f}" for side in ("jitgrad", "torch"))
            print(f"{name:20}{sides}{row['ratio of bests']:>16.2f}{row['median ratio']:>14.2f}"
                  f"{row['processor ratio']:>11.2f}")  # fmt: skip
    if args.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "workers": args.workers}
        args.json.write_text(json.dumps({"date": str(date.today()), **machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
