#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone as C17 and as C++17, under gcc and (where it is installed) clang.
set -euo pipefail
cd "$(dirname "$0")/.."
flags="-Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only"
count=0
for header in include/intact/*.h; do
  for c in gcc clang; do
    command -v $c >/dev/null || continue
    printf '#include "%s"\ntypedef int used;\n' "$PWD/$header" | $c -std=c17 $flags -x c -
    case $c in gcc) cxx=g++ ;; *) cxx=clang++ ;; esac
    printf '#include "%s"\n' "$PWD/$header" | $cxx -std=c++17 $flags -x c++ -
    count=$((count + 2))
  done
done
echo "$count compilations of headers alone"
[ "$count" -gt 0 ]
