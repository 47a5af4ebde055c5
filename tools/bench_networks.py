#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Integer against float on the small networks, one thread, batch 1 and 64: medians of 5 interleaved runs; ONNX Runtime beside them
when the oracle environment is there. Prints ratios, not claims about other days."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INTACT = ROOT / "build/release/bin/intact"
MODELS = ROOT / "tests/data/reference/models"
ORACLE = pathlib.Path(os.environ.get("INTACT_ORACLE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "intact/oracle") / "bin/python3"
ORT = """
import sys, time, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
x = numpy.random.default_rng(0).standard_normal((int(sys.argv[2]), 1, 28, 28), dtype=numpy.float32)
times = []
for run in range(int(sys.argv[3]) + 3):
    start = time.perf_counter()
    session.run(None, {session.get_inputs()[0].name: x})
    times.append((time.perf_counter() - start) * 1e3)
print(sorted(times[3:])[len(times[3:]) // 2])
"""


def ours(model, engine, batch, runs):
    out = subprocess.run([INTACT, "bench", model, "--engine", engine, "--batch", str(batch), "--threads", "1", "--runs", str(runs), "--json"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)["ms_median"]


def ort(model, batch, runs):
    if not ORACLE.exists():
        return float("nan")
    return float(subprocess.run([ORACLE, "-c", ORT, str(model), str(batch), str(runs)], capture_output=True, text=True, check=True).stdout)


def main():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as place:
        print(f"{'network':10} {'batch':>5} {'int':>9} {'float':>9} {'ORT float':>9} {'ORT int8':>9}   int/float  int/ORT float")
        for name in ("cnn", "resnet8", "mobilenet"):
            model, out = MODELS / name / "model.onnx", pathlib.Path(place) / f"{name}.onnx"
            subprocess.run([INTACT, "quantize", model, "--data", MODELS / "data/train-512-images-idx3-ubyte", "--mean", "0.286", "--std",
                            "0.353", "-o", out, "--quiet"], check=True, capture_output=True)
            for batch, runs in ((1, 300), (64, 15)):
                rounds = [(ours(out, "int", batch, runs), ours(model, "float", batch, runs), ort(model, batch, runs), ort(out, batch, runs))
                          for _ in range(5)]
                i, f, of, oi = (statistics.median(column) for column in zip(*rounds))
                print(f"{name:10} {batch:5} {i:9.4f} {f:9.4f} {of:9.4f} {oi:9.4f}   {i / f:9.2f}  {i / of:13.2f}", flush=True)


sys.exit(main())
