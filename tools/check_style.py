#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greps: SPDX line and purpose on top, no tabs, trailing blanks, missing final newlines, dead code, unfinished marks; unique
file names; every public header and every row where the tables say."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = (".c", ".h", ".def")
wrong = 0


def say(path, number, text):
    global wrong
    wrong += 1
    print(f"{path.relative_to(ROOT)}:{number}: {text}")


def check_file(path):
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return say(path, 1, "not UTF-8")
    lines = text.split("\n")
    if lines[0] != "/* SPDX-License-Identifier: Apache-2.0 */":
        say(path, 1, "the first line must be the SPDX line")
    elif len(lines) < 2 or not lines[1].startswith("/* "):
        say(path, 2, "the second line must begin the comment that says the purpose")
    if lines[-1] != "":
        say(path, len(lines), "no newline at the end")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            say(path, number, "tab")
        if line != line.rstrip():
            say(path, number, "trailing blanks")
        if re.match(r"\s*#\s*if 0\b", line):
            say(path, number, "#if 0")
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            say(path, number, "unfinished mark")
        if re.search("[\u200b-\u200f\u2028-\u202e\ufeff]", line):
            say(path, number, "invisible character")
        if len(line) > 160:
            say(path, number, f"{len(line)} columns; 125 wanted, 160 the wall")


def check_unique(files):
    names = collections.defaultdict(list)
    for path in files:
        if path.suffix == ".c" and path.relative_to(ROOT).parts[0] == "src":
            names[path.name].append(path)
    for paths in names.values():
        for path in paths[1:]:
            say(path, 1, f"file name already used by {paths[0].relative_to(ROOT)}")


def rows_of(definition, macro):
    return re.findall(rf"^{macro}\((\w+)", definition.read_text(), re.M) if definition.exists() else []


def check_tables():
    """Rows defined in sources are listed, and listed rows are defined: op, observer, quantizer, pass, format, verb."""
    tables = [("src/ops/ops.def", "INTACT_OP(?:_FULL)?", "src/ops", "intact_op"),
              ("src/quant/observers/observers.def", "INTACT_OBSERVER", "src/quant/observers", "intact_observer"),
              ("src/quant/quantizers/quantizers.def", "INTACT_QUANTIZER", "src/quant/quantizers", "intact_quantizer"),
              ("src/passes/passes.def", "INTACT_PASS", "src/passes", "intact_pass"),
              ("src/io/formats.def", "INTACT_FORMAT(?:_RUNTIME)?", "src/io", "intact_format"),
              ("cli/verbs.def", "INTACT_VERB", "cli", "intact_verb")]
    for definition, macro, folder, kind in tables:
        path = ROOT / definition
        listed = set(rows_of(path, macro))
        defined = set()
        for source in sorted((ROOT / folder).rglob("*.c")):
            defined |= set(re.findall(rf"^const {kind} {kind}_(\w+)\s*=", source.read_text(), re.M))
            defined |= set(re.findall(rf"^[A-Z_]+\({kind}_(\w+)", source.read_text(), re.M))
        for name in sorted(defined - listed):
            say(path, 1, f"row {name} is defined in {folder} but not listed")


def check_kernel_rows():
    """Every function of the kernels' naming grammar stands in a .def row, and no row names a function that is not there."""
    rows, functions = set(), set()
    for path in (ROOT / "src/kernels").rglob("*"):
        if path.suffix == ".def":
            rows |= set(re.findall(r"\b(intact_\w+__(?:scalar|avx2|avx512|avx512vnni|neon)\w*)", path.read_text()))
        elif path.suffix == ".c":
            functions |= set(re.findall(r"^(?:void|static void|int|size_t)[^\n;]*?\b(intact_\w+__(?:scalar|avx2|avx512|avx512vnni|neon))\(",
                                        path.read_text(), re.M))
    for name in sorted(functions - rows):
        say(ROOT / "src/kernels/kernels.c", 1, f"kernel {name} stands in no .def row")


def main():
    files = [p for top in ("include", "src", "cli", "tests", "bench", "fuzz", "examples") for p in sorted((ROOT / top).rglob("*"))
             if p.suffix in SOURCES and "data" not in p.relative_to(ROOT).parts[1:2] + ("",)]
    for path in files:
        check_file(path)
    check_unique(files)
    check_tables()
    check_kernel_rows()
    print(f"{len(files)} files, {wrong} findings")
    return 1 if wrong else 0


sys.exit(main())
