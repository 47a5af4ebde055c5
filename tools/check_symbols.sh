#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shared library exports names that begin with intact_ and none of the internal intact__.
set -euo pipefail
names=$(nm -D --defined-only "$1" | awk '{print $3}' | grep -vE '^(_init|_fini|__bss_start|_edata|_end)$' || true)
strays=$(grep -vE '^intact_[a-z0-9]' <<<"$names" || true)
if [ -n "$strays" ]; then
  echo "exported without the prefix intact_ (or internal):"
  echo "$strays"
  exit 1
fi
echo "$(wc -l <<<"$names") exported symbols"
