#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libFuzzer on the readers: tools/fuzz.sh [TARGET [SECONDS]], after `./dev build fuzz`. Without a target all of them, 60 s each.
# New inputs are kept in build/fuzz/corpus/<target>; an input that fails is written there as crash-*, leak-* or timeout-*.
set -eu
cd "$(dirname "$0")/.."
seconds=${2:-60}
root=
for place in "${INTACT_SHARED:-}" tests/data/reference ../shared; do
  if [ -n "$place" ] && [ -d "$place/samples" ]; then root=$place; break; fi
done
[ -n "$root" ] || echo "*** no reference samples: starting from nothing" >&2
for program in build/fuzz/tests/fuzz_${1:-*}; do
  [ -x "$program" ] || { echo "there is no fuzz target '${1:-}'" >&2; exit 1; }
  name=${program##*/fuzz_}
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=
  format=$name
  [ "$name" = npz ] && format=npy
  for folder in "fuzz/corpus/$name" "$root/samples/$format" "$root/samples/broken/$format"; do
    [ -d "$folder" ] && seeds="$seeds $folder"
  done
  echo "fuzz $name: $seconds s"
  # shellcheck disable=SC2086
  "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$corpus/" "$corpus" $seeds 2>&1 | grep -E 'ERROR|SUMMARY|DEATH|Test unit|number_of_executed|heap asked' || true
  ! ls "$corpus"/crash-* "$corpus"/leak-* "$corpus"/timeout-* "$corpus"/oom-* 2>/dev/null || exit 1
done
