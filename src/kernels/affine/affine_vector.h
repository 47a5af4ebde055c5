/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels over a vector type: included once by affine_<isa>.c, which defines before

     vf, vi, vm            float32 vector, int32 vector, comparison result
     W                     lanes
     KERNEL(name)          the kernel's name with the instruction set behind it
     v_set v_load v_store v_add v_sub v_mul v_div v_max v_min v_rne v_abs     (v_max, v_min: NaN in the first gives the second)
     v_ge v_le v_gt v_and v_or v_not v_all v_count v_select(m, a, b) v_one(m)       (v_one: 1.0 where m, else 0.0)
     v_reduce_min v_reduce_max
     v_first(k)                    the first k lanes, 0 <= k < W; v_load_first(x, k) v_store_first(y, k, v): these alone, 0 in the others
     i_set i_add i_min i_from(vf: rounds to even) i_trunc(vf) i_store i_to_float
     store_u8 store_s8(q, vi[4])   the low bytes of 4 vectors of codes that fit
     load_u8 load_s8(q)            W codes widened
     store_mask(mask, m)           W bytes of 0 or 1

   Every operation rounds as its scalar form does, so each kernel equals the definition bit for bit; the dispatcher keeps
   ranges that are not narrow (intact__affine_is_narrow) away. */

typedef struct affine_vectors {
  vf inverse, scale, low, high; /* low, high minus the zero point */
  bool divide;
} affine_vectors;

static inline affine_vectors vectors_of(const intact_affine *p) {
  return (affine_vectors){v_set(p->inverse), v_set(p->scale), v_set((float)(p->low - p->zero_point)),
                          v_set((float)(p->high - p->zero_point)), p->divide};
}

static inline vf steps_of(vf x, const affine_vectors *p) { return p->divide ? v_div(x, p->scale) : v_mul(x, p->inverse); }

/* Clamping to integers before rounding is the same as after. */
static inline vf clamped(vf v, const affine_vectors *p) { return v_min(v_max(v, p->low), p->high); }

#define INTACT_QUANTIZE_VECTOR(name, type, store)                                                                      \
  void KERNEL(name)(const float *x, void *q, int64_t n, const intact_affine *p) {                                      \
    const affine_vectors v = vectors_of(p);                                                                            \
    const vi zero = i_set(p->zero_point);                                                                              \
    type *out = q;                                                                                                     \
    int64_t i = 0;                                                                                                     \
    for (; i + 4 * W <= n; i += 4 * W) {                                                                               \
      vi codes[4];                                                                                                     \
      INTACT_UNROLL for (int k = 0; k < 4; k++) codes[k] = i_add(i_from(clamped(steps_of(v_load(x + i + k * W), &v), &v)), zero);    \
      store(out + i, codes);                                                                                           \
    }                                                                                                                  \
    if (i < n) SCALAR(name)(x + i, out + i, n - i, p);                                                                 \
  }
INTACT_QUANTIZE_VECTOR(intact_quantize_f32u8, uint8_t, store_u8)
INTACT_QUANTIZE_VECTOR(intact_quantize_f32s8, int8_t, store_s8)

#define INTACT_DEQUANTIZE_VECTOR(name, type, load)                                                     \
  void KERNEL(name)(const void *q, float *x, int64_t n, float scale, int32_t zero_point) {             \
    const vi zero = i_set(-zero_point);                                                                \
    const vf s = v_set(scale);                                                                         \
    const type *in = q;                                                                                \
    int64_t i = 0;                                                                                     \
    for (; i + W <= n; i += W) v_store(x + i, v_mul(i_to_float(i_add(load(in + i), zero)), s));        \
    if (i < n) SCALAR(name)(in + i, x + i, n - i, scale, zero_point);                                  \
  }
INTACT_DEQUANTIZE_VECTOR(intact_dequantize_u8f32, uint8_t, load_u8)
INTACT_DEQUANTIZE_VECTOR(intact_dequantize_s8f32, int8_t, load_s8)

