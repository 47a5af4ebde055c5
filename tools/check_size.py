#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks sizes: files up to 800 lines, functions up to 100 (60 wanted); exceptions in tools/size_exceptions.txt."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_LIMIT, WANTED, LIMIT = 800, 60, 100


def functions(lines):
    """(name, first line, length) of each function: from a line at column 0 that opens a body to the closing brace at column 0."""
    i = 0
    while i < len(lines):
        if re.match(r"^\S.*\{$", lines[i]) or (re.match(r"^ +\S.*\) \{$", lines[i]) and i and re.match(r"^\w.*[(,]$|^\w.*\(.*,$", lines[i - 1])):
            first = i
            while first and re.match(r"^\s", lines[first]):
                first -= 1
            head = " ".join(lines[first : i + 1])
            end = i + 1
            while end < len(lines) and not lines[end].startswith("}"):
                end += 1
            name = re.search(r"(\w+)\s*\(", head)
            if name and "=" not in head.split("(")[0] and not head.startswith(("typedef", "enum")):
                yield name.group(1), first + 1, end - first + 1
            i = end
        i += 1


def main():
    exceptions = {l.strip() for l in (ROOT / "tools/size_exceptions.txt").read_text().splitlines() if l and not l.startswith("#")}
    wrong, long_ones, count = 0, 0, 0
    used = set()
    for top in ("include", "src", "cli", "tests", "bench", "fuzz", "examples"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".def"):
                continue
            relative = path.relative_to(ROOT)
            lines = path.read_text().splitlines()
            if len(lines) > FILE_LIMIT:
                print(f"{relative}: {len(lines)} lines; {FILE_LIMIT} is the wall: split it")
                wrong += 1
            for name, first, length in functions(lines):
                count += 1
                long_ones += length > WANTED
                key = f"{relative}:{name}"
                if length > LIMIT and key in exceptions:
                    used.add(key)
                elif length > LIMIT:
                    print(f"{relative}:{first}: {name} has {length} lines; {LIMIT} is the wall ({WANTED} wanted)")
                    wrong += 1
    for key in sorted(exceptions - used):
        print(f"tools/size_exceptions.txt: {key} is not needed")
        wrong += 1
    print(f"{count} functions, {long_ones} over {WANTED} lines, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
