/* SPDX-License-Identifier: Apache-2.0 */
/* Smallest and largest value of every block of a tensor (torchao's granularities): per token, per group, any block. */
#include <string.h>

#include "quant/observers/observer_state.h"
#include "tensor/blocks.h"

typedef struct block_state {
  intact_observer_state base;
  int block_rank; /* -1: the whole tensor */
  int64_t block[INTACT_MAX_RANK];
  bool averaging;
  float constant;
  intact_range_mapping mapping;
  intact_blocks blocks; /* of the batches seen */
} block_state;

/* "1x0x32": a size per axis, the last ones of the tensor; 0 the whole axis; "tensor" all of it. */
static intact_status parse_block(intact_context *context, const intact_observer *row, const char *text, block_state *state) {
  state->block_rank = -1;
  if (strcmp(text, "tensor") == 0) return INTACT_OK;
  int n = 0;
  for (const char *at = text; *at;) {
    char number[24] = "";
    size_t length = strcspn(at, "x");
    int64_t size = -1;
    if (length < sizeof number) memcpy(number, at, length);
    if (n == INTACT_MAX_RANK || !intact__parse_int(number, &size) || size < 0)
      INTACT_FAIL(context, INVALID_VALUE, row->name, "observer %s: block '%s' is neither \"tensor\" nor sizes joined by x, e.g. 1x32",
                  row->name, text);
    state->block[n++] = size;
    at += length + (at[length] == 'x');
  }
  state->block_rank = n;
  return INTACT_OK;
}

static intact_status parse_mapping(intact_context *context, const intact_observer *row, const char *text,
                                   intact_range_mapping *mapping) {
  static const char *const names[] = {"asymmetric", "symmetric", "symmetric_no_clipping_err"};
  static const intact_range_mapping values[] = {INTACT_MAPPING_AFFINE, INTACT_MAPPING_SYMMETRIC,
                                                INTACT_MAPPING_SYMMETRIC_NO_CLIPPING};
  for (int i = 0; i < 3; i++) {
    if (strcmp(text, names[i]) == 0) {
      *mapping = values[i];
      return INTACT_OK;
    }
  }
  INTACT_FAIL(context, INVALID_VALUE, row->name, "observer %s: mapping '%s' is not one of asymmetric, symmetric, symmetric_no_clipping_err",
              row->name, text);
}

enum { BY_OPTION, PER_TOKEN, PER_GROUP };

static intact_status create(intact_context *context, const intact_observer *row, const intact_quant_spec *spec, int granularity,
                            bool averaging, void **state) {
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(intact__quant_range(context, row->name, spec->dtype, spec->reduce_range, &low, &high, NULL));
  INTACT_TRY(intact__observer_check_options(context, row, spec));
  block_state made = {.base = {.row = row}, .averaging = averaging};
  char text[64];
  if (granularity == PER_TOKEN) {
    made.block_rank = 1;
  } else if (granularity == PER_GROUP) {
    made.block_rank = 1;
    made.block[0] = spec->group;
    if (spec->group < 1)
      INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer %s: a group of %lld elements; the spec must give 1 or more", row->name,
                  (long long)spec->group);
  } else {
    intact__observer_option_text(row, spec, "block", text);
    INTACT_TRY(parse_block(context, row, text, &made));
  }
  intact__observer_option_text(row, spec, "mapping", text);
  INTACT_TRY(parse_mapping(context, row, text, &made.mapping));
  if (averaging) {
    double constant = intact__observer_option(row, spec, "averaging_constant");
    if (!(constant >= 0.0 && constant <= 1.0))
      INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer %s: averaging_constant %g is not within 0..1", row->name, constant);
    made.constant = (float)constant;
  }
  block_state *heap = intact__alloc(context, 1, sizeof *heap);
  if (!heap) return intact__no_memory(context, sizeof *heap);
  *heap = made;
  *state = heap;
  return INTACT_OK;
}

static void destroy(intact_context *context, void *state) {
  if (state) intact__observer_state_fini(context, state);
  intact__free(context, state);
}

/* Blocks of this batch; their number must stay. */
static intact_status set_blocks(intact_context *context, block_state *s, const intact_tensor *x) {
  int64_t whole[INTACT_MAX_RANK] = {0};
  int rank = s->block_rank < 0 ? x->rank : s->block_rank;
  INTACT_TRY(intact__blocks_create(context, s->base.row->name, x->rank, x->dims, rank, s->block_rank < 0 ? whole : s->block, &s->blocks));
  return intact__observer_set_n(context, &s->base, s->blocks.n);
}

