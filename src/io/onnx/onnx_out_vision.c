/* SPDX-License-Identifier: Apache-2.0 */
/* Interpolation, sorting, sums along an axis and other ops whose lists and numbers are operands in ONNX. */
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

/* ---- Resize ---- */
typedef struct places {
  const char *mode, *coordinates, *nearest;
  double cubic;
  bool antialias, exclude_outside;
} places;

static const intact_attr *find_attr(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return &node->attrs[i];
  }
  return NULL;
}

/* upsample_<mode><n>d[_aa] in the words of Resize. */
static places upsample_places(const intact_node *node) {
  const char *name = node->op->name;
  const intact_attr *corners = find_attr(node, "align_corners");
  places p = {"linear", "half_pixel", "floor", -0.75, strstr(name, "_aa") != NULL, false};
  if (p.antialias) p.cubic = -0.5;
  if (strstr(name, "cubic") != NULL) p.mode = "cubic";
  if (strstr(name, "nearest") != NULL) {
    bool exact = strstr(name, "exact") != NULL;
    p.mode = "nearest";
    p.coordinates = exact ? "half_pixel" : "asymmetric";
    p.nearest = exact ? "round_prefer_ceil" : "floor";
  }
  if (corners != NULL && corners->i != 0) p.coordinates = "align_corners";
  return p;
}

static places resize_places(const intact_node *node) {
  return (places){intact__attr_string(node, "mode"),         intact__attr_string(node, "coordinate_transformation_mode"),
                  intact__attr_string(node, "nearest_mode"), intact__attr_float(node, "cubic_coeff_a"),
                  intact__attr_int(node, "antialias") != 0,  intact__attr_int(node, "exclude_outside") != 0};
}

/* Scales of all axes as operand 2, or sizes as operand 3. */
static intact_status add_sizes(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, bool *known) {
  const intact_value *x = node->operands[0], *y = node->results[0];
  const intact_attr *scale = find_attr(node, "scale_factor"), *size = find_attr(node, "size");
  const char *name = NULL;
  *known = false;
  if (x->rank < 1) return INTACT_OK;
  if (size == NULL) size = find_attr(node, "output_size");
  bool by_scale = scale != NULL && scale->present && scale->n > 0 && scale->n <= x->rank;
  bool by_size = !by_scale && size != NULL && size->n > 0 && size->n <= x->rank && y->rank == x->rank;
  for (int d = 0; by_size && d < x->rank; d++) by_size = y->dims[d] >= 0 || d < x->rank - size->n;
  if (!by_scale && !by_size) return INTACT_OK;
  bool open = false; /* sizes need every dimension: scales where one is open */
  for (int d = 0; d < x->rank; d++) open = open || x->dims[d] < 0;
  intact_tensor *scales = NULL;
  int64_t rank = x->rank;
  INTACT_TRY(intact_tensor_create(out->output->context, INTACT_F32, 1, &rank, &scales));
  for (int d = 0; d < x->rank; d++) {
    float *each = &intact__f32(scales)[d];
    *each = 1;
    if (by_scale && d >= x->rank - scale->n) *each = (float)scale->floats[d - (x->rank - scale->n)];
    if (by_size && d >= x->rank - size->n && x->dims[d] > 0) *each = (float)((double)y->dims[d] / (double)x->dims[d]);
    if (by_size && open && d >= x->rank - size->n && x->dims[d] <= 0) by_size = false;
  }
  intact_status status = INTACT_OK;
  if (by_scale || (by_size && open)) status = intact__onnx_out_keep(out, node->name, "scales", scales, &name);
  intact_tensor_destroy(scales);
  INTACT_TRY(status);
  if (!by_scale && !by_size) return INTACT_OK;
  *known = true;
  if (name != NULL) return intact__onnx_out_input(out, made, name);
  INTACT_TRY(intact__onnx_out_input(out, made, ""));
  INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "sizes", y->rank, y->dims, &name));
  return intact__onnx_out_input(out, made, name);
}

