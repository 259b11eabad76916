"""A residual network for small pictures (He et al., 2015, arXiv:1512.03385), and the file it is kept in.

`classify_images.py` trains it; `load_classifier` is for other programs that want a trained one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jitgrad as jg
from jitgrad import nn


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where channels or size change."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        """[n, in_channels, h, w] to [n, out_channels, h / stride, w / stride]."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    """Stages of residual blocks, each with twice the channels and half the size of the one before.

    Takes pictures [n, channels, h, w] with values from 0 to 1, and takes `mean` and `std` of the data off itself.
    """

    def __init__(
        self, channels: int, classes: int, width: int = 16, blocks: Sequence[int] = (1, 1, 1),
        mean: Sequence[float] = (0.5,), std: Sequence[float] = (0.5,),
    ) -> None:  # fmt: skip
        super().__init__()
        self.options = {"channels": channels, "classes": classes, "width": width, "blocks": list(blocks)}
        self.register_buffer("mean", jg.tensor(list(mean)).reshape(1, -1, 1, 1))
        self.register_buffer("std", jg.tensor(list(std)).reshape(1, -1, 1, 1))
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        stages, current = [], width
        for number, count in enumerate(blocks):
            for i in range(count):
                wanted = width * 2**number
                stages.append(ResidualBlock(current, wanted, stride=2 if i == 0 and number > 0 else 1))
                current = wanted
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(current, classes)

    def features(self, x: jg.Tensor) -> jg.Tensor:
        """What the last layer sees: [n, width of the last stage]."""
        return self.pool(self.stages(self.stem((x - self.mean) / self.std))).flatten(1)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        """Scores of the classes, [n, classes]."""
        return self.head(self.features(x))


def save_classifier(path: Path, model: ResNet, labels: Sequence[str], size: tuple[int, int]) -> None:
    """Keep a trained network, the names of its classes, and the height and width of its pictures."""
    content = {"options": model.options, "labels": list(labels), "size": list(size), "state": dict(model.state_dict())}
    jg.train.save_durably(content, path)


def load_classifier(path: Path) -> tuple[ResNet, list[str], tuple[int, int]]:
    """What `save_classifier` kept, ready to use: its features and scores are for pictures with values from 0 to 1."""
    content = jg.load(path)
    channels = content["options"]["channels"]
    model = ResNet(**content["options"], mean=[0.0] * channels, std=[1.0] * channels)
    model.load_state_dict(content["state"])
    return model.eval(), content["labels"], tuple(content["size"])
