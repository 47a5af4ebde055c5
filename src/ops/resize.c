/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of interpolation: PyTorch's upsample family and the general resize of ONNX. */
#include "ops/resize.h"

#include <math.h>
#include <string.h>

#include "ops/lower.h"

/* ---- which rule a row means ---- */

static bool has_attr(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return true;
  }
  return false;
}

static int find_word(const char *text, const char *const *words, int n) {
  for (int i = 0; i < n; i++) {
    if (text != NULL && strcmp(text, words[i]) == 0) return i;
  }
  return -1;
}

/* upsample_<mode><rank>d[_aa]. PyTorch keeps whole steps in the linear rows and in nearest2d; in the antialiased rows not in the
   gradient, in nearest1d and nearest3d there alone; never on stored integers. */
static intact_resize_rule upsample_rule(const intact_node *node, bool for_gradient) {
  const char *name = node->op->name;
  intact_resize_rule rule = {.mode = INTACT_RESIZE_LINEAR, .place = INTACT_PLACE_HALF_PIXEL_CLAMPED, .cubic_a = -0.75};
  rule.antialias = strstr(name, "_aa") != NULL;
  if (strstr(name, "nearest") != NULL) {
    rule.mode = INTACT_RESIZE_NEAREST;
    rule.nearest = strstr(name, "exact") != NULL ? INTACT_NEAREST_EXACT32 : INTACT_NEAREST_FLOOR32;
    rule.whole_steps = rule.nearest == INTACT_NEAREST_FLOOR32 && node->operands[0]->qparams == NULL &&
                       (for_gradient || strstr(name, "2d") != NULL);
  } else if (strstr(name, "cubic") != NULL) {
    rule.mode = INTACT_RESIZE_CUBIC;
    rule.place = INTACT_PLACE_HALF_PIXEL;
  } else {
    rule.whole_steps = true;
  }
  if (rule.antialias) {
    rule.whole_steps = !for_gradient;
    rule.place = INTACT_PLACE_HALF_PIXEL;
    rule.cubic_a = -0.5;
    rule.exclude_outside = true;
  }
  if (has_attr(node, "align_corners") && intact__attr_int(node, "align_corners") != 0)
    rule.place = INTACT_PLACE_ALIGN_CORNERS;
  return rule;
}

/* False when an attribute of resize holds none of its words. */
static bool resize_rule(const intact_node *node, intact_resize_rule *rule) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const places[] = {"half_pixel",    "",          "pytorch_half_pixel", "half_pixel_symmetric",
                                       "align_corners", "asymmetric"};
  static const char *const nearests[] = {"", "", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  int mode = find_word(intact__attr_string(node, "mode"), modes, 3);
  int place = find_word(intact__attr_string(node, "coordinate_transformation_mode"), places, 6);
  int nearest = find_word(intact__attr_string(node, "nearest_mode"), nearests, 6);
  if (mode < 0 || place < 0 || place == 1 || nearest < 2) return false;
  *rule = (intact_resize_rule){.mode = (intact_resize_mode)mode,
                               .place = (intact_resize_place)place,
                               .nearest = (intact_resize_nearest)nearest,
                               .antialias = intact__attr_int(node, "antialias") != 0,
                               .exclude_outside = intact__attr_int(node, "exclude_outside") != 0,
                               .cubic_a = intact__attr_float(node, "cubic_coeff_a")};
  return true;
}

static bool is_general(const intact_node *node) {
  return strcmp(node->op->name, "resize") == 0;
}

/* Number of resized axes, the last ones: the digit of an upsample row, or what size or scale_factor says. */
static int axes_of(const intact_node *node) {
  if (is_general(node)) {
    int n = intact__attr(node, "size")->n;
    return n > 0 ? n : intact__attr(node, "scale_factor")->n;
  }
  for (const char *c = node->op->name; *c != 0; c++) {
    if (*c >= '1' && *c <= '3') return *c - '0';
  }
  return 0;
}

