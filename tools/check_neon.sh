#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the NEON kernels with a cross compiler and runs their checks under qemu-user; 77 (skipped) when either is missing.
# Debian: gcc-aarch64-linux-gnu qemu-user.
set -eu
cd "$(dirname "$0")/.."
CC=${CROSS_CC:-aarch64-linux-gnu-gcc}
QEMU=${QEMU:-qemu-aarch64}
command -v "$CC" >/dev/null 2>&1 && command -v "$QEMU" >/dev/null 2>&1 || {
  echo "SKIPPED: the NEON kernels were not run: $CC and $QEMU are needed (Debian: gcc-aarch64-linux-gnu qemu-user)"
  exit 77
}
out=${1:-build/neon}
mkdir -p "$out"
flags="-std=c17 -O2 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wcast-qual -Wvla -Wundef -Wstrict-prototypes
       -Wmissing-prototypes -Werror -ffp-contract=off -static -Iinclude -Isrc -Itests -Itests/neon"
# shellcheck disable=SC2086
"$CC" $flags -o "$out/affine" tests/neon/affine_neon_main.c src/kernels/affine/affine_neon.c src/kernels/affine/*_scalar.c -lm
"$QEMU" "$out/affine"
