/* SPDX-License-Identifier: Apache-2.0 */
/* What the integer lowerings share: which values they take, how a value lies in memory, constants and memory of the program. */
#include "ops/lower.h"

#include <assert.h>
#include <string.h>

#include "kernels/qlayout/qlayout.h"

bool intact__is_int8(const intact_value *value) {
  if (value == NULL || value->qparams == NULL || value->qparams->n != 1) return false;
  return value->dtype == value->qparams->dtype && (value->dtype == INTACT_U8 || value->dtype == INTACT_S8);
}

const char *intact__check_int8(const intact_node *node, int operand) {
  if (operand >= node->n_operands || !intact__is_int8(node->operands[operand]))
    return "an input is not quantized to 8 bits per tensor";
  if (!intact__is_int8(node->results[0])) return "the output is not quantized to 8 bits per tensor";
  return NULL;
}

int32_t intact__zero_of(const intact_value *value) { return value->qparams->zero_point[0]; }

int64_t intact__value_count(const intact_value *value) {
  int64_t count = 1;
  for (int i = 0; i < value->rank; i++) count *= value->dims[i];
  return count;
}

void intact__lower_strides(const intact_lower *lower, const intact_value *value, int64_t *strides) {
  int rank = value->rank;
  bool last = lower->channels_last && rank >= 3 && rank == lower->node->results[0]->rank;
  int64_t stride = 1;
  if (last) {
    strides[1] = stride;
    stride *= value->dims[1];
  }
  for (int i = rank - 1; i >= 0; i--) {
    if (last && i == 1) continue;
    strides[i] = stride;
    stride *= value->dims[i];
  }
}

intact_status intact__lower_alloc(const intact_lower *lower, size_t count, size_t size, void *pointer) {
  void *memory = intact__arena_alloc(lower->arena, count > 0 ? count : 1, size);
  if (memory == NULL) return intact__no_memory(lower->context, count * size);
  memcpy(pointer, &memory, sizeof memory);
  return INTACT_OK;
}

void intact__lower_packed(const intact_lower *lower) {
  const intact_node *node = lower->node;
  for (int i = 0; i < node->n_operands && i < 64; i++)
    if (node->operands[i] != NULL && node->operands[i]->constant != NULL) lower->step->packed |= UINT64_C(1) << i;
}

intact_status intact__lower_constant(const intact_lower *lower, int operand, const void **data) {
  const intact_value *value = lower->node->operands[operand];
  *data = NULL;
  if (value == NULL || value->constant == NULL) return INTACT_OK;
  const intact_tensor *tensor = value->constant;
  intact_qlayout_copy copy = {.rank = tensor->rank, .size = (size_t)intact_dtype_bits(tensor->dtype) / 8};
  assert(copy.size > 0);
  int64_t stride = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    copy.dims[i] = tensor->dims[i];
    copy.from_strides[i] = stride;
    stride *= tensor->dims[i];
  }
  intact__lower_strides(lower, value, copy.to_strides);
  intact__qlayout_simplify(&copy);
  void *memory = NULL;
  INTACT_TRY(intact__lower_alloc(lower, (size_t)tensor->count, copy.size, &memory));
  intact__qlayout_run(&copy, tensor->data, memory, 0, copy.dims[0]);
  *data = memory;
  return INTACT_OK;
}