/* The scale of axis i as the places use it: 0 unless it was given (and is not to be computed from the sizes anew). */
static double scale_of(const intact_node *node, int i) {
  const intact_attr *scale = intact__attr(node, "scale_factor");
  if (scale->n == 0) return 0;
  if (!is_general(node) && intact__attr_int(node, "recompute_scale_factor") != 0) return 0;
  return scale->floats[scale->n == 1 ? 0 : i];
}

/* ---- inference ---- */

static intact_status check_lists(intact_infer *infer, int n) {
  const intact_node *node = infer->node;
  const intact_attr *size = intact__attr(node, "size"), *scale = intact__attr(node, "scale_factor");
  bool general = is_general(node);
  bool fits = (size->n > 0 || scale->n > 0) && (general || size->n == 0 || scale->n == 0);
  if (fits && size->n > 0) fits = size->n == n || size->n == 1;
  if (fits && scale->n > 0) fits = scale->n == n || scale->n == 1;
  if (!fits || n < 1 || n > 3) {
    INTACT_FAIL(infer->context, WRONG_USE, node->name, "%s: size holds %d numbers, scale_factor %d; %s must hold %s numbers",
                node->op->name, size->n, scale->n, general ? "one of them" : "exactly one",
                general ? "1 to 3" : "one for each resized axis or one for all");
  }
  for (int i = 0; i < size->n; i++) {
    if (size->ints[i] >= 1 && size->ints[i] <= INT32_MAX) continue;
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s: size is %lld; it must be at least 1", node->op->name,
                (long long)size->ints[i]);
  }
  for (int i = 0; i < scale->n; i++) {
    if (scale->floats[i] > 0 && isfinite(scale->floats[i])) continue;
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s: scale_factor is %g; it must be above 0", node->op->name,
                scale->floats[i]);
  }
  return INTACT_OK;
}

/* Size of resized axis i of `in` elements. */
static intact_status resized_dim(intact_infer *infer, int i, int64_t in, int64_t *out) {
  const intact_node *node = infer->node;
  const intact_attr *size = intact__attr(node, "size"), *scale = intact__attr(node, "scale_factor");
  double factor = scale->n == 0 ? 0 : scale->floats[scale->n == 1 ? 0 : i], wanted = floor((double)in * factor);
  if (size->n > 0) {
    *out = size->ints[size->n == 1 ? 0 : i];
    if (scale->n == 0 || in < 0 || fabs((double)in * factor - (double)*out) <= 1) return INTACT_OK;
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name, "%s: size %lld of %lld elements does not fit scale_factor %g",
                node->op->name, (long long)*out, (long long)in, factor);
  }
  if (in < 0) {
    *out = intact__infer_unknown_dim(infer);
    return INTACT_OK;
  }
  if (wanted < 1 || wanted > INT32_MAX) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                "%s: resized axis %d would have %g elements; there must be 1 to 2^31", node->op->name, i, wanted);
  }
  *out = (int64_t)wanted;
  return INTACT_OK;
}

static intact_status infer_resize(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int n = axes_of(node);
  intact_resize_rule rule;
  int64_t dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_floats(infer));
  INTACT_TRY(check_lists(infer, n));
  if (is_general(node) && !resize_rule(node, &rule)) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                "resize: mode is \"%s\", coordinate_transformation_mode \"%s\", nearest_mode \"%s\"; one of them is unknown",
                intact__attr_string(node, "mode"), intact__attr_string(node, "coordinate_transformation_mode"),
                intact__attr_string(node, "nearest_mode"));
  }
  if (x->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  if (x->rank < n || (!is_general(node) && x->rank != n + 2)) {
    char text[160];
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: x is %s; it must have rank %d", node->op->name,
                intact__shape_text(x->rank, x->dims, text), is_general(node) ? n : n + 2);
  }
  for (int d = 0; d < x->rank; d++) {
    int i = d - (x->rank - n);
    dims[d] = x->dims[d];
    if (i < 0) continue;
    if (x->dims[d] == 0 || x->dims[d] > INT32_MAX) {
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: axis %d of x has %lld elements; there must be 1 to 2^31",
                  node->op->name, d, (long long)x->dims[d]);
    }
    INTACT_TRY(resized_dim(infer, i, x->dims[d], &dims[d]));
  }
  return intact__infer_result(infer, 0, INTACT_F32, x->rank, dims);
}

