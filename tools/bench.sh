#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds bench/bench_<name>.c and runs it: ./dev bench [NAME [arguments]]; without a name all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
JOBS=${JOBS:-$(nproc)}
mkdir -p build
[ -f build/bench/build.ninja ] || cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DINTACT_TESTS=OFF >build/bench.log

# What PyTorch takes for the same, where some Python here can import it: INTACT_PYTHON, a cached environment, python3.
torch_times() {
  local python
  for python in "${INTACT_PYTHON:-}" build/venv/bin/python python3; do
    [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 || continue
    if "$python" bench/affine_torch.py >"$1" 2>/dev/null; then return 0; fi
  done
  printf 'bench: no Python with torch here: ratios to PyTorch are left out (set INTACT_PYTHON)\n' >&2
  : >"$1"
}

run() {
  local name=$1
  shift
  [ -f "bench/bench_$name.c" ] || { printf 'bench: no bench/bench_%s.c; there are: %s\n' "$name" "$(ls bench | sed -n 's/^bench_\(.*\)\.c$/\1/p' | tr '\n' ' ')" >&2; exit 2; }
  ninja -C build/bench -j"$JOBS" "bench_$name" >build/bench.build.log 2>&1 || { cat build/bench.build.log >&2; exit 1; }
  if [ "$name" = affine ]; then
    torch_times build/bench/affine_torch.txt
    set -- build/bench/affine_torch.txt "$@"
  fi
  "$(find build/bench -name "bench_$name" -type f | head -1)" "$@"
}

if [ $# -gt 0 ]; then
  run "$@"
else
  for source in bench/bench_*.c; do
    name=${source#bench/bench_}
    printf '== %s\n' "${name%.c}"
    run "${name%.c}"
  done
fi
