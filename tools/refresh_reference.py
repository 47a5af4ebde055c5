#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the reference sets into tests/data/reference and says what changed.

usage: tools/refresh_reference.py [--check] [SOURCE]

SOURCE is the folder that holds conformance, samples and models (default: $INTACT_SHARED, else ../shared beside the sources).
With --check nothing is written; the exit code is 1 when the copy differs.
"""

import hashlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "tests" / "data" / "reference"
# What a lone clone needs: all cases, all samples, the small networks with their data.
WANTED = {
    "conformance": ("*.json", "*.safetensors", "*.md", "*.pt2", "*.pt", "*.onnx"),
    "samples": ("*",),
    "models": ("model.*", "sample.safetensors", "info.json", "*-ubyte", "README.md", "peers.json"),
}


def wanted_files(source):
    files = {}
    for top, patterns in WANTED.items():
        for path in sorted((source / top).rglob("*")):
            if path.is_file() and any(path.match(pattern) for pattern in patterns):
                files[path.relative_to(source).as_posix()] = path
    return files


def present_files():
    if not COPY.is_dir():
        return {}
    return {p.relative_to(COPY).as_posix(): p for p in sorted(COPY.rglob("*")) if p.is_file()}


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest()


def write(source, target):
    """The file appears whole or not at all; it can be written again later whatever the source's mode."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(target.name + ".unfinished")
    beside.write_bytes(source.read_bytes())
    beside.chmod(0o644)
    beside.replace(target)


def remove(path):
    path.unlink()
    for folder in path.parents:
        if folder == COPY or any(folder.iterdir()):
            break
        folder.rmdir()


def main(arguments):
    check = "--check" in arguments
    places = [a for a in arguments if not a.startswith("-")]
    source = pathlib.Path(places[0] if places else os.environ.get("INTACT_SHARED") or ROOT.parent / "shared").resolve()
    missing = [top for top in WANTED if not (source / top).is_dir()]
    if missing:
        print(f"refresh_reference: {source} has no {', '.join(missing)}", file=sys.stderr)
        return 2
    wanted, present = wanted_files(source), present_files()
    changes = [("new", n) for n in wanted if n not in present]
    changes += [("changed", n) for n in wanted if n in present and digest(wanted[n]) != digest(present[n])]
    changes += [("gone", n) for n in present if n not in wanted]
    for what, name in sorted(changes, key=lambda change: change[1]):
        print(f"{what:8}{name}")
        if not check and what == "gone":
            remove(present[name])
        elif not check:
            write(wanted[name], COPY / name)
    size = sum(path.stat().st_size for path in wanted.values())
    print(f"{len(wanted)} files, {size / 1e6:.1f} MB; {len(changes)} {'differ' if check else 'written or removed'}")
    return 1 if check and changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
