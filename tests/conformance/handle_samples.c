/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the sample files (import and run, or list the contents) and of the broken files (refuse by kind). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/conformance.h"
#include "graph/format.h"

static const char *text_of(const conf_case *c, const char *key) {
  return json_string_value(json_object_get(c->json, key));
}

static void file_path(const conf_case *c, const char *file, char *path, size_t size) {
  snprintf(path, size, "%s/%s", c->set->folder, file);
}

/* ---- contents ---- */

/* An element as the sample's text has it: a number, or "(a+bj)". */
static bool element_matches(const intact_tensor *tensor, int64_t i, const char *text) {
  if (tensor->dtype == INTACT_C64) {
    const float *pair = (const float *)tensor->data + 2 * i;
    char *end;
    const double real = strtod(text + 1, &end), imaginary = strtod(end, NULL);
    return pair[0] == (float)real && pair[1] == (float)imaginary;
  }
  if (!intact_dtype_is_float(tensor->dtype) && !strchr(text, '.')) {
    return tensor->dtype == INTACT_U64 ? (uint64_t)intact__tensor_get_s64(tensor, i) == strtoull(text, NULL, 10)
                                       : intact__tensor_get_s64(tensor, i) == strtoll(text, NULL, 10);
  }
  return intact__tensor_get_f64(tensor, i) == strtod(text, NULL);
}

static bool shape_matches(const intact_tensor *tensor, const json_t *shape) {
  if ((size_t)tensor->rank != json_array_size(shape)) return false;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] != conf_json_int(json_array_get(shape, (size_t)i), -1)) return false;
  }
  return true;
}

/* {"name": [dtype, shape, [elements as text]]}. */
static void check_contents(conf_case *c, const intact_tensor_set *set, const json_t *contents) {
  const char *name;
  json_t *entry;
  json_object_foreach(conf_iterable(contents), name, entry) {
    const intact_tensor *tensor = intact_tensor_set_find(set, name);
    const char *type = json_string_value(json_array_get(entry, 0));
    intact_dtype dtype;
    if (!tensor) {
      conf_fail(c, "expected a tensor '%s', got none", name);
    } else if (!conf_dtype(type, &dtype) || tensor->dtype != dtype || !shape_matches(tensor, json_array_get(entry, 1))) {
      conf_fail(c, "%s: expected type %s and its shape, got %s of rank %d", name, type ? type : "?",
                intact_dtype_text(tensor->dtype), tensor->rank);
    } else {
      size_t i;
      const json_t *element;
      json_array_foreach(json_array_get(entry, 2), i, element) {
        const char *text = json_string_value(element);
        if ((int64_t)i >= tensor->count || !text || !element_matches(tensor, (int64_t)i, text)) {
          conf_fail(c, "%s: expected %s at element %zu, got another value", name, text ? text : "?", i);
        }
      }
    }
  }
  if ((size_t)intact_tensor_set_count(set) != json_object_size(contents)) {
    conf_fail(c, "expected %zu tensors, got %d", json_object_size(contents), intact_tensor_set_count(set));
  }
}

/* "dtype" (NumPy's descr), "shape", "first" of a single array. */
static void check_array(conf_case *c, const intact_tensor *tensor) {
  const char *descr = text_of(c, "dtype");
  const json_t *shape = json_object_get(c->json, "shape"), *element;
  size_t i;
  if (descr && intact_dtype_bits(tensor->dtype) != 8 * atoi(descr + 2)) {
    conf_fail(c, "expected type %s, got %s", descr, intact_dtype_text(tensor->dtype));
  }
  if (shape && !shape_matches(tensor, shape)) conf_fail(c, "expected another shape, got rank %d", tensor->rank);
  json_array_foreach(json_object_get(c->json, "first"), i, element) {
    if ((int64_t)i >= tensor->count || intact__tensor_get_f64(tensor, (int64_t)i) != conf_json_f64(element, 0)) {
      conf_fail(c, "expected %g at element %zu, got another value", conf_json_f64(element, 0), i);
    }
  }
}

static intact_status inspect(conf_case *c, const char *path) {
  intact_tensor_set *set;
  intact_status status = intact_tensors_read(c->context, path, &set);
  if (status != INTACT_OK) return status;
  const json_t *contents = json_object_get(c->json, "contents");
  if (contents) check_contents(c, set, contents);
  if (intact_tensor_set_count(set) == 0) {
    conf_fail(c, "expected tensors, got none");
  } else if (json_object_get(c->json, "shape")) {
    check_array(c, intact_tensor_set_get(set, 0));
  }
  intact_tensor_set_destroy(set);
  return INTACT_OK;
}

/* ---- import and run ---- */

typedef struct import {
  conf_case *c;
  intact_graph *graph;
  intact_tensor_set *tensors;
  const json_t *second; /* "second_batch": other keys for the same names; NULL: the first */
} import;

/* The tensor that the index names for entry `index` of `group` ("inputs", "outputs"), by name if the graph has the name. */
static const intact_tensor *named_tensor(const import *m, const char *group, const char *name, int index) {
  const json_t *keys = json_object_get(m->c->json, group);
  const char *found = NULL, *each;
  json_t *value;
  int i = 0;
  json_object_foreach(conf_iterable(keys), each, value) {
    if (i++ == index && !found) found = each;
    if (strcmp(each, name) == 0) found = each;
  }
  if (!found) return NULL;
  const char *key = json_string_value(json_object_get(m->second ? m->second : keys, found));
  return key ? intact_tensor_set_find(m->tensors, key) : NULL;
}

