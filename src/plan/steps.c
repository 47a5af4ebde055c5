/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that no row lowers: evaluation by definition, change of layout. */
#include <assert.h>
#include <string.h>

#include "plan/plan.h"

enum { FEW = 16, TILE = 16 };

static intact_status borrow(intact_context *context, const intact_value *value, const void *data, intact_tensor **tensor) {
  return intact_tensor_borrow(context, value->dtype, value->rank, value->dims, data, tensor);
}

static intact_status eval_over(const intact_step_call *call, intact_tensor **tensors) {
  const intact_node *node = call->step->node;
  intact_tensor **planned = tensors + node->n_operands, **results = planned + node->n_results;
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL) INTACT_TRY(borrow(call->context, node->operands[i], call->in[i], &tensors[i]));
  for (int i = 0; i < node->n_results; i++) {
    INTACT_TRY(borrow(call->context, node->results[i], call->out[i], &planned[i]));
    results[i] = planned[i];
  }
  const intact_interp_options options = {.fast = true};
  const intact_call eval = {.context = call->context,
                            .node = node,
                            .n_operands = node->n_operands,
                            .n_results = node->n_results,
                            .operands = (const intact_tensor *const *)tensors,
                            .results = results,
                            .options = &options};
  const intact_status status = node->op->eval_fast != NULL ? node->op->eval_fast(&eval) : node->op->eval_f32(&eval);
  for (int i = 0; i < node->n_results; i++) {
    if (results[i] == planned[i] || results[i] == NULL) continue;
    if (status == INTACT_OK) {
      assert(intact_tensor_bytes(results[i]) == intact_tensor_bytes(planned[i]));
      memcpy(planned[i]->data, results[i]->data, intact_tensor_bytes(planned[i]));
    }
    intact_tensor_destroy(results[i]);
  }
  return status;
}

intact_status intact__run_float_step(const intact_step_call *call) {
  const intact_node *node = call->step->node;
  const size_t owned = (size_t)node->n_operands + (size_t)node->n_results, n = owned + (size_t)node->n_results;
  intact_tensor *few[FEW] = {NULL}, **tensors = few;
  if (n > FEW) {
    tensors = intact__alloc_zeroed(call->context, n, sizeof(intact_tensor *));
    if (tensors == NULL) return intact__no_memory(call->context, n * sizeof(intact_tensor *));
  }
  const intact_status status = eval_over(call, tensors);
  for (size_t i = 0; i < owned; i++) intact_tensor_destroy(tensors[i]);
  if (tensors != few) intact__free(call->context, tensors);
  return status;
}

bool intact__relayout_of(const intact_value *value, bool to_channels_last, intact_relayout *shape) {
  const int bits = intact_dtype_bits(value->dtype);
  if (bits % 8 != 0 || value->rank < 3) return false;
  int64_t spatial = 1;
  for (int i = 2; i < value->rank; i++) spatial *= value->dims[i];
  *shape = (intact_relayout){.outer = value->dims[0],
                             .n = to_channels_last ? value->dims[1] : spatial,
                             .m = to_channels_last ? spatial : value->dims[1],
                             .size = (size_t)bits / 8};
  return true;
}

#define MOVE(type)                                                                                   \
  for (int64_t i = i0; i < i1; i++)                                                                  \
    for (int64_t k = k0; k < k1; k++) ((type *)to)[k * n + i] = ((const type *)from)[i * m + k];

static void move_tile(const intact_relayout *shape, const char *from, char *to, int64_t i0, int64_t k0) {
  const int64_t n = shape->n, m = shape->m, i1 = i0 + TILE < n ? i0 + TILE : n, k1 = k0 + TILE < m ? k0 + TILE : m;
  const size_t size = shape->size;
  if (size == 1) {
    MOVE(uint8_t)
  } else if (size == 4) {
    MOVE(uint32_t)
  } else {
    for (int64_t i = i0; i < i1; i++)
      for (int64_t k = k0; k < k1; k++) memcpy(to + (size_t)(k * n + i) * size, from + (size_t)(i * m + k) * size, size);
  }
}

void intact__relayout(const intact_relayout *shape, const void *from, void *to) {
  const size_t piece = (size_t)(shape->n * shape->m) * shape->size;
  for (int64_t o = 0; o < shape->outer; o++) {
    const char *source = (const char *)from + (size_t)o * piece;
    char *target = (char *)to + (size_t)o * piece;
    for (int64_t i = 0; i < shape->n; i += TILE)
      for (int64_t k = 0; k < shape->m; k += TILE) move_tile(shape, source, target, i, k);
  }
}

intact_status intact__run_relayout_step(const intact_step_call *call) {
  intact__relayout(call->step->params, call->in[0], call->out[0]);
  return INTACT_OK;
}
