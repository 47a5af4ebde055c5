#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parses every kernel row's name against the grammar intact_<family>_<dtypes>[_<tile>]__<isa>; with a name as argument,
explains it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = ("s8c", "u8", "s8", "s16", "u16", "s32", "u32", "s64", "f32", "f16", "bf16", "f64", "x8", "x16", "x32", "u4", "s4", "u2", "s2")
ISAS = ("scalar", "avx2", "avx512", "avx512vnni", "neon")
CODE = "(?:" + "|".join(sorted(DTYPES, key=len, reverse=True)) + ")"
NAME = re.compile(rf"^intact_(?P<what>[a-z0-9]+(?:_[a-z0-9]+)*?)_(?P<dtypes>{CODE}+)(?:_(?P<tile>\d+x\d+(?:x\d+)?))?__(?P<isa>{'|'.join(ISAS)})$")


def main():
    if len(sys.argv) > 1:
        found = NAME.match(sys.argv[1])
        print({k: v for k, v in found.groupdict().items() if v} if found else "no kernel name of the grammar")
        return 0 if found else 1
    wrong = count = 0
    for path in sorted((ROOT / "src/kernels").rglob("*.def")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith(("/*", "*", "//", "#")):
                continue
            for name in re.findall(r"\b(intact_\w+__\w+)\b", line):
                count += 1
                found = NAME.match(name)
                if not found:
                    print(f"{path.relative_to(ROOT)}:{number}: {name} does not follow intact_<family>_<dtypes>[_<tile>]__<isa>")
                    wrong += 1
    print(f"{count} kernel names, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