/* A tolerance of kind qstep counts steps of the output's scale. */
static json_t *tolerance_of(const conf_case *c) {
  json_t *tolerance = json_object_get(c->json, "tolerance");
  const char *kind = json_string_value(json_object_get(tolerance, "kind"));
  const json_t *scale = json_object_get(c->json, "output_scale");
  if (!kind || strcmp(kind, "qstep") != 0 || !scale) return json_incref(tolerance);
  const double steps = conf_json_f64(json_object_get(tolerance, "value"), 0), step = conf_json_f64(scale, 0);
  return json_pack("{s:s,s:f}", "kind", "abs", "value", steps * step * (1 + 1e-4));
}

static intact_status run_once(const import *m) {
  enum { MAX = 32 };
  conf_case *c = m->c;
  const intact_tensor *inputs[MAX] = {NULL};
  intact_tensor *outputs[MAX] = {NULL};
  const int n_inputs = intact_graph_input_count(m->graph), n_outputs = intact_graph_output_count(m->graph);
  if (n_inputs > MAX || n_outputs > MAX || (size_t)n_inputs != json_object_size(json_object_get(c->json, "inputs"))) {
    return conf_fail(c, "expected %zu inputs, got %d", json_object_size(json_object_get(c->json, "inputs")), n_inputs);
  }
  for (int i = 0; i < n_inputs; i++) {
    inputs[i] = named_tensor(m, "inputs", intact_graph_input(m->graph, i).name, i);
    if (!inputs[i])
      return conf_fail(c, "expected a tensor for input %s in the index, got none", intact_graph_input(m->graph, i).name);
  }
  intact_status status = intact_graph_interpret(m->graph, inputs, false, outputs);
  if (status != INTACT_OK) return status;
  json_t *tolerance = tolerance_of(c);
  for (int i = 0; i < n_outputs; i++) {
    const intact_value_info info = intact_graph_output(m->graph, i);
    const intact_tensor *want = named_tensor(m, "outputs", info.name, i);
    if (want) conf_compare(c, info.name, outputs[i], want, tolerance);
    intact_tensor_destroy(outputs[i]);
  }
  if ((size_t)n_outputs < json_object_size(json_object_get(c->json, "outputs"))) {
    conf_fail(c, "expected %zu outputs, got %d", json_object_size(json_object_get(c->json, "outputs")), n_outputs);
  }
  json_decref(tolerance);
  return INTACT_OK;
}

static intact_status import_and_run(conf_case *c, const char *path) {
  char tensors[4200];
import m = {.c = c };
  if (text_of(c, "tensors")) {
    file_path(c, text_of(c, "tensors"), tensors, sizeof tensors);
    intact_status opened = intact_tensors_read(c->context, tensors, &m.tensors);
    if (opened != INTACT_OK) return opened;
  }
  intact_status status = intact_model_read(c->context, path, &m.graph);
  if (status == INTACT_OK && m.tensors) {
    status = run_once(&m);
    m.second = json_object_get(c->json, "second_batch");
    if (status == INTACT_OK && m.second) status = run_once(&m);
    intact_graph_destroy(m.graph);
  } else if (status == INTACT_OK) {
    intact_graph_destroy(m.graph);
  }
  intact_tensor_set_destroy(m.tensors);
  return status;
}

intact_status conf_handle_sample(conf_case *c) {
  char path[4200];
  file_path(c, c->name, path, sizeof path);
  const char *action = text_of(c, "action") ? text_of(c, "action") : "", *found = "";
  const intact_format *format = intact__find_format(c->op);
  if (!format) return conf_skip(c, c->op);
  intact_status status = intact_file_format(c->context, path, &found);
  if (status != INTACT_OK) return status;
  if (strcmp(found, c->op) != 0) return conf_fail(c, "expected format %s, got %s", c->op, found);
  const bool model = strncmp(action, "import", 6) == 0;
  if (model ? !format->import_graph : !format->read_tensors) return conf_skip(c, c->op);
  status = model ? import_and_run(c, path) : inspect(c, path);
  const bool must_refuse = strncmp(action, "refuse", 6) == 0, may_refuse = strstr(action, "refuse") != NULL;
  if (must_refuse && status == INTACT_OK) return conf_fail(c, "expected a refusal, got contents");
  return may_refuse && status != INTACT_INTERNAL ? INTACT_OK : status;
}

/* ---- broken files ---- */

intact_status conf_handle_broken(conf_case *c) {
  char path[4200];
  file_path(c, c->name, path, sizeof path);
  const intact_format *format = intact__find_format(c->op);
  if (!format || (!format->import_graph && !format->read_tensors)) return conf_skip(c, c->op);
  intact_graph *graph = NULL;
  intact_tensor_set *set = NULL;
  const intact_status status =
      format->import_graph ? intact_model_read(c->context, path, &graph) : intact_tensors_read(c->context, path, &set);
  const char *kind = text_of(c, "kind") ? text_of(c, "kind") : "?", *got = intact_status_text(status);
  if (status == INTACT_OK) {
    intact_graph_destroy(graph);
    intact_tensor_set_destroy(set);
  }
  if (graph || set) {
    if (status != INTACT_OK) conf_fail(c, "expected no result of a refused file, got one");
  }
  if (strcmp(kind, got) != 0) {
    conf_fail(c, "expected %s (%s), got %s: %s", kind, text_of(c, "must_report") ? text_of(c, "must_report") : "?", got,
              status == INTACT_OK ? "a result" : intact_context_message(c->context));
  } else if (intact_context_message(c->context)[0] == 0) {
    conf_fail(c, "expected a message, got none");
  }
  return INTACT_OK;
}
