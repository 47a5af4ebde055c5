#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of networks trained for integers: docs/accuracy.md. From the float weights of the reference models, at most four epochs over the
60,000 Fashion-MNIST training images (Debian package dataset-fashion-mnist), mean of seeds 0 to 2 on the 10,000 test images.
accuracy.py INTACT [--models A,B] [--seeds N] [--rows A,B] [--samples N] [--epochs N]. Results are kept in build/accuracy: a run that was
interrupted goes on where it was; --kept writes the page from what is there."""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/accuracy"
SOURCE = pathlib.Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
FILES = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}
FLOAT = {"cnn": 92.24, "resnet8": 91.16, "mobilenet": 91.39, "mlp": 88.13}
# name: options of the row
ROWS = {
    "float, trained on": ["--float", "--lr", "1e-3"],
    "W8A8": ["--lr", "1e-3"],
    "W4A4, LSQ": ["--lr", "2e-3", "--method", "lsq", "--bits-weights", "4", "--bits-activations", "4"],
    "W2A4, LSQ": ["--lr", "2e-3", "--method", "lsq", "--bits-weights", "2", "--bits-activations", "4"],
}
COMMON = ["--batch", "128", "--mean", "0.286", "--std", "0.353"]


def reference():
    for place in (os.environ.get("INTACT_SHARED"), ROOT / "tests/data/reference", ROOT.parent / "shared"):
        if place and (pathlib.Path(place) / "models/cnn/model.safetensors").exists():
            return pathlib.Path(place) / "models"
    sys.exit("no reference models found: $INTACT_SHARED, tests/data/reference, ../shared")


def unpack():
    """The gzipped files of the package, unpacked once."""
    for name in sum(FILES.values(), ()):
        target = WORK / name
        if not target.exists():
            target.write_bytes(gzip.decompress((SOURCE / (name + ".gz")).read_bytes()))


def run(intact, model, row, seed, options):
    key = f"{model} {row} {seed} {options.epochs} {options.samples}".replace(" ", "-").replace(",", "")
    kept = WORK / (key + ".json")
    if kept.exists():
        return json.loads(kept.read_text())
    if options.kept:
        return None
    images, labels = FILES["train"]
    command = [intact, "train", "--from-scratch", model, "--weights", reference() / model / "model.safetensors", "--data", WORK / images,
               "--labels", WORK / labels, "--test-data", WORK / FILES["test"][0], "--test-labels", WORK / FILES["test"][1], *COMMON, *ROWS[row],
               "--epochs", options.epochs, "--seed", seed, "-o", WORK / (key + ".onnx"), "--json", "--quiet"]
    if options.samples:
        command += ["--samples", options.samples]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    kept.write_text(json.dumps(result))
    print(f"{model} {row} seed {seed}: {result['accuracy']:.2f} %, {result['seconds']:.0f} s", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("intact")
    parser.add_argument("--models", default="cnn,resnet8,mobilenet")
    parser.add_argument("--rows", default=";".join(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--kept", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    unpack()
    models, rows = options.models.split(","), options.rows.split(";")
    lines = ["| | " + " | ".join(models) + " |", "|" + "---|" * (len(models) + 1),
             "| float | " + " | ".join(f"{FLOAT[m]:.2f}" for m in models) + " |"]
    for row in rows:
        cells = []
        for model in models:
            results = [run(options.intact, model, row, seed, options) for seed in range(options.seeds)]
            values = [result["accuracy"] for result in results if result]
            cells.append(f"{sum(values) / len(values):.2f} ({min(values):.2f}..{max(values):.2f})" if len(values) == options.seeds else "")
        if not any(cells):
            continue
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    commands = "\n".join(f"* {row}: `{' '.join(ROWS[row])}`" for row in rows)
    text = f"""# Accuracy of trained networks

Made by `./dev accuracy`. Percent of the 10,000 Fashion-MNIST test images, by the integer program (float rows by the float kernels): the mean
of {options.seeds} seed(s) and the range over them. Each starts from the float weights of the reference model and is trained for {options.epochs} epoch(s) over
{options.samples or 60000:,} training images with AdamW and a cycle of the learning rate; first and last layer keep 8 bits.

{chr(10).join(lines)}

The first row is the float network as it is; "float, trained on" is the same network trained on in the same way without quantization, which is
what the others are to be compared with. Options of the rows, besides `{' '.join(COMMON)} --epochs {options.epochs}`:

{commands}
"""
    (ROOT / "docs/accuracy.md").write_text(text)
    print(text)
    return 0


sys.exit(main())