static intact_status update(intact_context *context, void *state, const intact_tensor *x) {
  block_state *s = state;
  if (x->count == 0) return INTACT_OK;
  intact_tensor *values;
  INTACT_TRY(set_blocks(context, s, x));
  INTACT_TRY(intact__observer_input(context, &s->base, x, &values));
  intact_min_max *batch = intact__alloc(context, (size_t)s->base.n, sizeof *batch);
  if (!batch) {
    intact_tensor_destroy(values);
    return intact__no_memory(context, (size_t)s->base.n * sizeof *batch);
  }
  for (int64_t i = 0; i < s->base.n; i++) batch[i] = (intact_min_max)INTACT_MIN_MAX_START;
  int64_t run = x->rank > 0 ? s->blocks.block[x->rank - 1] : 1; /* elements of a block that lie together */
  for (int64_t i = 0; i < x->count; i += run)
    intact__min_max_array(intact__isa_set(context), intact__f32(values) + i, run, &batch[intact__block_of(&s->blocks, i)]);
  for (int64_t i = 0; i < s->base.n; i++) intact__observer_take(&s->base, i, &batch[i], s->averaging, s->constant);
  intact__free(context, batch);
  intact_tensor_destroy(values);
  return INTACT_OK;
}

static intact_status merge(intact_context *context, void *state, const void *other) {
  block_state *s = state;
  const block_state *o = other;
  if (o->base.counts.batches == 0) return INTACT_OK;
  INTACT_TRY(intact__observer_merge_ranges(context, &s->base, &o->base, s->averaging));
  s->blocks = o->blocks;
  return INTACT_OK;
}

/* Per tensor, per channel or in groups along the last axis, if the blocks have one of these forms. */
static intact_status qparams_form(intact_context *context, const block_state *s, intact_qscheme *scheme, int *axis, int64_t *group) {
  const intact_blocks *b = &s->blocks;
  int cut = -1, cuts = 0; /* axes with more than one block */
  bool ones = true;       /* all axes but the last have blocks of 1 */
  for (int i = 0; i < b->rank; i++) {
    if (b->counts[i] > 1) {
      cut = i;
      cuts++;
    }
    if (i + 1 < b->rank && b->block[i] != 1) ones = false;
  }
  *group = 0;
  *axis = -1;
  *scheme = s->mapping == INTACT_MAPPING_AFFINE ? INTACT_PER_TENSOR_AFFINE : INTACT_PER_TENSOR_SYMMETRIC;
  if (cuts == 0) return INTACT_OK;
  if (cuts == 1 && b->block[cut] == 1) {
    *scheme = s->mapping == INTACT_MAPPING_AFFINE ? INTACT_PER_CHANNEL_AFFINE : INTACT_PER_CHANNEL_SYMMETRIC;
    *axis = cut;
    return INTACT_OK;
  }
  if (ones) {
    *scheme = INTACT_PER_GROUP_AFFINE;
    *axis = b->rank - 1;
    *group = b->block[b->rank - 1];
    return INTACT_OK;
  }
  INTACT_FAIL(context, WRONG_USE, s->base.row->name, "observer %s: qparams of blocks that span several axes can't belong to a value; "
              "use groups along the last axis", s->base.row->name);
}

static intact_status qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                             intact_qparams **result) {
  const block_state *s = state;
  intact_qscheme scheme = INTACT_PER_TENSOR_AFFINE;
  int axis = -1;
  int64_t group = 0, n = s->base.n > 0 ? s->base.n : 1;
  if (s->base.n > 0) INTACT_TRY(qparams_form(context, s, &scheme, &axis, &group));
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(intact__quant_range(context, s->base.row->name, spec->dtype, spec->reduce_range, &low, &high, NULL));
  intact_qparams_rule rule = intact__block_rule(s->mapping, low, high, spec->eps);
  float *scale = intact__arena_alloc(arena, (size_t)n, sizeof *scale);
  int32_t *zero_point = intact__arena_alloc(arena, (size_t)n, sizeof *zero_point);
  if (!scale || !zero_point) return intact__no_memory(context, (size_t)n * 8);
  scale[0] = 1.0f;
  for (int64_t i = 0; i < s->base.n; i++)
    intact__qparams_from_range(&rule, s->base.low[i], s->base.high[i], &scale[i], &zero_point[i]);
  intact_qparams *made = intact__qparams_create(arena, scheme, spec->dtype, low, high, axis, n, scale, zero_point);
  if (!made) return intact__no_memory(context, (size_t)n * 8);
  made->group = group;
  *result = made;
  return INTACT_OK;
}

