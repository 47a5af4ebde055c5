#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps, one thread, batch 32: float, quantization-aware (fused moving average; learned scales
while they are estimated and while they are learned) and PyTorch's float step
where PyTorch can be imported ($INTACT_TORCH names a python). The programs take turns step by step on one CPU; medians and ratios.
bench_train.py [NETWORK...] [--batch N] [--steps N]"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Peer:
    def __init__(self, command):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.times = []

    def step(self, counts):
        if self.process.poll() is not None:  # no PyTorch
            return
        try:
            self.process.stdin.write("step\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            return
        if line and counts:
            self.times.append(float(line))

    def median(self):
        return statistics.median(self.times) if self.times else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["cnn", "resnet8", "mobilenet"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    program = next(path for path in (ROOT / "build/release").rglob("bench_train") if path.is_file())
    python = os.environ.get("INTACT_TORCH", "python3")
    print(f"{'network':10} {'batch':>5} {'float':>9} {'qat':>9} {'lsq':>9} {'PyTorch':>9}   qat/float  lsq/float  float/PyTorch  learn/float")
    for network in options.networks:
        peers = [Peer([program, network, kind, options.batch]) for kind in ("float", "qat", "lsq", "learn")]
        peers.append(Peer([python, ROOT / "bench/train_torch.py", network, "float", options.batch]))
        for turn in range(options.steps + 5):
            for peer in peers:
                peer.step(turn >= 5)
        f, q, l, learn, torch = (peer.median() for peer in peers)
        print(f"{network:10} {options.batch:5} {f:9.3f} {q:9.3f} {l:9.3f} {torch:9.3f}   {q / f:9.2f}  {l / f:9.2f}  {f / torch:13.2f}  {learn / f:11.2f}", flush=True)
        for peer in peers:
            peer.process.communicate()


sys.exit(main())