/* + 0 turns the -0 of small negative values into the +0 that an integer zero gives. */
static inline vf simulated(vf steps, const affine_vectors *p) {
  return v_mul(v_add(v_rne(clamped(steps, p)), v_set(0.0f)), p->scale);
}

static inline vm inside_of(vf steps, const affine_vectors *p) {
  vf r = v_rne(steps);
  return v_and(v_ge(r, p->low), v_le(r, p->high));
}

bool KERNEL(intact_fakequant_f32)(const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p) {
  const affine_vectors v = vectors_of(p);
  vm all = v_ge(v_set(0.0f), v_set(0.0f));
  int64_t i = 0;
  if (mask) {
    for (; i + W <= n; i += W) {
      vf steps = steps_of(v_load(x + i), &v);
      vm inside = inside_of(steps, &v);
      store_mask(mask + i, inside);
      all = v_and(all, inside);
      v_store(y + i, simulated(steps, &v));
    }
    bool rest = i >= n || SCALAR(intact_fakequant_f32)(x + i, y + i, mask + i, n - i, p);
    return v_all(all) && rest;
  }
  for (; !v.divide && i + 4 * W <= n; i += 4 * W)
    INTACT_UNROLL for (int k = 0; k < 4; k++) {
      vf steps = v_mul(v_load(x + i + k * W), v.inverse);
      all = v_and(all, inside_of(steps, &v));
      v_store(y + i + k * W, simulated(steps, &v));
    }
  for (; i + W <= n; i += W) {
    vf steps = steps_of(v_load(x + i), &v);
    all = v_and(all, inside_of(steps, &v));
    v_store(y + i, simulated(steps, &v));
  }
  if (i < n) {
    vf steps = steps_of(v_load_first(x + i, n - i), &v);
    all = v_and(all, v_or(inside_of(steps, &v), v_not(v_first(n - i))));
    v_store_first(y + i, n - i, simulated(steps, &v));
  }
  return v_all(all);
}

void KERNEL(intact_fakequantgrad_f32)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p) {
  const affine_vectors v = vectors_of(p);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    vm inside = inside_of(steps_of(v_load(x + i), &v), &v);
    v_store(dx + i, v_mul(v_load(dy + i), v_one(inside)));
  }
  if (i == n) return;
  vm inside = inside_of(steps_of(v_load_first(x + i, n - i), &v), &v);
  v_store_first(dx + i, n - i, v_mul(v_load_first(dy + i, n - i), v_one(inside)));
}

/* ---- on a line ---- */

typedef struct line_vectors {
  vf offset, factor, rest;
} line_vectors;

static inline line_vectors line_vectors_of(const intact_line *line) {
  return (line_vectors){v_set(line->offset), v_set(line->factor), v_set(line->rest)};
}

static inline vf on_line(vf x, const line_vectors *line) { return v_add(v_mul(v_sub(x, line->offset), line->factor), line->rest); }

void KERNEL(intact_linefakequant_f32)(const float *x, float *y, const intact_runs *runs, const intact_line *line, const intact_affine *p) {
  const affine_vectors v = vectors_of(p);
  const line_vectors l = line_vectors_of(line);
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, y += runs->stride) {
    int64_t i = 0;
    const int64_t n = runs->length;
    for (; i + 2 * W <= n; i += 2 * W)
      INTACT_UNROLL for (int k = 0; k < 2; k++)
        v_store(y + i + k * W, simulated(steps_of(on_line(v_load(x + i + k * W), &l), &v), &v));
    for (; i + W <= n; i += W) v_store(y + i, simulated(steps_of(on_line(v_load(x + i), &l), &v), &v));
    if (i < n) v_store_first(y + i, n - i, simulated(steps_of(on_line(v_load_first(x + i, n - i), &l), &v), &v));
  }
}

typedef struct clamp_vectors {
  bool clamps;
  vf low, high;
} clamp_vectors;

static inline vf line_gradient(vf x, vf d, const line_vectors *line, const affine_vectors *p, const clamp_vectors *clamp) {
  const vf z = on_line(x, line), made = v_mul(d, v_one(inside_of(steps_of(z, p), p)));
  return clamp->clamps ? v_select(v_and(v_gt(z, clamp->low), v_gt(clamp->high, z)), made, v_set(0.0f)) : made;
}

