/* SPDX-License-Identifier: Apache-2.0 */
/* A graph in training: its nodes in order, each a call on the tape. */
#include "autograd/trainable.h"

#include "graph/observer.h"

enum { RECYCLED = 1 << 30 };

intact_status intact_trainable_create(intact_graph *graph, intact_trainable **trainable) {
  intact_context *context = graph->context;
  if (graph->stage > INTACT_STAGE_OBSERVED)
    INTACT_FAIL(context, WRONG_USE, graph->name, "only a float or observed network can be trained; this one is at stage %s",
                intact_stage_text(graph->stage));
  intact_trainable *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  *made = (intact_trainable){.context = context, .graph = graph, .training = true};
  intact__recycle_up_to(context, RECYCLED); /* every step needs the blocks of the last one again */
  intact_status status = intact__trainable_prepare(made);
  if (status == INTACT_OK) status = intact__trainable_find_chains(made);
  if (status != INTACT_OK) {
    intact_trainable_destroy(made);
    return status;
  }
  *trainable = made;
  return INTACT_OK;
}

void intact_trainable_destroy(intact_trainable *trainable) {
  if (!trainable) return;
  intact_context *context = trainable->context;
  for (int i = 0; i < trainable->n; i++) intact_variable_release(trainable->parameters[i]);
  intact__trainable_drop_chains(trainable);
  intact__trainable_restore(trainable);
  intact__free(context, trainable->values);
  intact__free(context, trainable->parameters);
  intact__free(context, trainable->index);
  intact__free(context, trainable);
}

int intact_trainable_count(const intact_trainable *trainable) { return trainable->n; }
const char *intact_trainable_name(const intact_trainable *trainable, int index) { return trainable->values[index]->name; }
intact_variable *intact_trainable_parameter(const intact_trainable *trainable, int index) { return trainable->parameters[index]; }
void intact_trainable_set_training(intact_trainable *trainable, bool training) { trainable->training = training; }
void intact_trainable_freeze_batch_norm(intact_trainable *trainable, bool freeze) { trainable->batch_norm_frozen = freeze; }

int intact_trainable_set_requires_grad(intact_trainable *trainable, const char *pattern, bool requires_grad) {
  int matched = 0;
  for (int i = 0; i < trainable->n; i++) {
    if (!intact__glob(pattern, trainable->values[i]->name)) continue;
    trainable->parameters[i]->requires_grad = requires_grad;
    matched++;
  }
  return matched;
}

void intact_trainable_clear_gradients(intact_trainable *trainable) {
  for (int i = 0; i < trainable->n; i++) intact_variable_clear_gradient(trainable->parameters[i]);
}

/* ---- forward ---- */

typedef struct forward {
  intact_trainable *t;
  intact_variable **values; /* by value id; held */
  int *left;                /* reads that are still to come, by value id */
  void **room; /* holds the lists of one node: */
  const intact_tensor **tensors;
  intact_variable **sources, **results;
} forward;

static void find_operand(const forward *f, const intact_value *value, int i) {
  f->tensors[i] = NULL;
  f->sources[i] = NULL;
  if (!value) return;
  const int32_t parameter = value->constant && (size_t)value->id < f->t->n_index ? f->t->index[value->id] : -1;
  f->sources[i] = parameter >= 0 ? f->t->parameters[parameter] : f->values[value->id];
  f->tensors[i] = f->sources[i] ? f->sources[i]->tensor : value->constant;
}

/* The running statistics that a training batch norm gives become its constants. What the calls before saw stays as it was: their
   gradients are still to come. */
static intact_status take_statistics(const forward *f, const intact_node *norm) {
  for (int i = 1; i < 3; i++) {
    intact_tensor *taken;
    INTACT_TRY(intact_tensor_share(f->results[i]->tensor, 0, NULL, &taken));
    intact_tensor_destroy(norm->operands[2 + i]->constant);
    norm->operands[2 + i]->constant = taken;
  }
  return INTACT_OK;
}

static void drop_if_unread(const forward *f, const intact_value *value) {
  if (f->left[value->id] > 0 || value->is_output) return;
  intact_variable_release(f->values[value->id]);
  f->values[value->id] = NULL;
}

static void read_operands(const forward *f, const intact_node *node) {
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (!value || value->constant) continue;
    f->left[value->id]--;
    drop_if_unread(f, value);
  }
}

static bool by_batch(const forward *f) { return f->t->training && !f->t->batch_norm_frozen; }

static intact_status run_node(const forward *f, intact_node *node, const intact_chain *clamped) {
  const bool learns = intact__trains_statistics(node);
  for (int i = 0; i < node->n_operands; i++) find_operand(f, node->operands[i], i);
  if (clamped) find_operand(f, clamped->clamp->operands[0], 0);
  if (learns) intact__attr_set_int(node, "training", by_batch(f));
  if (f->t->training && !clamped && intact__node_observes(node)) INTACT_TRY(intact__observation_update(node->observation, f->tensors[0]));
  INTACT_TRY(intact__tape_call(node, f->tensors, f->sources, node->n_results, f->results));
  for (int i = 0; i < node->n_results; i++) f->values[node->results[i]->id] = f->results[i];
  if (learns && by_batch(f)) INTACT_TRY(take_statistics(f, node));
  read_operands(f, clamped ? clamped->clamp : node);
  for (int i = 0; i < node->n_results; i++) drop_if_unread(f, node->results[i]);
  return INTACT_OK;
}

