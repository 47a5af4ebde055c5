#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on the small network and the images that the repository ships: quantize, report, evaluate on images it has not seen.
set -euo pipefail
cd "$(dirname "$0")/.."
intact=build/release/bin/intact
data=tests/data/reference/models
normalise="--mean 0.286 --std 0.353"
mkdir -p build/demo

echo "== quantize: resnet8 (trained on Fashion-MNIST), calibrated on 512 of its training images =="
$intact quantize $data/resnet8/model.onnx --data $data/data/train-512-images-idx3-ubyte \
  --labels $data/data/train-512-labels-idx1-ubyte $normalise -o build/demo/resnet8-int8.onnx "$@"
$intact export build/demo/resnet8-int8.onnx -o build/demo/resnet8.intact

echo
echo "== evaluate on 2,000 test images: float, then integer =="
for model in $data/resnet8/model.onnx build/demo/resnet8.intact; do
  printf '%-44s ' "$model"
  $intact eval "$model" --data $data/data/test-2000-images-idx3-ubyte --labels $data/data/test-2000-labels-idx1-ubyte $normalise
done

echo
echo "== latency, one thread, batch 1 =="
for model in $data/resnet8/model.onnx build/demo/resnet8.intact; do
  printf '%-44s ' "$model"
  $intact bench "$model" --threads 1 | tail -1
done
