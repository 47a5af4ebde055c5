#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps, one thread, batch 32: float, quantization-aware (fused moving average; learned scales while they are estimated and
while they are learned) and PyTorch's float step where PyTorch can be imported ($INTACT_TORCH names a python). The programs take turns
step by step on one CPU; medians and ratios. Then `intact train` whole, on two CPUs: two replicas as threads, and two processes where
there is mpirun, against one.
bench_train.py [NETWORK...] [--batch N] [--steps N] [--only steps|scaling]"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

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


def train_time(starter, batch, replicas, threads, network, extra):
    """Seconds per sample, of the fastest epoch."""
    places = (pathlib.Path(os.environ.get("INTACT_SHARED", "/none")), ROOT / "tests/data/reference")
    data = next(p for p in places if (p / "models").exists()) / "models/data"
    with tempfile.TemporaryDirectory() as place:
        command = [*starter, ROOT / "build/release/bin/intact", "train", "--from-scratch", network, "--data", data / "train-512-images-idx3-ubyte",
                   "--labels", data / "train-512-labels-idx1-ubyte", "--epochs", 8, "--batch", batch, "--replicas", replicas, "--threads", threads,
                   "-o", pathlib.Path(place) / "t.onnx", "--json", "--quiet", *extra]
        done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return min(epoch["seconds"] for epoch in json.loads(done.stdout)["epochs"]) / 512


def measure_scaling(networks):
    starter = shutil.which("mpirun")
    together = [starter, "--allow-run-as-root", "--oversubscribe", "-n", 2]
    print(f"{'network':10} {'':5} {'one':>9} {'threads':>9} {'processes':>9}   us a sample; threads/one, processes/one: times as fast")
    for network in networks:
        for name, extra in (("float", ["--float"]), ("qat", [])):
            times = [[], [], []]
            for _ in range(5):
                times[0].append(train_time([], 64, 1, 1, network, extra))
                times[1].append(train_time([], 128, 2, 2, network, extra))
                times[2].append(train_time(together, 128, 2, 1, network, extra) if starter else float("nan"))
            one, threads, processes = (1e6 * statistics.median(t) for t in times)
            print(f"{network:10} {name:5} {one:9.1f} {threads:9.1f} {processes:9.1f}   {one / threads:9.2f}  {one / processes:9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["cnn", "resnet8", "mobilenet"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--only", choices=("steps", "scaling"))
    options = parser.parse_args()
    cpus = os.sched_getaffinity(0)
    if options.only != "scaling":
        os.sched_setaffinity(0, {max(cpus)})
        measure_steps(options)
        os.sched_setaffinity(0, cpus)
    if options.only != "steps" and len(cpus) > 1:
        measure_scaling(options.networks)


def measure_steps(options):
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
