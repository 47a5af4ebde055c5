#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include "folder/..." against tools/layers.txt."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTRIES = {"ops": "ops/ops.h", "passes": "passes/passes.h", "io": "io/io.h"}


def read_rules():
    rules = {}
    for line in (ROOT / "tools/layers.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, allowed = line.split(":")
            rules[folder] = allowed.split()
    return rules


def allowed(folder, include, rules, path):
    target = include.split("/")[0]
    if target in ("intact", "onnx") or target == folder:
        return True
    for rule in rules[folder]:
        if rule == target or (("/" in rule) and include.startswith(rule + "/")):
            return True
        if rule == target + "(registry)" and include == REGISTRIES.get(target):
            return True
    # fix-ups of a format name particular ops; c_source exports plans
    return folder == "io" and ((path.name.count("_fixups") and target == "ops") or ("c_source" in path.parts and target == "plan"))


def main():
    rules, wrong = read_rules(), 0
    files = [p for top in ("src", "cli", "examples") for p in sorted((ROOT / top).rglob("*.[ch]"))]
    for path in files:
        parts = path.relative_to(ROOT).parts
        folder = parts[1] if parts[0] == "src" else parts[0]
        if folder not in rules:
            print(f"{path.relative_to(ROOT)}:1: folder '{folder}' has no row in tools/layers.txt")
            wrong += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            include = found.group(1)
            if "/" not in include:
                if folder in ("cli", "examples") and (path.parent / include).exists():
                    continue
                print(f"{path.relative_to(ROOT)}:{number}: \"{include}\" has no folder; write \"folder/file.h\"")
                wrong += 1
            elif not allowed(folder, include, rules, path):
                print(f"{path.relative_to(ROOT)}:{number}: {folder} may not include \"{include}\" (tools/layers.txt)")
                wrong += 1
        if folder == "kernels" and "/float/" not in str(path):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(r"#\s*include\s+<(dnnl|jansson|zip|png|jpeglib)", line):
                    print(f"{path.relative_to(ROOT)}:{number}: only kernels/float and the importers use such libraries")
                    wrong += 1
    print(f"{len(files)} files, {wrong} wrong includes")
    return 1 if wrong else 0


sys.exit(main())