static intact_status write_resize(intact_onnx_out *out, const intact_node *node) {
  places p = strcmp(node->op->name, "resize") == 0 ? resize_places(node) : upsample_places(node);
  Onnx__NodeProto *made = NULL;
  bool known = false;
  INTACT_TRY(intact__onnx_out_node(out, node, "Resize", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_input(out, made, ""));
  INTACT_TRY(add_sizes(out, made, node, &known));
  if (!known) return intact__onnx_out_refuse(out, node, "its sizes are not known");
  INTACT_TRY(intact__onnx_out_string(out, made, "mode", p.mode));
  INTACT_TRY(intact__onnx_out_string(out, made, "coordinate_transformation_mode", p.coordinates));
  if (strcmp(p.coordinates, "half_pixel_symmetric") == 0) intact__onnx_out_needs(out, 19);
  if (strcmp(p.mode, "nearest") == 0) INTACT_TRY(intact__onnx_out_string(out, made, "nearest_mode", p.nearest));
  if (strcmp(p.mode, "cubic") == 0) INTACT_TRY(intact__onnx_out_float(out, made, "cubic_coeff_a", p.cubic));
  if (p.exclude_outside) INTACT_TRY(intact__onnx_out_int(out, made, "exclude_outside", 1));
  if (p.antialias) {
    intact__onnx_out_needs(out, 18);
    INTACT_TRY(intact__onnx_out_int(out, made, "antialias", 1));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- numbers as operands ---- */
/* Operand i, or the integer attribute `name` as a constant (of rank 0, or 1). */
static intact_status add_number(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, int i,
                                const char *name, int rank) {
  const char *operand = NULL;
  if (i < node->n_operands && node->operands[i] != NULL) {
    INTACT_TRY(intact__onnx_out_name(out, node->operands[i], &operand));
    return intact__onnx_out_input(out, made, operand);
  }
  int64_t one = 1, value = intact__attr_int(node, name);
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact__tensor_from_s64(out->output->context, rank, &one, &value, &tensor));
  intact_status status = intact__onnx_out_keep(out, node->name, name, tensor, &operand);
  intact_tensor_destroy(tensor);
  return status == INTACT_OK ? intact__onnx_out_input(out, made, operand) : status;
}

static intact_status write_topk(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "TopK", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(add_number(out, made, node, 1, "k", 1));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", intact__attr_int(node, "dim")));
  INTACT_TRY(intact__onnx_out_int(out, made, "largest", intact__attr_int(node, "largest") != 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "sorted", intact__attr_int(node, "sorted") != 0));
  const char *unread = intact__onnx_out_fresh(out, node->name, "indices");
  if (unread == NULL) return intact__no_memory(out->output->context, 1);
  INTACT_TRY(intact__onnx_out_result(out, made, node, 0));
  return node->n_results > 1 ? intact__onnx_out_result(out, made, node, 1) : intact__onnx_out_output(out, made, unread);
}

static intact_status write_cumsum(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  if (node->results[0]->dtype != node->operands[0]->dtype)
    return intact__onnx_out_refuse(out, node, "its sums have another type");
  INTACT_TRY(intact__onnx_out_node(out, node, "CumSum", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(add_number(out, made, node, node->n_operands, "dim", 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "exclusive", intact__attr_int(node, "exclusive") != 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "reverse", intact__attr_int(node, "reverse") != 0));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_triangle(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  intact__onnx_out_needs(out, 14);
  INTACT_TRY(intact__onnx_out_node(out, node, "Trilu", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(add_number(out, made, node, 1, "diagonal", 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "upper", strcmp(node->op->name, "triu") == 0));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_nonzero(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL;
  static const int64_t exchange[2] = {1, 0};
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (intact__attr_int(node, "transposed")) return intact__onnx_out_last(out, node, "NonZero", x, NULL);
  INTACT_TRY(intact__onnx_out_step(out, node, "NonZero", x, NULL, "columns", &x));
  INTACT_TRY(intact__onnx_out_node(out, node, "Transpose", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, x));
  INTACT_TRY(intact__onnx_out_ints(out, made, "perm", 2, exchange));
  return intact__onnx_out_result(out, made, node, 0);
}

/* Range: operands, or attributes as constants of the result's type. */
static intact_status write_arange(intact_onnx_out *out, const intact_node *node) {
  static const char *const names[3] = {"start", "end", "step"};
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Range", &made));
  for (int i = 0; i < 3; i++) {
    const char *name = NULL;
    if (i < node->n_operands && node->operands[i] != NULL) {
      INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
      continue;
    }
    intact_tensor *tensor = NULL;
    INTACT_TRY(intact_tensor_create(out->output->context, node->results[0]->dtype, 0, NULL, &tensor));
    intact__tensor_set_f64(tensor, 0, intact__attr_float(node, names[i]));
    intact_status status = intact__onnx_out_keep(out, node->name, names[i], tensor, &name);
    intact_tensor_destroy(tensor);
    INTACT_TRY(status);
    INTACT_TRY(intact__onnx_out_input(out, made, name));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_grid_sampler(intact_onnx_out *out, const intact_node *node) {
  const char *mode = intact__attr_string(node, "mode");
  bool old = out->output->opset < 20; /* linear and cubic since */
  Onnx__NodeProto *made = NULL;
  intact__onnx_out_needs(out, 16);
  INTACT_TRY(intact__onnx_out_node(out, node, "GridSample", &made));
  for (int i = 0; i < 2; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  if (!old && strcmp(mode, "bilinear") == 0) mode = "linear";
  if (!old && strcmp(mode, "bicubic") == 0) mode = "cubic";
  INTACT_TRY(intact__onnx_out_string(out, made, "mode", mode));
  INTACT_TRY(intact__onnx_out_string(out, made, "padding_mode", intact__attr_string(node, "padding_mode")));
  INTACT_TRY(intact__onnx_out_int(out, made, "align_corners", intact__attr_int(node, "align_corners") != 0));
  return intact__onnx_out_result(out, made, node, 0);
}

const intact_onnx_out_row intact__onnx_out_vision[] = {
    {"arange", write_arange},
    {"cumsum", write_cumsum},
    {"grid_sampler_2d", write_grid_sampler},
    {"nonzero", write_nonzero},
    {"resize", write_resize},
    {"topk", write_topk},
    {"tril", write_triangle},
    {"triu", write_triangle},
    {"upsample_bicubic2d", write_resize},
    {"upsample_bicubic2d_aa", write_resize},
    {"upsample_bilinear2d", write_resize},
    {"upsample_bilinear2d_aa", write_resize},
    {"upsample_linear1d", write_resize},
    {"upsample_nearest1d", write_resize},
    {"upsample_nearest2d", write_resize},
    {"upsample_nearest3d", write_resize},
    {"upsample_nearest_exact1d", write_resize},
    {"upsample_nearest_exact2d", write_resize},
    {"upsample_nearest_exact3d", write_resize},
    {"upsample_trilinear3d", write_resize},
    {NULL, NULL},
};
