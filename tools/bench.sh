#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench [kernels|affine|networks|train] [arguments]: ratios in one run, pinned to one CPU. Without a name: networks.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-networks}
shift || true
cpu=$(($(nproc) - 1))
case $name in
  kernels | affine)
    ninja -C build/release "bench_$name" >build/bench.log 2>&1 || { cat build/bench.log >&2; exit 1; }
    program=$(find build/release -type f -name "bench_$name" -perm -u+x | head -1)
    if [ "$name" = affine ]; then # PyTorch's operators beside ours where PyTorch can be imported ($INTACT_TORCH names a python)
      python=${INTACT_TORCH:-python3}
      if "$python" -c 'import torch' 2>/dev/null; then
        taskset -c "$cpu" "$python" bench/affine_torch.py >build/affine_torch.txt && set -- build/affine_torch.txt "$@"
      fi
    fi
    exec taskset -c "$cpu" "$program" "$@" ;;
  networks) exec python3 tools/bench_networks.py "$@" ;;
  train)
    ninja -C build/release bench_train >build/bench.log 2>&1 || { cat build/bench.log >&2; exit 1; }
    exec python3 tools/bench_train.py "$@" ;;
  *) echo "no benchmark '$name': kernels affine networks train" >&2; exit 2 ;;
esac
