/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose result is a strided view of operand 0: one function plans the view, evaluation and gradient follow from it. */
#ifndef INTACT_OPS_MOVE_H
#define INTACT_OPS_MOVE_H

#include "ops/common.h"
#include "ops/lower.h"

/* The view and the shape of the result, for concrete shapes. */
typedef struct intact_move {
  intact_view from;
  int rank;
  int64_t dims[INTACT_MAX_RANK];
} intact_move;

#define INTACT_MOVE_FUNCTIONS(op)                                              \
  static intact_status op##_eval(const intact_call *call) {                    \
    intact_move move = {0};                                                    \
    INTACT_TRY(op##_plan(call, &move));                                        \
    return intact__call_view(call, move.rank, move.dims, &move.from);          \
  }                                                                            \
  static intact_status op##_grad(intact_grad *grad) {                          \
    intact_move move = {0};                                                    \
    const intact_call call = intact__call_of_grad(grad);                       \
    if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;      \
    INTACT_TRY(op##_plan(&call, &move));                                       \
    return intact__grad_through_view(grad, 0, &move.from, grad->d_results[0]); \
  }

#define INTACT_MOVE_SCHEMA(...) \
  { __VA_ARGS__ }
/* layout: INTACT_INT_ANY when the axes stay, INTACT_INT_ROWS when they change. */
#define INTACT_MOVE_ROW(layout, op, text, schema_, ...) \
  INTACT_MOVE_FUNCTIONS(op)                             \
  const intact_op intact_op_##op = {                    \
      .name = #op,                                      \
      .doc = text,                                      \
      .schema = schema_,                                \
      .infer = op##_infer,                              \
      .eval_f32 = op##_eval,                            \
      .grad = op##_grad,                                \
      .quant = {.result = INTACT_RESULT_SAME_AS},       \
      .int_layout = layout,                             \
      .check_int = intact__check_movement,              \
      .lower_int = intact__lower_movement,              \
      .on_integers = true,                              \
      .aliases = INTACT_ALIASES(__VA_ARGS__),           \
  };

#define INTACT_A_INT_NEEDED(what) \
  { .name = what, .type = INTACT_ATTR_INT, .required = true }
#define INTACT_A_INTS_NEEDED(what) \
  { .name = what, .type = INTACT_ATTR_INTS, .required = true }

#endif