/* A chain with a norm: its node in the place of the three. */
static intact_status run_chain(const forward *f, const intact_chain *chain) {
  intact_node *node = chain->node;
  for (int i = 0; i < node->n_operands; i++) find_operand(f, i < chain->norm->n_operands ? chain->norm->operands[i] : NULL, i);
  for (int i = 1; i < chain->fake->n_operands; i++) find_operand(f, chain->fake->operands[i], 5 + i); /* a learned pair */
  intact__attr_set_int(node, "training", by_batch(f));
  intact__attr_set_int(node, "observe", f->t->training && intact__attr_int(chain->fake, "observe"));
  INTACT_TRY(intact__tape_call(node, f->tensors, f->sources, node->n_results, f->results));
  intact_status status = by_batch(f) ? take_statistics(f, chain->norm) : INTACT_OK;
  const intact_value *y = chain->fake->results[0];
  f->values[y->id] = f->results[0];
  for (int i = 1; i < node->n_results; i++) intact_variable_release(f->results[i]);
  read_operands(f, chain->norm);
  drop_if_unread(f, y);
  return status;
}

static intact_status run_step(const forward *f, const intact_training_step *step) {
  const intact_chain *chain = step->chain >= 0 ? &f->t->chains[step->chain] : NULL;
  if (!chain || !chain->active) return run_node(f, step->node, NULL);
  if (step->node != chain->fake) return INTACT_OK;
  return chain->norm ? run_chain(f, chain) : run_node(f, step->node, chain);
}

static intact_status check_inputs(const intact_trainable *t, intact_variable *const *inputs) {
  const intact_graph *graph = t->graph;
  const intact_tensor **tensors = intact__alloc_zeroed(t->context, (size_t)graph->n_inputs + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, 0);
  intact_status status = INTACT_OK;
  for (int i = 0; i < graph->n_inputs && status == INTACT_OK; i++) {
    if (inputs[i]) tensors[i] = inputs[i]->tensor;
    else
      status = intact__fail(t->context, INTACT_WRONG_USE, graph->inputs[i]->name, __FILE__, __LINE__, "no variable is given for input %s",
                            graph->inputs[i]->name);
  }
  if (status == INTACT_OK) status = intact__graph_check_inputs(graph, tensors);
  intact__free(t->context, tensors);
  return status;
}

static intact_status give_outputs(const forward *f, intact_variable **outputs) {
  const intact_graph *graph = f->t->graph;
  for (int i = 0; i < graph->n_outputs; i++) {
    find_operand(f, graph->outputs[i], 0);
    outputs[i] = intact_variable_retain(f->sources[0]);
    if (outputs[i]) continue;
    const intact_status status = intact_variable_create(f->tensors[0], false, &outputs[i]);
    if (status == INTACT_OK) continue;
    for (int k = 0; k <= i; k++) {
      intact_variable_release(outputs[k]);
      outputs[k] = NULL;
    }
    return status;
  }
  return INTACT_OK;
}

static intact_status run_nodes(forward *f) {
  const intact_graph *graph = f->t->graph;
  size_t widest = 8; /* what a chain takes */
  for (const intact_node *node = graph->first; node; node = node->next) {
    if ((size_t)node->n_operands > widest) widest = (size_t)node->n_operands;
    if ((size_t)node->n_results > widest) widest = (size_t)node->n_results;
  }
  void **room = intact__alloc_zeroed(graph->context, 3 * widest, sizeof *room);
  if (!room) return intact__no_memory(graph->context, 3 * widest * sizeof *room);
  f->room = room;
  f->tensors = (const intact_tensor **)(void *)room;
  f->sources = (intact_variable **)(void *)(room + widest);
  f->results = f->sources + widest;
  intact_status status = INTACT_OK;
  intact__trainable_choose_chains(f->t);
  for (int i = 0; i < f->t->n_steps && status == INTACT_OK; i++) status = run_step(f, &f->t->steps[i]);
  return status;
}

intact_status intact_trainable_forward(intact_trainable *trainable, intact_variable *const *inputs, intact_variable **outputs) {
  const intact_graph *graph = trainable->graph;
  intact_context *context = trainable->context;
  INTACT_TRY(check_inputs(trainable, inputs));
  forward f = {.t = trainable};
  f.values = intact__alloc_zeroed(context, graph->n_values + 1, sizeof *f.values);
  f.left = intact__alloc_zeroed(context, graph->n_values + 1, sizeof *f.left);
  intact_status status = INTACT_OK;
  if (!f.values || !f.left) INTACT_TRY_TO(done, intact__no_memory(context, graph->n_values * sizeof *f.values));
  for (size_t i = 0; i < graph->n_values; i++)
    if (graph->values[i]) f.left[i] = graph->values[i]->n_uses;
  for (int i = 0; i < graph->n_inputs; i++) f.values[graph->inputs[i]->id] = intact_variable_retain(inputs[i]);
  INTACT_TRY_TO(done, run_nodes(&f));
  status = give_outputs(&f, outputs);
done:
  for (size_t i = 0; f.values && i < graph->n_values; i++) intact_variable_release(f.values[i]);
  intact__free(context, f.room);
  intact__free(context, f.values);
  intact__free(context, f.left);
  return status;
}
