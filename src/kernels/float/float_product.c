/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, softmax and layer normalisation on oneDNN. */
#include <string.h>

#include "kernels/float/dnnl_run.h"

static void *input(const float *data) {
  union {
    const float *from;
    void *to;
  } pointer = {data};
  return pointer.to;
}

intact_status intact__float_gemm(intact_context *context, const intact_float_gemm *g, const float *a, const float *b,
                                 float *c) {
  intact__dnnl_set_threads(context, g->m * g->n * g->k);
  dnnl_status_t status = dnnl_sgemm(g->a_transposed ? 'T' : 'N', g->b_transposed ? 'T' : 'N', g->m, g->n, g->k, g->alpha, a,
                                    g->a_transposed ? g->m : g->k, b, g->b_transposed ? g->k : g->n, g->beta, c, g->n);
  if (status == dnnl_success) return INTACT_OK;
  INTACT_FAIL(context, INTERNAL, "", "oneDNN's sgemm failed with status %d; run without the fast float kernels",
              (int)status);
}

/* [batch, rows, columns], stored with rows and columns swapped when transposed; batch 1 when shared. */
static dnnl_status_t matrix(dnnl_memory_desc_t *desc, int64_t batch, int64_t rows, int64_t columns, bool transposed,
                            bool shared) {
  const dnnl_dims_t dims = {shared ? 1 : batch, rows, columns};
  const dnnl_dims_t strides = {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
  return dnnl_memory_desc_init_by_strides(desc, 3, dims, dnnl_f32, strides);
}

static dnnl_status_t build_matmul(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                  dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const intact_float_matmul *s = shape;
  dnnl_matmul_desc_t d;
  memset(ports, 0, 3 * sizeof *ports);
  ports[0].arg = DNNL_ARG_SRC;
  ports[1].arg = DNNL_ARG_WEIGHTS;
  ports[2].arg = DNNL_ARG_DST;
  ports[2].output = true;
  *n_ports = 3;
  dnnl_status_t status = matrix(&ports[0].plain, s->batch, s->m, s->k, s->a_transposed, s->a_shared);
  if (status == dnnl_success) status = matrix(&ports[1].plain, s->batch, s->k, s->n, s->b_transposed, s->b_shared);
  if (status == dnnl_success) status = matrix(&ports[2].plain, s->batch, s->m, s->n, false, false);
  if (status == dnnl_success) status = dnnl_matmul_desc_init(&d, &ports[0].plain, &ports[1].plain, NULL, &ports[2].plain);
  return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL) : status;
}

intact_status intact__float_matmul(intact_context *context, const intact_float_matmul *matmul, const float *a,
                                   const float *b, float *c, bool *done) {
  const intact_dnnl_recipe recipe = {build_matmul, matmul, sizeof *matmul,
                                     matmul->batch * matmul->m * matmul->n * matmul->k};
  return intact__dnnl_run(context, &recipe, (void *[]){input(a), input(b), c}, NULL, done);
}

/* ---- softmax ---- */

typedef struct rows_shape {
  int64_t rows, length;
  int64_t affine; /* layer norm with weight and bias */
  double eps;
} rows_shape;

static dnnl_status_t build_softmax(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const rows_shape *s = shape;
  dnnl_softmax_v2_desc_t d;
  dnnl_memory_desc_t md;
  dnnl_status_t status = intact__dnnl_plain(&md, 2, (const int64_t[]){s->rows, s->length});
  ports[0] = (intact_dnnl_port){DNNL_ARG_SRC, false, md};
  ports[1] = (intact_dnnl_port){DNNL_ARG_DST, true, md};
  *n_ports = 2;
  if (status == dnnl_success) {
    status = dnnl_softmax_v2_forward_desc_init(&d, dnnl_forward_inference, dnnl_softmax_accurate, &md, &md, 1);
  }
  return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL) : status;
}

intact_status intact__float_softmax(intact_context *context, int64_t rows, int64_t length, const float *x, float *y,
                                    bool *done) {
  const rows_shape s = {rows, length, 0, 0};
  const intact_dnnl_recipe recipe = {build_softmax, &s, sizeof s, rows * length};
  return intact__dnnl_run(context, &recipe, (void *[]){input(x), y}, NULL, done);
}

/* ---- layer norm ---- */

static dnnl_status_t build_layer_norm(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                      dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const rows_shape *s = shape;
  dnnl_layer_normalization_desc_t d;
  dnnl_memory_desc_t md, stat, affine;
  memset(&affine, 0, sizeof affine);
  dnnl_status_t status = intact__dnnl_plain(&md, 2, (const int64_t[]){s->rows, s->length});
  if (status == dnnl_success) status = intact__dnnl_plain(&stat, 1, &s->rows);
  if (status == dnnl_success) status = intact__dnnl_plain(&affine, 1, &s->length);
  ports[0] = (intact_dnnl_port){DNNL_ARG_SRC, false, md};
  ports[1] = (intact_dnnl_port){DNNL_ARG_DST, true, md};
  ports[2] = (intact_dnnl_port){DNNL_ARG_SCALE, false, affine};
  ports[3] = (intact_dnnl_port){DNNL_ARG_SHIFT, false, affine};
  *n_ports = s->affine != 0 ? 4 : 2;
  unsigned flags =
      s->affine != 0 ? (unsigned)dnnl_use_scale | (unsigned)dnnl_use_shift : (unsigned)dnnl_normalization_flags_none;
  if (status == dnnl_success) {
    status = dnnl_layer_normalization_forward_desc_init(&d, dnnl_forward_inference, &md, &stat, (float)s->eps, flags);
  }
  return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL) : status;
}

intact_status intact__float_layer_norm(intact_context *context, int64_t rows, int64_t length, float eps, const float *x,
                                       const float *weight, const float *bias, float *y, bool *done) {
  const rows_shape s = {rows, length, weight != NULL, eps};
  const intact_dnnl_recipe recipe = {build_layer_norm, &s, sizeof s, rows * length};
  return intact__dnnl_run(context, &recipe, (void *[]){input(x), y, input(weight), input(bias)}, NULL, done);
}
