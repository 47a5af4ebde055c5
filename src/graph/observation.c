/* SPDX-License-Identifier: Apache-2.0 */
/* Observers at work: counted statistics that the nodes of one group share. */
#include "graph/fake_quantizer.h"

#include <string.h>

#include "base/comm.h"
#include "kernels/affine/choose_qparams.h"

intact_status intact__observation_create(intact_context *context, const intact_quant_spec *spec,
                                         intact_observation **observation) {
  intact_observation *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  made->context = context;
  made->spec = *spec;
  made->spec.options = NULL;
  made->fixed_scale = 1.0f;
  made->uses = 1;
  intact_status status = INTACT_OK;
  if (spec->options) {
    char *options = intact__strdup(context, spec->options);
    if (!options) INTACT_TRY_TO(fail, intact__no_memory(context, strlen(spec->options) + 1));
    made->spec.options = options;
  }
  if (spec->observer) INTACT_TRY_TO(fail, spec->observer->create(context, &made->spec, &made->state));
  *observation = made;
  return INTACT_OK;
fail:
  intact__observation_release(made);
  return status;
}

intact_observation *intact__observation_retain(intact_observation *observation) {
  if (observation) observation->uses++;
  return observation;
}

void intact__observation_release(intact_observation *observation) {
  if (!observation || --observation->uses > 0) return;
  intact_context *context = observation->context;
  if (observation->spec.observer) observation->spec.observer->destroy(context, observation->state);
  intact__fake_quantizer_destroy(context, observation->fake);
  char *options;
  memcpy(&options, &observation->spec.options, sizeof options);
  intact__free(context, options);
  intact__free(context, observation);
}

intact_status intact__observation_copy(intact_context *context, const intact_observation *observation, intact_observation **copy) {
  const intact_observer *row = observation->spec.observer;
  intact_observation *made = NULL;
  INTACT_TRY(intact__observation_create(context, &observation->spec, &made));
  made->fixed_scale = observation->fixed_scale;
  made->fixed_zero_point = observation->fixed_zero_point;
  made->frozen = observation->frozen;
  intact_status status = INTACT_OK;
  if (row) {
    intact_observer_counts counts = {0};
    row->counts(observation->state, &counts);
    if (counts.batches > 0) {
      if (!row->merge)
        INTACT_FAIL_TO(fail, context, WRONG_USE, row->name,
                       "copy of a network being observed: observer %s has seen %lld batches and can't be copied; convert first",
                       row->name, (long long)counts.batches);
      INTACT_TRY_TO(fail, row->merge(context, made->state, observation->state));
    }
  }
  if (observation->fake) INTACT_TRY_TO(fail, intact__fake_quantizer_copy(observation, made));
  *copy = made;
  return INTACT_OK;
fail:
  intact__observation_release(made);
  return status;
}

const intact_node *intact__unshared_node(const intact_graph *graph) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    const intact_observation *o = node->observation;
    const bool weight = o && ((o->fake && o->fake->is_weight) || (node->n_operands > 0 && node->operands[0]->constant));
    if (o && o->spec.observer && !o->spec.observer->shares && !weight) return node;
    if (node->n_bodies > 0) return node;
  }
  return NULL;
}

bool intact__node_observes(const intact_node *node) {
  return node->observation && (!intact__is_op(node, "fake_quantize") || intact__attr_int(node, "observe"));
}

intact_status intact__observation_update(intact_observation *observation, const intact_tensor *x) {
  const intact_observer *row = observation->spec.observer;
  if (!row || observation->frozen) return INTACT_OK;
  const bool same_for_all = observation->fake && observation->fake->is_weight;
  if (same_for_all) intact__comm_be_alone(observation->context, true);
  const intact_status status = row->update(observation->context, observation->state, x);
  if (same_for_all) intact__comm_be_alone(observation->context, false);
  INTACT_TRY(status);
  if (observation->fake) observation->fake->dirty = true;
  return INTACT_OK;
}

/* The same qparams with short scales. */
static intact_status shortened(const intact_observation *observation, intact_arena *arena, intact_qparams **qparams) {
  const intact_quant_spec *spec = &observation->spec;
  const intact_qparams *q = *qparams;
  float *scale = intact__arena_alloc(arena, (size_t)q->n, sizeof *scale);
  int32_t *zero_point = intact__arena_alloc(arena, (size_t)q->n, sizeof *zero_point);
  if (!scale || !zero_point) return intact__no_memory(observation->context, (size_t)q->n * sizeof *scale);
  const intact_qparams_rule rule = intact__qparams_rule(q->scheme, q->dtype, q->quant_min, q->quant_max, false, spec->eps);
  for (int64_t i = 0; i < q->n; i++) {
    scale[i] = q->scale[i], zero_point[i] = q->zero_point[i];
    intact__qparams_shorten(&rule, spec->scale_bits, &scale[i], &zero_point[i]);
  }
  (*qparams)->scale = scale, (*qparams)->zero_point = zero_point;
  return INTACT_OK;
}

intact_status intact__observation_qparams(const intact_observation *observation, intact_arena *arena,
                                          intact_qparams **qparams) {
  const intact_quant_spec *spec = &observation->spec;
  if (spec->observer) {
    INTACT_TRY(spec->observer->qparams(observation->context, observation->state, spec, arena, qparams));
    return spec->scale_bits > 0 && !(*qparams)->real_zero_point ? shortened(observation, arena, qparams) : INTACT_OK;
  }
  bool full = spec->quant_min == 0 && spec->quant_max == 0;
  *qparams = intact__qparams_create(arena, spec->scheme, spec->dtype, full ? intact_dtype_min(spec->dtype) : spec->quant_min,
                                    full ? intact_dtype_max(spec->dtype) : spec->quant_max, -1, 1, &observation->fixed_scale,
                                    &observation->fixed_zero_point);
  return *qparams ? INTACT_OK : intact__no_memory(observation->context, sizeof **qparams);
}
