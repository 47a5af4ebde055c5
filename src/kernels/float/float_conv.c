/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution on oneDNN: forward, and the gradients of data and weights. */
#include <string.h>

#include "kernels/float/dnnl_run.h"

/* Descriptions of the three memories: plain, and as oneDNN may choose (`any`). */
typedef struct memories {
  dnnl_memory_desc_t in, out, w, bias, any_in, any_out, any_w;
  dnnl_dims_t stride, dilation, before, after;
} memories;

static dnnl_status_t any_order(dnnl_memory_desc_t *desc, const dnnl_memory_desc_t *plain) {
  return dnnl_memory_desc_init_by_tag(desc, plain->ndims, plain->dims, dnnl_f32, dnnl_format_tag_any);
}

/* Pointwise convolutions run at full speed on plain memory, and spare the copies. */
static bool stays_plain(const intact_float_conv *c) {
  bool pointwise = c->groups == 1;
  for (int a = 0; a < 3; a++) {
    pointwise = pointwise && c->kernel[a] == 1 && c->stride[a] == 1 && c->before[a] == 0 && c->after[a] == 0;
  }
  return pointwise;
}

static dnnl_status_t describe(const intact_float_conv *c, memories *m) {
  int axes = (int)c->axes, first = 3 - axes, grouped = c->groups > 1;
  int64_t in[5] = {c->n, c->ci}, out[5] = {c->n, c->co}, w[6] = {c->groups};
  w[grouped] = c->co / c->groups;
  w[grouped + 1] = c->ci / c->groups;
  for (int i = 0; i < axes; i++) {
    int a = first + i;
    in[2 + i] = c->in[a];
    out[2 + i] = c->out[a];
    w[grouped + 2 + i] = c->kernel[a];
    m->stride[i] = c->stride[a];
    m->dilation[i] = c->dilation[a] - 1;
    m->before[i] = c->before[a];
    m->after[i] = c->after[a];
  }
  dnnl_status_t status = intact__dnnl_plain(&m->in, axes + 2, in);
  if (status == dnnl_success) status = intact__dnnl_plain(&m->out, axes + 2, out);
  if (status == dnnl_success) status = intact__dnnl_plain(&m->w, axes + 2 + grouped, w);
  if (status == dnnl_success) status = intact__dnnl_plain(&m->bias, 1, &c->co);
  if (status == dnnl_success) status = any_order(&m->any_in, &m->in);
  if (status == dnnl_success) status = any_order(&m->any_out, &m->out);
  if (status == dnnl_success) status = any_order(&m->any_w, &m->w);
  if (status == dnnl_success && stays_plain(c)) {
    m->any_in = m->in;
    m->any_out = m->out;
  }
  return status;
}

/* A convolution and whether it has a bias. */
typedef struct conv_shape {
  intact_float_conv conv;
  int64_t biased;
} conv_shape;

static dnnl_status_t make_forward(const conv_shape *s, memories *m, dnnl_prop_kind_t kind, dnnl_engine_t engine,
                                  const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *desc) {
  dnnl_convolution_desc_t d;
  dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(&d, kind, dnnl_convolution_direct, &m->any_in, &m->any_w,
                                                                    s->biased ? &m->bias : NULL, &m->any_out, m->stride,
                                                                    m->dilation, m->before, m->after);
  return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL) : status;
}

static dnnl_status_t build_forward(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const conv_shape *s = shape;
  memories m;
  dnnl_status_t status = describe(&s->conv, &m);
  ports[0] = (intact_dnnl_port){DNNL_ARG_SRC, false, m.in};
  ports[1] = (intact_dnnl_port){DNNL_ARG_WEIGHTS, false, m.w};
  ports[2] = (intact_dnnl_port){DNNL_ARG_DST, true, m.out};
  ports[3] = (intact_dnnl_port){DNNL_ARG_BIAS, false, m.bias};
  *n_ports = s->biased ? 4 : 3;
  return status == dnnl_success ? make_forward(s, &m, dnnl_forward_inference, engine, attr, desc) : status;
}

static dnnl_status_t build_backward_data(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                         dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const conv_shape *s = shape;
  memories m;
  dnnl_convolution_desc_t d;
  dnnl_primitive_desc_t hint;
  dnnl_status_t status = describe(&s->conv, &m);
  ports[0] = (intact_dnnl_port){DNNL_ARG_DIFF_DST, false, m.out};
  ports[1] = (intact_dnnl_port){DNNL_ARG_WEIGHTS, false, m.w};
  ports[2] = (intact_dnnl_port){DNNL_ARG_DIFF_SRC, true, m.in};
  *n_ports = 3;
  if (status == dnnl_success) status = make_forward(s, &m, dnnl_forward_training, engine, attr, &hint);
  if (status != dnnl_success) return status;
  status = dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &m.any_in, &m.any_w, &m.any_out,
                                                            m.stride, m.dilation, m.before, m.after);
  if (status == dnnl_success) status = dnnl_primitive_desc_create(desc, &d, attr, engine, hint);
  dnnl_primitive_desc_destroy(hint);
  return status;
}

