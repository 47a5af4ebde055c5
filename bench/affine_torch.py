#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's operators on the shapes of bench_affine, one thread: lines "<op> <elements> <milliseconds>".
Exits with 77 when torch can't be imported."""
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)

torch.set_num_threads(1)


def least(work, calls, repeats=12):
    """As bench_affine measures: the least of several repeats, each the mean of many calls."""
    best = 1e9
    for _ in range(repeats):
        work()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e3


for n in (262144, 8388608):
    x = torch.randn(n)
    scale, zero, zero_f = torch.tensor([0.05]), torch.tensor([128], dtype=torch.int32), torch.tensor([128.0])
    dy = torch.randn(n)
    q = torch.quantize_per_tensor(x, 0.05, 128, torch.quint8)
    _, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.05, 128, 0, 255)
    backward = torch.ops.aten._fake_quantize_learnable_per_tensor_affine_backward
    works = {
        "fake_quantize": lambda: torch.fake_quantize_per_tensor_affine(x, 0.05, 128, 0, 255),
        "fake_quantize_backward": lambda: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask_backward(dy, mask),
        "learnable_backward": lambda: backward(dy, x, scale, zero_f, 0, 255, 1.0),
        "learnable_in_place": lambda: backward(dy, x, scale, zero_f, 0, 255, 1.0),  # PyTorch has no such form
        "quantize_u8": lambda: torch.quantize_per_tensor(x, 0.05, 128, torch.quint8),
        "dequantize_u8": lambda: q.dequantize(),
        "min_max": lambda: torch.aminmax(x),
        "histogram": lambda: torch.histc(x, 2048, -7.0, 7.0),
    }
    for name, work in works.items():
        with torch.no_grad():
            print(name, n, f"{least(work, 2 * (8388608 // n) // 8 + 1):.4f}", flush=True)