void KERNEL(intact_linefakequantgrad_f32)(const float *x, const float *dy, float *dx, const intact_runs *runs, const intact_line *line,
                                          const intact_affine *p, float low, float high) {
  const affine_vectors v = vectors_of(p);
  const line_vectors l = line_vectors_of(line);
  const clamp_vectors c = {low > -INFINITY || high < INFINITY, v_set(low), v_set(high)};
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, dy += runs->stride, dx += runs->stride) {
    int64_t i = 0;
    const int64_t n = runs->length;
    for (; i + W <= n; i += W) v_store(dx + i, line_gradient(v_load(x + i), v_load(dy + i), &l, &v, &c));
    if (i < n) v_store_first(dx + i, n - i, line_gradient(v_load_first(x + i, n - i), v_load_first(dy + i, n - i), &l, &v, &c));
  }
}

typedef struct learnable_vectors {
  vf inverse, scale, zero, low, high, at_low, at_high;
  clamp_vectors clamp;
} learnable_vectors;

static inline vf learnable_gradient(vf x, vf d, const learnable_vectors *p, vf *scale_sum, vf *zero_sum) {
  const vf value = p->clamp.clamps ? v_min(v_max(x, p->clamp.low), p->clamp.high) : x, none = v_set(0.0f);
  const vf q = v_rne(v_add(v_mul(value, p->inverse), p->zero));
  const vm not_below = v_ge(q, p->low), above = v_gt(q, p->high), inside = v_and(not_below, v_le(q, p->high));
  const vf made = v_mul(d, v_one(inside)), error = v_fms(v_sub(q, p->zero), p->scale, value);
  const vf within = v_mul(v_mul(d, error), p->inverse), outside = v_mul(d, v_select(above, p->at_high, p->at_low));
  *scale_sum = v_add(*scale_sum, v_select(inside, within, outside));
  *zero_sum = v_add(*zero_sum, v_select(inside, none, d));
  return p->clamp.clamps ? v_select(v_and(v_gt(x, p->clamp.low), v_gt(p->clamp.high, x)), made, none) : made;
}

static inline learnable_vectors learnable_vectors_of(const intact_affine *p, float low, float high) {
  return (learnable_vectors){.inverse = v_set(p->inverse),
                             .scale = v_set(p->scale),
                             .zero = v_set((float)p->zero_point),
                             .low = v_set((float)p->low),
                             .high = v_set((float)p->high),
                             .at_low = v_set((float)(p->low - p->zero_point)),
                             .at_high = v_set((float)(p->high - p->zero_point)),
                             .clamp = {low > -INFINITY || high < INFINITY, v_set(low), v_set(high)}};
}

void KERNEL(intact_learnablegrad_f32)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p, float low, float high,
                                      intact_learned_sums *sums) {
  enum { GROUPS = INTACT_SUM_LANES / W };
  const learnable_vectors v = learnable_vectors_of(p, low, high);
  vf scale_sums[GROUPS], zero_sums[GROUPS];
  INTACT_UNROLL for (int k = 0; k < GROUPS; k++) scale_sums[k] = zero_sums[k] = v_set(0.0f);
  int64_t i = 0;
  for (; i + INTACT_SUM_LANES <= n; i += INTACT_SUM_LANES)
    INTACT_UNROLL for (int k = 0; k < GROUPS; k++) {
      const int64_t at = i + k * W;
      v_store(dx + at, learnable_gradient(v_load(x + at), v_load(dy + at), &v, &scale_sums[k], &zero_sums[k]));
    }
  INTACT_UNROLL for (int k = 0; k < GROUPS; k++) {
    const int64_t at = i + k * W, left = n - at;
    if (left >= W) v_store(dx + at, learnable_gradient(v_load(x + at), v_load(dy + at), &v, &scale_sums[k], &zero_sums[k]));
    if (left <= 0 || left >= W) continue;
    vf scale_sum = scale_sums[k], zero_sum = zero_sums[k];
    v_store_first(dx + at, left, learnable_gradient(v_load_first(x + at, left), v_load_first(dy + at, left), &v, &scale_sum, &zero_sum));
    scale_sums[k] = v_select(v_first(left), scale_sum, scale_sums[k]);
    zero_sums[k] = v_select(v_first(left), zero_sum, zero_sums[k]);
  }
  float scale_lanes[INTACT_SUM_LANES], zero_lanes[INTACT_SUM_LANES];
  INTACT_UNROLL for (int k = 0; k < GROUPS; k++) {
    v_store(scale_lanes + k * W, scale_sums[k]);
    v_store(zero_lanes + k * W, zero_sums[k]);
  }
  *sums = (intact_learned_sums){intact__sum_lanes(scale_lanes), intact__sum_lanes(zero_lanes)};
}