static dnnl_status_t build_backward_weights(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                            dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports) {
  const conv_shape *s = shape;
  memories m;
  dnnl_convolution_desc_t d;
  dnnl_primitive_desc_t hint;
  dnnl_status_t status = describe(&s->conv, &m);
  ports[0] = (intact_dnnl_port){DNNL_ARG_SRC, false, m.in};
  ports[1] = (intact_dnnl_port){DNNL_ARG_DIFF_DST, false, m.out};
  ports[2] = (intact_dnnl_port){DNNL_ARG_DIFF_WEIGHTS, true, m.w};
  ports[3] = (intact_dnnl_port){DNNL_ARG_DIFF_BIAS, true, m.bias};
  *n_ports = s->biased ? 4 : 3;
  if (status == dnnl_success) status = make_forward(s, &m, dnnl_forward_training, engine, attr, &hint);
  if (status != dnnl_success) return status;
  status = dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &m.any_in, &m.any_w,
                                                               s->biased ? &m.bias : NULL, &m.any_out, m.stride, m.dilation,
                                                               m.before, m.after);
  if (status == dnnl_success) status = dnnl_primitive_desc_create(desc, &d, attr, engine, hint);
  dnnl_primitive_desc_destroy(hint);
  return status;
}

/* oneDNN does not write through its inputs. */
static void *input(const float *data) {
  union {
    const float *from;
    void *to;
  } pointer = {data};
  return pointer.to;
}

static conv_shape shape_of(const intact_float_conv *conv, bool biased) {
  conv_shape s;
  memset(&s, 0, sizeof s);
  s.conv = *conv;
  s.biased = biased;
  return s;
}

static int64_t sample_work(const intact_float_conv *c) {
  int64_t work = c->co * (c->ci / c->groups);
  for (int a = 0; a < 3; a++) work *= c->out[a] * c->kernel[a];
  return work;
}

/* A pass over the samples of a batch: forward (from = in, to = out) or backward to the data (from = out, to = in). */
typedef struct pass {
  const intact_float_conv *conv;
  bool forward;
  const float *from, *w, *bias;
  float *to;
  int64_t from_sample, to_sample; /* elements of a sample */
  const intact_float_keep *keep;
} pass;

static intact_status run_samples(intact_context *context, const void *user, int64_t first, int64_t count, bool *done) {
  const pass *p = user;
  conv_shape s = shape_of(p->conv, p->bias != NULL);
  s.conv.n = count;
  const intact_dnnl_recipe recipe = {p->forward ? build_forward : build_backward_data, &s, sizeof s,
                                     sample_work(p->conv) * count};
  return intact__dnnl_run(context, &recipe,
                          (void *[]){input(p->from + first * p->from_sample), input(p->w), p->to + first * p->to_sample,
                                     input(p->bias)},
                          p->keep, done);
}

enum { PIECE_WORK = 1 << 22 };

static intact_status run_pass(intact_context *context, const pass *p, bool *done) {
  const int64_t work = sample_work(p->conv), piece = work > 0 ? (PIECE_WORK + work - 1) / work : p->conv->n;
  const intact_dnnl_batch batch = {p->conv->n, piece < 1 ? 1 : piece, run_samples, p};
  if (p->conv->n <= batch.piece) return run_samples(context, p, 0, p->conv->n, done);
  return intact__dnnl_run_batch(context, &batch, done);
}

static int64_t elements(int64_t channels, const int64_t *spatial) { return channels * spatial[0] * spatial[1] * spatial[2]; }

intact_status intact__float_conv_forward(intact_context *context, const intact_float_conv *conv, const float *in,
                                         const float *w, const float *bias, float *out, const intact_float_keep *keep,
                                         bool *done) {
  const pass p = {conv, true, in, w, bias, out, elements(conv->ci, conv->in), elements(conv->co, conv->out), keep};
  return run_pass(context, &p, done);
}

intact_status intact__float_conv_backward_data(intact_context *context, const intact_float_conv *conv, const float *out,
                                               const float *w, float *in, const intact_float_keep *keep, bool *done) {
  const pass p = {conv, false, out, w, NULL, in, elements(conv->co, conv->out), elements(conv->ci, conv->in), keep};
  return run_pass(context, &p, done);
}

intact_status intact__float_conv_backward_weights(intact_context *context, const intact_float_conv *conv, const float *in,
                                                  const float *out, float *w, float *bias, bool *done) {
  conv_shape s = shape_of(conv, bias != NULL);
  const intact_dnnl_recipe recipe = {build_backward_weights, &s, sizeof s, sample_work(conv) * conv->n};
  return intact__dnnl_run(context, &recipe, (void *[]){input(in), input(out), w, bias}, NULL, done);
}