/* min_val and max_val with an axis for every cut axis of the tensor. */
static intact_status save(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  const block_state *s = state;
  const int64_t none = 0;
  int rank = s->base.n > 0 ? s->blocks.value_rank : 1;
  const int64_t *dims = s->base.n > 0 ? s->blocks.value_dims : &none;
  INTACT_TRY(intact__observer_save_shaped(context, set, prefix, "min_val", rank, dims, s->base.low));
  INTACT_TRY(intact__observer_save_shaped(context, set, prefix, "max_val", rank, dims, s->base.high));
  INTACT_TRY(intact__observer_save_counts(context, &s->base, prefix, set));
  int64_t layout[2 * INTACT_MAX_RANK], n = 2 * (int64_t)s->blocks.rank;
  for (int i = 0; i < s->blocks.rank; i++) {
    layout[i] = s->blocks.dims[i];
    layout[s->blocks.rank + i] = s->blocks.block[i];
  }
  return intact__observer_save_s64(context, set, prefix, "block_layout", n, layout);
}

static intact_status load(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  block_state *s = state;
  int64_t layout[2 * INTACT_MAX_RANK];
  int n = 0;
  INTACT_TRY(intact__observer_find_s64(context, set, prefix, "block_layout", 2 * INTACT_MAX_RANK, layout, &n));
  intact_blocks blocks;
  int64_t elements;
  size_t bytes;
  if (n % 2 != 0 || !intact__shape_bytes(INTACT_F32, n / 2, layout, &elements, &bytes))
    INTACT_FAIL(context, INVALID_VALUE, prefix, "saved observer: block_layout of %d values is not a shape and its blocks", n);
  INTACT_TRY(intact__blocks_create(context, prefix, n / 2, layout, n / 2, layout + n / 2, &blocks));
  INTACT_TRY(intact__observer_load_ranges(context, &s->base, prefix, set));
  if (s->base.n != 0 && s->base.n != blocks.n)
    INTACT_FAIL(context, SIZE_MISMATCH, prefix, "saved observer: %lld ranges for %lld blocks", (long long)s->base.n, (long long)blocks.n);
  s->blocks = blocks;
  return INTACT_OK;
}

#define INTACT_BLOCK_ROW(row_name, torch, text, options_text, granularity, average)                              \
  static intact_status create_##row_name(intact_context *context, const intact_quant_spec *spec, void **state) { \
    return create(context, &intact_observer_##row_name, spec, granularity, average, state);                      \
  }                                                                                                              \
  const intact_observer intact_observer_##row_name = {.name = #row_name,                                         \
                                                      .torch_name = torch,                                       \
                                                      .doc = text,                                               \
                                                      .options = options_text,                                   \
                                                      .per_channel = true,                                       \
                                                      .create = create_##row_name,                               \
                                                      .destroy = destroy,                                        \
                                                      .update = update,                                          \
                                                      .merge = merge,                                            \
                                                      .range = intact__observer_range,                           \
                                                      .qparams = qparams,                                        \
                                                      .counts = intact__observer_counts,                         \
                                                      .save = save,                                              \
                                                      .load = load};

INTACT_BLOCK_ROW(block_min_max, "AffineQuantizedMinMaxObserver",
                 "Smallest and largest value of every block; block: sizes of the last axes joined by x, 0 the whole axis, or tensor.",
                 "block=tensor,mapping=asymmetric", BY_OPTION, false)
INTACT_BLOCK_ROW(moving_average_block_min_max, "AffineQuantizedMovingAverageMinMaxObserver",
                 "Smallest and largest value of every block, averaged over batches.",
                 "block=tensor,mapping=asymmetric,averaging_constant=0.01", BY_OPTION, true)
INTACT_BLOCK_ROW(per_group_min_max, NULL, "Smallest and largest value of every group (the spec's) along the last axis.",
                 "mapping=asymmetric", PER_GROUP, false)
INTACT_BLOCK_ROW(per_token_min_max, NULL, "Smallest and largest value of every row of the last axis.", "mapping=asymmetric", PER_TOKEN,
                 false)