typedef struct range_vectors {
  vf low[4], high[4];
} range_vectors;

/* The lanes of `ok` that are finite, into range k: how many they are. */
static inline int take_range(vf x, vm ok, range_vectors *range, int k) {
  const vf v = v_add(x, v_set(0.0f));
  ok = v_and(ok, v_le(v_abs(v), v_set(FLT_MAX)));
  range->low[k] = v_min(v_select(ok, v, v_set(INFINITY)), range->low[k]);
  range->high[k] = v_max(v_select(ok, v, v_set(-INFINITY)), range->high[k]);
  return v_count(ok);
}

void KERNEL(intact_minmax_f32)(const float *x, int64_t n, intact_min_max *m) {
  const vm all = v_ge(v_set(0.0f), v_set(0.0f));
  range_vectors r;
  int64_t finite = 0, i = 0;
  INTACT_UNROLL for (int k = 0; k < 4; k++) {
    r.low[k] = v_set(INFINITY);
    r.high[k] = v_set(-INFINITY);
  }
  for (; i + 4 * W <= n; i += 4 * W) INTACT_UNROLL for (int k = 0; k < 4; k++) finite += take_range(v_load(x + i + k * W), all, &r, k);
  for (; i + W <= n; i += W) finite += take_range(v_load(x + i), all, &r, 0);
  if (i < n) finite += take_range(v_load_first(x + i, n - i), v_first(n - i), &r, 0);
  const intact_min_max found = {v_reduce_min(v_min(v_min(r.low[0], r.low[1]), v_min(r.low[2], r.low[3]))),
                                v_reduce_max(v_max(v_max(r.high[0], r.high[1]), v_max(r.high[2], r.high[3]))), n - finite};
  intact__min_max_join(m, &found);
}

void KERNEL(intact_histogram_f32)(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables) {
  const vf left = v_set(bins->left), right = v_set(bins->right), number = v_set((float)bins->n);
  const vf width = v_set(bins->right - bins->left);
  const vi last = i_set(bins->n - 1);
  uint32_t *const t0 = tables, *const t1 = t0 + bins->n, *const t2 = t1 + bins->n, *const t3 = t2 + bins->n;
  int32_t index[2 * W];
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    vf a = v_load(x + i), b = v_load(x + i + W);
    vm inside = v_and(v_and(v_ge(a, left), v_le(a, right)), v_and(v_ge(b, left), v_le(b, right)));
    if (!v_all(inside)) {
      SCALAR(intact_histogram_f32)(x + i, 2 * W, bins, tables);
      continue;
    }
    i_store(index, i_min(i_trunc(v_div(v_mul(v_sub(a, left), number), width)), last));
    i_store(index + W, i_min(i_trunc(v_div(v_mul(v_sub(b, left), number), width)), last));
    INTACT_UNROLL for (int k = 0; k < 2 * W; k += INTACT_HISTOGRAM_TABLES) {
      t0[index[k]]++;
      t1[index[k + 1]]++;
      t2[index[k + 2]]++;
      t3[index[k + 3]]++;
    }
  }
  if (i < n) SCALAR(intact_histogram_f32)(x + i, n - i, bins, tables);
}
