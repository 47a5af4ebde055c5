#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages from the command's own tables: docs/ops.md, kernels.md, tables.md, cli.md, the man page and the bash
completion. `gen_docs.py [INTACT]`; with --check before it compares instead of writing."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def call(intact, *arguments):
    return subprocess.run([intact, *arguments], check=True, capture_output=True, text=True).stdout


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(intact, verb, leave_out=()):
    rows = json.loads(call(intact, verb, "--json"))["rows"]
    if not rows:
        return "(none)\n"
    columns = [c for c in rows[0] if c not in leave_out]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row[c]) for c in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def pages(intact):
    made = "Made by `./dev docs` from the tables; not edited by hand.\n\n"
    yield "docs/ops.md", "# Ops\n\n" + made + table(intact, "ops")
    yield "docs/kernels.md", "# Integer kernels\n\n" + made + table(intact, "kernels", ("available",))
    tables = ("quantizers", "observers", "fake_quantizers", "optimizers", "schedulers", "networks", "passes", "formats")
    other = "".join(f"## {verb.replace('_', ' ').capitalize()}\n\n{table(intact, verb)}\n" for verb in tables)
    yield "docs/tables.md", "# Quantizers, observers, training, passes, formats\n\n" + made + other
    verbs = [v["name"] for v in json.loads(call(intact, "help", "--json"))["verbs"]]
    text = "# The command\n\n" + made + "```\n" + call(intact, "--help") + "```\n"
    for verb in verbs:
        text += f"\n## {verb}\n\n```\n" + call(intact, verb, "--help") + "```\n"
    yield "docs/cli.md", text
    yield "docs/intact.1", call(intact, "help", "--man")
    yield "docs/intact.bash", call(intact, "help", "--completion")


def main():
    check = len(sys.argv) > 1 and sys.argv[1] == "--check"
    given = sys.argv[2:] if check else sys.argv[1:]
    intact = given[0] if given else str(ROOT / "build/release/bin/intact")
    stale = []
    for name, text in pages(intact):
        path = ROOT / name
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
            print(f"wrote {name}")
    if stale:
        print("not fresh, run ./dev docs: " + ", ".join(stale))
    return 1 if stale else 0


sys.exit(main())
