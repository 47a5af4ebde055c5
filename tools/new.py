#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev new-op NAME, new-kernel FAMILY ISA, new-pass NAME: writes the files of a new row and adds its line to the table."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"

OP = SPDX + """/* The op {name}. */
#include "graph/op.h"

static intact_status infer_{name}(intact_infer *infer) {{
  intact_value *x = infer->node->operands[0], *y = infer->node->results[0];
  y->dtype = x->dtype;
  y->rank = x->rank;
  for (int i = 0; i < x->rank; i++) y->dims[i] = x->dims[i];
  return INTACT_OK;
}}

static intact_status eval_{name}(const intact_call *call) {{
  const intact_tensor *x = call->operands[0];
  intact_tensor *y;
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->count; i++) intact__f32(y)[i] = intact__f32(x)[i]; /* the definition of {name} */
  return INTACT_OK;
}}

const intact_op intact_op_{name} = {{
    .name = "{name}",
    .doc = "y = {name}(x)",
    .schema = {{INTACT_OPERANDS({{"x", INTACT_ROLE_ACTIVATION, 0}}), INTACT_RESULTS("y")}},
    .infer = infer_{name},
    .eval_f32 = eval_{name},
    .grad = intact__grad_none,
    .quant = {{.result = INTACT_RESULT_OWN}},
    .int_layout = INTACT_INT_ANY,
}};
"""

CASE = SPDX + """/* Cases of the op {name}: write the shapes, attributes and expected values that some other source gives. */
#include "tests_case_of_{name}_is_not_written"
"""

KERNEL = SPDX + """/* {family} for {isa}: equal to {family}_scalar.c bit for bit. */
#include "kernels/{family}/{family}.h"
"""

PASS = SPDX + """/* The pass {name}. */
#include "graph/pass.h"
"""


def add_sorted(path, line, keep_order):
    text = path.read_text().splitlines()
    macro = line.split("(")[0]
    if line in text:
        sys.exit(f"{path.relative_to(ROOT)} has this row already")
    rows = [i for i, l in enumerate(text) if l.startswith(macro + "(")]
    at = rows[-1] + 1 if rows else len(text)
    if not keep_order:
        at = next((i for i in rows if text[i] > line), at)
    text.insert(at, line)
    path.write_text("\n".join(text) + "\n")


def write(path, text):
    if path.exists():
        sys.exit(f"{path.relative_to(ROOT)} is there already")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")


def main():
    kind, *names = sys.argv[1:] or ["?"]
    if not names or not all(re.fullmatch(r"[a-z][a-z0-9_]*", n) for n in names):
        sys.exit("usage: ./dev new-op NAME | new-kernel FAMILY ISA | new-pass NAME   (names in snake_case)")
    if kind == "op":
        write(ROOT / f"src/ops/{names[0]}.c", OP.format(name=names[0]))
        write(ROOT / f"tests/ops/cases/{names[0]}.c", CASE.format(name=names[0]))
        add_sorted(ROOT / "src/ops/ops.def", f"INTACT_OP({names[0]})", False)
    elif kind == "pass":
        write(ROOT / f"src/passes/{names[0]}.c", PASS.format(name=names[0]))
        add_sorted(ROOT / "src/passes/passes.def", f"INTACT_PASS({names[0]})", True)
    elif kind == "kernel" and len(names) == 2:
        family, isa = names
        if not (ROOT / f"src/kernels/{family}/{family}.def").exists():
            sys.exit(f"there is no family '{family}': {', '.join(sorted(p.name for p in (ROOT / 'src/kernels').iterdir() if p.is_dir()))}")
        write(ROOT / f"src/kernels/{family}/{family}_{isa}.c", KERNEL.format(family=family, isa=isa))
        print(f"now write the function and add its row, best first, to src/kernels/{family}/{family}.def")
    else:
        sys.exit("usage: ./dev new-op NAME | new-kernel FAMILY ISA | new-pass NAME")


main()
