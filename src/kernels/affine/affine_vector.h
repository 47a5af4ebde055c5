/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels over a vector type: included once by affine_<isa>.c, which defines before

     vf, vi, vm            float32 vector, int32 vector, comparison result
     W                     lanes
     KERNEL(name)          the kernel's name with the instruction set behind it
     v_set v_load v_store v_add v_sub v_mul v_div v_max v_min v_rne v_abs     (v_max, v_min: NaN in the first gives the second)
     v_ge v_le v_gt v_and v_or v_all v_count v_select(m, a, b) v_one(m)       (v_one: 1.0 where m, else 0.0)
     v_reduce_min v_reduce_max
     i_set i_add i_min i_from(vf: rounds to even) i_trunc(vf) i_store i_to_float
     store_u8 store_s8(q, vi[4])   the low bytes of 4 vectors of codes that fit
     load_u8 load_s8(q)            W codes widened
     store_mask(mask, m)           W bytes of 0 or 1

   Every operation rounds as its scalar form does, so each kernel equals the definition bit for bit; the dispatcher keeps
   ranges that are not narrow (intact__affine_is_narrow) away. Tails go through the scalar kernels. */

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
  } else if (v.divide) {
    for (; i + W <= n; i += W) {
      vf steps = v_div(v_load(x + i), v.scale);
      all = v_and(all, inside_of(steps, &v));
      v_store(y + i, simulated(steps, &v));
    }
  } else {
    for (; i + 4 * W <= n; i += 4 * W)
      INTACT_UNROLL for (int k = 0; k < 4; k++) {
        vf steps = v_mul(v_load(x + i + k * W), v.inverse);
        all = v_and(all, inside_of(steps, &v));
        v_store(y + i + k * W, simulated(steps, &v));
      }
  }
  bool rest = i >= n || SCALAR(intact_fakequant_f32)(x + i, y + i, mask ? mask + i : NULL, n - i, p);
  return v_all(all) && rest;
}

void KERNEL(intact_fakequantgrad_f32)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p) {
  const affine_vectors v = vectors_of(p);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    vm inside = inside_of(steps_of(v_load(x + i), &v), &v);
    v_store(dx + i, v_mul(v_load(dy + i), v_one(inside)));
  }
  if (i < n) SCALAR(intact_fakequantgrad_f32)(x + i, dy + i, dx + i, n - i, p);
}

void KERNEL(intact_learnablegrad_f32)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p,
                                      intact_learned_sums *sums) {
  enum { GROUPS = INTACT_SUM_LANES / W };
  const vf inverse = v_set(p->inverse), scale = v_set(p->scale), zero = v_set((float)p->zero_point), none = v_set(0.0f);
  const vf low = v_set((float)p->low), high = v_set((float)p->high);
  const vf at_low = v_set((float)(p->low - p->zero_point)), at_high = v_set((float)(p->high - p->zero_point));
  vf scale_sums[GROUPS], zero_sums[GROUPS];
  INTACT_UNROLL for (int k = 0; k < GROUPS; k++) scale_sums[k] = zero_sums[k] = none;
  int64_t i = 0;
  for (; i + INTACT_SUM_LANES <= n; i += INTACT_SUM_LANES) {
    INTACT_UNROLL for (int k = 0; k < GROUPS; k++) {
      vf value = v_load(x + i + k * W), d = v_load(dy + i + k * W);
      vf q = v_rne(v_add(v_mul(value, inverse), zero));
      vm not_below = v_ge(q, low), above = v_gt(q, high), inside = v_and(not_below, v_le(q, high));
      v_store(dx + i + k * W, v_mul(d, v_one(inside)));
      vf error = v_fms(v_sub(q, zero), scale, value);
      vf within = v_mul(v_mul(d, error), inverse), outside = v_mul(d, v_select(above, at_high, at_low));
      scale_sums[k] = v_add(scale_sums[k], v_select(inside, within, outside));
      zero_sums[k] = v_add(zero_sums[k], v_select(inside, none, d));
    }
  }
  float scale_lanes[INTACT_SUM_LANES], zero_lanes[INTACT_SUM_LANES];
  INTACT_UNROLL for (int k = 0; k < GROUPS; k++) {
    v_store(scale_lanes + k * W, scale_sums[k]);
    v_store(zero_lanes + k * W, zero_sums[k]);
  }
  intact__learnable_grad_tail(x, dy, dx, i, n, p, scale_lanes, zero_lanes);
  *sums = (intact_learned_sums){intact__sum_lanes(scale_lanes), intact__sum_lanes(zero_lanes)};
}

void KERNEL(intact_minmax_f32)(const float *x, int64_t n, intact_min_max *m) {
  const vf none = v_set(0.0f), most = v_set(FLT_MAX), least_start = v_set(INFINITY), most_start = v_set(-INFINITY);
  vf low[4], high[4];
  int64_t finite = 0, i = 0;
  INTACT_UNROLL for (int k = 0; k < 4; k++) {
    low[k] = least_start;
    high[k] = most_start;
  }
  for (; i + 4 * W <= n; i += 4 * W) {
    INTACT_UNROLL for (int k = 0; k < 4; k++) {
      vf v = v_add(v_load(x + i + k * W), none);
      vm ok = v_le(v_abs(v), most);
      finite += v_count(ok);
      low[k] = v_min(v_select(ok, v, least_start), low[k]);
      high[k] = v_max(v_select(ok, v, most_start), high[k]);
    }
  }
  intact_min_max found = {v_reduce_min(v_min(v_min(low[0], low[1]), v_min(low[2], low[3]))),
                          v_reduce_max(v_max(v_max(high[0], high[1]), v_max(high[2], high[3]))), i - finite};
  intact__min_max_join(m, &found);
  if (i < n) SCALAR(intact_minmax_f32)(x + i, n - i, m);
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