/* ---- evaluation: the product of three axes' tables, absent axes first ---- */

typedef struct resizing {
  int64_t planes;
  intact_resize_axis axes[3];
} resizing;

static void resizing_free(intact_context *context, resizing *r) {
  for (int a = 0; a < 3; a++) intact__free(context, r->axes[a].index);
}

static intact_status resizing_make(intact_context *context, const intact_node *node, const intact_tensor *x,
                                   const intact_tensor *y, bool for_gradient, resizing *r) {
  int n = axes_of(node);
  intact_resize_rule rule = upsample_rule(node, for_gradient), plain = {.mode = INTACT_RESIZE_NEAREST, .nearest = INTACT_NEAREST_FLOOR};
  if (is_general(node)) resize_rule(node, &rule);
  else if (for_gradient && rule.mode == INTACT_RESIZE_CUBIC && intact__shape_equal(x->rank, x->dims, y->rank, y->dims))
    rule.whole_steps = true; /* PyTorch hands the gradient through when no axis changes */
  *r = (resizing){.planes = intact__known_product(x->dims, 0, x->rank - n)};
  for (int a = 0; a < 3; a++) {
    int d = x->rank - 3 + a;
    bool own = a >= 3 - n;
    intact_status status =
        intact__resize_axis_make(context, own ? &rule : &plain, own ? x->dims[d] : 1, own ? y->dims[d] : 1,
                                 own ? scale_of(node, a - (3 - n)) : 0, &r->axes[a]);
    if (status == INTACT_OK) continue;
    resizing_free(context, r);
    return status;
  }
  return INTACT_OK;
}

typedef struct tap {
  int64_t element;
  double weight;
} tap;

/* Tap t of result o within a plane. */
static tap tap_of(const resizing *r, int64_t o, int64_t t) {
  const intact_resize_axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];
  int64_t od = o / (h->out * w->out) * d->taps + t / (h->taps * w->taps);
  int64_t oh = o / w->out % h->out * h->taps + t / w->taps % h->taps, ow = o % w->out * w->taps + t % w->taps;
  return (tap){(d->index[od] * h->in + h->index[oh]) * w->in + w->index[ow], d->weight[od] * h->weight[oh] * w->weight[ow]};
}

static int64_t product(const resizing *r, int which) {
  int64_t p = 1;
  for (int a = 0; a < 3; a++) p *= which == 0 ? r->axes[a].in : which == 1 ? r->axes[a].out : r->axes[a].taps;
  return p;
}

static intact_status eval_resize(const intact_call *call) {
  intact_tensor *y;
  resizing r;
  INTACT_TRY(intact__call_begin(call, &y));
  INTACT_TRY(resizing_make(call->context, call->node, call->operands[0], y, false, &r));
  int64_t in = product(&r, 0), out = product(&r, 1), taps = product(&r, 2);
  for (int64_t p = 0; p < r.planes; p++) {
    const float *x = intact__operand_f32(call, 0) + p * in;
    for (int64_t o = 0; o < out; o++) {
      double sum = 0;
      for (int64_t t = 0; t < taps; t++) {
        tap at = tap_of(&r, o, t);
        if (taps == 1) {
          sum = x[at.element];
        } else {
          sum += at.weight * x[at.element];
        }
      }
      intact__f32(y)[p * out + o] = (float)sum;
    }
  }
  resizing_free(call->context, &r);
  return INTACT_OK;
}

