#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_train: train_torch.py NETWORK float|qat BATCH; the same networks, the same protocol. Exits with 77 when torch
can't be imported."""
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(77)

torch.set_num_threads(1)


def conv_bn(inside, outside, kernel=3, stride=1, groups=1):
    return [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outside)]


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(inside, outside, 3, stride), nn.ReLU(), *conv_bn(outside, outside))
        changes = stride != 1 or inside != outside
        self.down = nn.Sequential(*conv_bn(inside, outside, 1, stride)) if changes else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.down(x))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.ReLU(), nn.Conv2d(squeezed, channels, 1),
                                  nn.Hardsigmoid())

    def forward(self, x):
        return x * self.gate(x)


class Inverted(nn.Module):
    def __init__(self, inside, wide, outside, stride, activation, squeeze):
        super().__init__()
        body = [*conv_bn(inside, wide, 1), activation(), *conv_bn(wide, wide, 3, stride, wide), activation()]
        body += [SqueezeExcite(wide, wide // 4)] if squeeze else []
        self.body = nn.Sequential(*body, *conv_bn(wide, outside, 1))
        self.adds = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


NETWORKS = {
    "cnn": lambda: [*conv_bn(1, 24), nn.ReLU(), nn.MaxPool2d(2), *conv_bn(24, 48), nn.ReLU(), nn.MaxPool2d(2), *conv_bn(48, 96), nn.ReLU(),
                    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(864, 10)],
    "resnet8": lambda: [*conv_bn(1, 16), nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2), *head(64)],
    "mobilenet": lambda: [*conv_bn(1, 16, 3, 2), nn.Hardswish(), *conv_bn(16, 16, 3, 1, 16), nn.ReLU6(), *conv_bn(16, 24, 1),
                          Inverted(24, 72, 32, 2, nn.ReLU, False), Inverted(32, 96, 32, 1, nn.ReLU, False),
                          Inverted(32, 96, 48, 2, nn.Hardswish, True), Inverted(48, 144, 48, 1, nn.ReLU6, False), *conv_bn(48, 128, 1),
                          nn.Hardswish(), *head(128)],
}


def main():
    network, batch = nn.Sequential(*NETWORKS[sys.argv[1]]()), int(sys.argv[3])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    x, labels = torch.rand(batch, 1, 28, 28) * 2 - 1, torch.arange(batch) % 10
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(network(x), labels).backward()
        optimizer.step()
        print(f"{(time.perf_counter() - start) * 1e3:.4f}", flush=True)


main()
