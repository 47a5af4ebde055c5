/* SPDX-License-Identifier: Apache-2.0 */
/* The observer row: statistics of a tensor over batches with fixed memory, and the qparams that follow from them.
   Rows live in src/quant/observers, listed in observers.def. */
#ifndef INTACT_GRAPH_OBSERVER_H
#define INTACT_GRAPH_OBSERVER_H

#include "graph/graph.h"
#include "intact/io.h"
#include "kernels/affine/statistics.h"

/* What is wanted of a quantized value. */
typedef struct intact_quant_spec {
  intact_dtype dtype;
  int64_t quant_min, quant_max; /* both 0: the full range of dtype */
  intact_qscheme scheme;
  int axis;      /* per channel, per group; -1 otherwise */
  int64_t group; /* per group: elements per block */
  bool reduce_range;
  bool is_dynamic;
  bool legacy_dtype; /* named quint8, qint8 ... in PyTorch: its observers refuse a reduced symmetric quint8, but not uint8 */
  double eps;     /* smallest scale; 0: float32 machine epsilon */
  int scale_bits; /* scales are rounded up to so many bits (intact__qparams_shorten); 0: as the observer gives them */
  const struct intact_observer *observer;
  const char *options; /* "name=value,..." of the observer, NULL: none; lives as long as the spec */
} intact_quant_spec;

typedef struct intact_observer_range {
  int64_t n;              /* 1, or the channels */
  const float *low, *high; /* what the qparams are made from; belongs to the state */
} intact_observer_range;

typedef struct intact_observer_counts {
  int64_t values, non_finite; /* elements seen, of them skipped */
  int64_t batches;
} intact_observer_counts;

typedef struct intact_observer {
  const char *name;       /* "histogram" */
  const char *torch_name; /* "HistogramObserver", NULL: ours alone */
  const char *doc;
  const char *options; /* "bins=2048,upsample_rate=16": names and defaults; "" none */
  bool per_channel;    /* takes per-channel schemes */
  bool shares;         /* each process may see its part of a batch: statistics are those of all parts (base/comm.h) */
  /* New state, nothing observed. Refuses schemes, types and options that the observer does not take. */
  intact_status (*create)(intact_context *context, const intact_quant_spec *spec, void **state);
  void (*destroy)(intact_context *context, void *state); /* takes NULL */
  intact_status (*update)(intact_context *context, void *state, const intact_tensor *x);
  /* The same of a batch of `count` values of which only the range is known; NULL: the statistics need the values. */
  intact_status (*update_range)(intact_context *context, void *state, const intact_min_max *batch, int64_t count);
  /* state += other, both of one spec; NULL: the statistics can't be merged. */
  intact_status (*merge)(intact_context *context, void *state, const void *other);
  /* The range the qparams are made from; n = 0 when nothing was observed. */
  intact_status (*range)(intact_context *context, void *state, intact_observer_range *range);
  /* qparams by the rule of kernels/affine; nothing observed: scale 1, zero point 0. */
  intact_status (*qparams)(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                           intact_qparams **qparams);
  void (*counts)(const void *state, intact_observer_counts *counts);
  /* State as tensors named `prefix` + PyTorch's buffer names, and back. */
  intact_status (*save)(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set);
  intact_status (*load)(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set);
} intact_observer;

/* An observer at work: its spec and its statistics. The nodes whose values must get the same qparams share one by counting
   (node->observation). Interp calls intact__observation_update for observe nodes when asked to observe. */
typedef struct intact_observation {
  intact_context *context;
  intact_quant_spec spec;        /* options is a copy */
  void *state;                   /* of spec.observer; NULL when the spec has none (qparams that are fixed) */
  float fixed_scale;             /* without an observer: the qparams, all channels alike */
  int32_t fixed_zero_point;
  bool frozen;                   /* updates do nothing */
  struct intact_fake_quantizer *fake; /* graph/fake_quantizer.h; NULL: only observed. Owned */
  int uses;
} intact_observation;

/* graph/observation.c */
intact_status intact__observation_create(intact_context *context, const intact_quant_spec *spec, intact_observation **observation);
intact_observation *intact__observation_retain(intact_observation *observation);
void intact__observation_release(intact_observation *observation); /* takes NULL */
/* Another one with the same statistics (create and merge), in a context that may be another; refuses observers without merge that have
   seen something. */
intact_status intact__observation_copy(intact_context *context, const intact_observation *observation, intact_observation **copy);
/* The first node that keeps processes from each taking a part of the batches: its observer looks at its own part alone (what only sees
   weights sees the same everywhere), or it has branches, which some of them may not take. NULL: none. */
const intact_node *intact__unshared_node(const intact_graph *graph);
bool intact__node_observes(const intact_node *node); /* its operand 0 counts for its observation's statistics */
intact_status intact__observation_update(intact_observation *observation, const intact_tensor *x);
intact_status intact__observation_qparams(const intact_observation *observation, intact_arena *arena, intact_qparams **qparams);

extern const intact_observer *const intact__observers[];
extern const int intact__n_observers;
/* By name or PyTorch name; NULL when there is none. */
const intact_observer *intact__find_observer(const char *name);

#endif