static intact_status grad_resize(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_tensor *d;
  resizing r;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  INTACT_TRY(resizing_make(grad->context, grad->node, grad->operands[0], grad->d_results[0], true, &r));
  int64_t in = product(&r, 0), out = product(&r, 1), taps = product(&r, 2);
  double *sums = intact__alloc(grad->context, (size_t)in, sizeof(double));
  for (int64_t p = 0; p < r.planes && sums != NULL; p++) {
    const float *dy = intact__f32(grad->d_results[0]) + p * out;
    for (int64_t i = 0; i < in; i++) sums[i] = 0;
    for (int64_t o = 0; o < out; o++) {
      for (int64_t t = 0; t < taps; t++) {
        tap at = tap_of(&r, o, t);
        sums[at.element] += at.weight * dy[o];
      }
    }
    for (int64_t i = 0; i < in; i++) intact__f32(d)[p * in + i] = (float)sums[i];
  }
  resizing_free(grad->context, &r);
  if (sums == NULL) return intact__no_memory(grad->context, (size_t)in * sizeof(double));
  intact__free(grad->context, sums);
  return INTACT_OK;
}

/* ---- rows ---- */

/* aten fix-up upsample: output_size and scales_* (or scale_factors of .vec) become size or scale_factor.
   onnx fix-ups: resize takes roi (unused), scales and sizes from constants; axes with scale 1 before the others are left
   off, scales and axes are put in order, keep_aspect_ratio_policy gives sizes, tf_crop_and_resize is refused; opset 10 is
   asymmetric, its nearest_mode floor. upsample (opset 7, 9) is resize of that kind. */
#define SIZE_ATTRS                                                                                        \
  INTACT_INTS_ATTR("size", 0, 0), {.name = "scale_factor", .type = INTACT_ATTR_FLOATS, .nullable = true}, \
      INTACT_BOOL_ATTR("recompute_scale_factor", 0)
#define NEAREST_ATTRS INTACT_ATTRS(SIZE_ATTRS)
#define CORNER_ATTRS INTACT_ATTRS(SIZE_ATTRS, INTACT_BOOL_ATTR("align_corners", 0))

/* Traits and integer form of rows that pick elements. */
#define CHOICE \
  {.result = INTACT_RESULT_SAME_AS, .same_as = 0}, .check_int = intact__check_movement, .lower_int = intact__lower_movement
#define MIXTURE \
  { .result = INTACT_RESULT_OWN }

#define UPSAMPLE_ROW(row, text, attrs_list, traits, aliases_list) \
  const intact_op intact_op_##row = {                             \
      .name = #row,                                               \
      .doc = text,                                                \
      .schema = {INTACT_X, attrs_list},                           \
      .infer = infer_resize,                                      \
      .eval_f32 = eval_resize,                                    \
      .grad = grad_resize,                                        \
      .quant = traits,                                            \
      .int_layout = INTACT_INT_ANY,                               \
      .aliases = aliases_list,                                    \
  };
#define NAMES(op) INTACT_ALIASES(INTACT_ATEN_AS(op, NULL, "upsample"), INTACT_ATEN_AS(op ".vec", NULL, "upsample"))
#define NEAREST_NAMES(op, exact)                                                                                \
  INTACT_ALIASES(INTACT_ATEN_AS(op, "align_corners=", "upsample"), INTACT_ATEN_AS(op ".vec", NULL, "upsample"), \
                 INTACT_ATEN_AS(exact, NULL, "upsample"), INTACT_ATEN_AS(exact ".vec", NULL, "upsample"))

UPSAMPLE_ROW(upsample_nearest1d, "Element floor(o in / out).", NEAREST_ATTRS, CHOICE, NAMES("upsample_nearest1d"))
UPSAMPLE_ROW(upsample_nearest2d, "Element floor(o in / out) on each axis.", NEAREST_ATTRS, CHOICE,
             INTACT_ALIASES(INTACT_ATEN_AS("upsample_nearest2d", "align_corners=", "upsample"),
                            INTACT_ATEN_AS("upsample_nearest2d.vec", NULL, "upsample")))
UPSAMPLE_ROW(upsample_nearest3d, "Element floor(o in / out) on each axis.", NEAREST_ATTRS, CHOICE,
             NAMES("upsample_nearest3d"))
UPSAMPLE_ROW(upsample_nearest_exact1d, "Element floor((o + 0.5) in / out).", NEAREST_ATTRS, CHOICE,
             NEAREST_NAMES("upsample_nearest_exact1d", "_upsample_nearest_exact1d"))
UPSAMPLE_ROW(upsample_nearest_exact2d, "Element floor((o + 0.5) in / out) on each axis.", NEAREST_ATTRS, CHOICE,
             NEAREST_NAMES("upsample_nearest_exact2d", "_upsample_nearest_exact2d"))
UPSAMPLE_ROW(upsample_nearest_exact3d, "Element floor((o + 0.5) in / out) on each axis.", NEAREST_ATTRS, CHOICE,
             NEAREST_NAMES("upsample_nearest_exact3d", "_upsample_nearest_exact3d"))
UPSAMPLE_ROW(upsample_linear1d, "Linear interpolation at (o + 0.5) in / out - 0.5, not below 0.", CORNER_ATTRS, MIXTURE,
             NAMES("upsample_linear1d"))
UPSAMPLE_ROW(upsample_bilinear2d, "Linear interpolation on both axes at (o + 0.5) in / out - 0.5, not below 0.",
             CORNER_ATTRS, MIXTURE, NAMES("upsample_bilinear2d"))
UPSAMPLE_ROW(upsample_trilinear3d, "Linear interpolation on three axes at (o + 0.5) in / out - 0.5, not below 0.",
             CORNER_ATTRS, MIXTURE, NAMES("upsample_trilinear3d"))
UPSAMPLE_ROW(upsample_bicubic2d, "Cubic interpolation (a = -0.75) on both axes at (o + 0.5) in / out - 0.5.", CORNER_ATTRS,
             MIXTURE, NAMES("upsample_bicubic2d"))
UPSAMPLE_ROW(upsample_bilinear2d_aa, "Bilinear interpolation with the kernel stretched when shrinking (antialias).",
             CORNER_ATTRS, MIXTURE,
             INTACT_ALIASES(INTACT_ATEN("upsample_bilinear2d_aa"),
                            INTACT_ATEN_AS("_upsample_bilinear2d_aa", NULL, "upsample")))
UPSAMPLE_ROW(upsample_bicubic2d_aa, "Bicubic interpolation (a = -0.5) with the kernel stretched when shrinking (antialias).",
             CORNER_ATTRS, MIXTURE,
             INTACT_ALIASES(INTACT_ATEN("upsample_bicubic2d_aa"),
                            INTACT_ATEN_AS("_upsample_bicubic2d_aa", NULL, "upsample")))

const intact_op intact_op_resize = {
    .name = "resize",
    .doc = "Interpolation over the last axes by size (with scale_factor for the places) or scale_factor, with ONNX's modes.",
    .schema = {INTACT_X,
               INTACT_ATTRS(
                   INTACT_INTS_ATTR("size", 0, 0), {.name = "scale_factor", .type = INTACT_ATTR_FLOATS, .nullable = true},
                   INTACT_STRING_ATTR("mode", "nearest"), INTACT_STRING_ATTR("coordinate_transformation_mode", "half_pixel"),
                   INTACT_STRING_ATTR("nearest_mode", "round_prefer_floor"), INTACT_FLOAT_ATTR("cubic_coeff_a", -0.75),
                   INTACT_BOOL_ATTR("exclude_outside", 0), INTACT_BOOL_ATTR("antialias", 0))},
    .infer = infer_resize,
    .eval_f32 = eval_resize,
    .grad = grad_resize,
    .quant = MIXTURE,
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_resize,
    .lower_int = intact__lower_movement,
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("Resize",
                                             "mode=mode,coordinate_transformation_mode=coordinate_transformation_mode,"
                                             "nearest_mode=nearest_mode,cubic_coeff_a="
                                             "cubic_coeff_a,exclude_outside=exclude_outside,antialias=antialias",
                                             "resize"),
                              INTACT_ONNX_AS("Upsample", "mode=mode", "upsample")),
};
