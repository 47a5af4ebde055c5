/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to text. */
#include <math.h>
#include <string.h>

#include "graph/observer.h"
#include "graph/text_form.h"

enum { INLINE_ELEMENTS = 64, INLINE_SCALES = 64 };

typedef struct printer {
  intact_text *text;
  const intact_side_table *side;
  intact_status status; /* of the side table */
} printer;

static void add_quoted(intact_text *text, const char *string) {
  const uint8_t *end = (const uint8_t *)string + strlen(string);
  intact__text_add_bytes(text, "\"", 1);
  for (const char *at = string; *at != 0; at++) {
    const unsigned char byte = (unsigned char)*at;
    if (byte == '"' || byte == '\\') {
      intact__text_add(text, "\\%c", byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      intact__text_add(text, "\\x%02x", byte);
    } else {
      const int length = intact__utf8_length((const uint8_t *)at, end);
      if (length == 0) intact__text_add(text, "\\x%02x", byte);
      if (length > 0) intact__text_add_bytes(text, at, (size_t)length);
      if (length > 1) at += length - 1;
    }
  }
  intact__text_add_bytes(text, "\"", 1);
}

bool intact__is_word_byte(char byte, bool first) {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
  return letter || (!first && ((byte >= '0' && byte <= '9') || (byte != 0 && strchr("./+$-", byte) != NULL)));
}

static void add_name(intact_text *text, const char *name) {
  bool plain = strcmp(name, "_") != 0 && intact__is_word_byte(name[0], true);
  for (const char *at = name; *at != 0 && plain; at++) plain = intact__is_word_byte(*at, at == name);
  if (plain) {
    intact__text_add(text, "%s", name);
  } else {
    add_quoted(text, name);
  }
}

static void add_shape(intact_text *text, const intact_graph *graph, int rank, const int64_t *dims) {
  intact__text_add(text, "[");
  if (rank < 0) intact__text_add(text, "*");
  for (int i = 0; i < rank; i++) {
    if (i > 0) intact__text_add(text, ",");
    if (dims[i] >= 0) {
      intact__text_add(text, "%lld", (long long)dims[i]);
    } else {
      add_name(text, intact_graph_symbol(graph, dims[i]));
    }
  }
  intact__text_add(text, "]");
}

static bool is_decimal(const intact_tensor *tensor) {
  if (tensor->count > INLINE_ELEMENTS) return false;
  switch (tensor->dtype) {
    case INTACT_F32:
    case INTACT_F64:
    case INTACT_F16:
    case INTACT_BF16:
      for (int64_t i = 0; i < tensor->count; i++)
        if (isnan(intact__tensor_get_f64(tensor, i))) return false; /* the payload must not get lost */
      return true;
    case INTACT_U64:
      for (int64_t i = 0; i < tensor->count; i++)
        if (((const uint64_t *)tensor->data)[i] > INT64_MAX) return false;
      return true;
    case INTACT_BOOL:
      for (int64_t i = 0; i < tensor->count; i++)
        if (((const uint8_t *)tensor->data)[i] > 1) return false;
      return true;
    default:
      return intact_dtype_is_integer(tensor->dtype);
  }
}

static void add_content(printer *p, const intact_tensor *tensor) {
  intact_text *text = p->text;
  if (is_decimal(tensor)) {
    intact__text_add(text, "{");
    for (int64_t i = 0; i < tensor->count; i++) {
      if (i > 0) intact__text_add(text, ", ");
      if (tensor->dtype == INTACT_F64) {
        intact__text_add_double(text, intact__tensor_get_f64(tensor, i));
      } else if (intact_dtype_is_float(tensor->dtype)) {
        intact__text_add_float(text, (float)intact__tensor_get_f64(tensor, i));
      } else {
        intact__text_add(text, "%lld", (long long)intact__tensor_get_s64(tensor, i));
      }
    }
    intact__text_add(text, "}");
  } else if (p->side != NULL) {
    int64_t index = 0;
    if (p->status == INTACT_OK) p->status = p->side->put(p->side->user, tensor, &index);
    intact__text_add(text, "@%lld", (long long)index);
  } else {
    const uint8_t *bytes = tensor->data;
    intact__text_add(text, "x\"");
    for (size_t i = 0; i < intact_tensor_bytes(tensor); i++) {
      const char pair[2] = {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15]};
      intact__text_add_bytes(text, pair, 2);
    }
    intact__text_add(text, "\"");
  }
}

/* A list of scales or zero points: one number when all are equal, in the side table when there are many. */
static void add_list(printer *p, const char *key, intact_dtype dtype, int64_t n, const void *data) {
  const uint32_t *words = data; /* float and int32_t alike: compared by bits */
  bool equal = true;
  for (int64_t i = 1; i < n && equal; i++) equal = words[i] == words[0];
  intact__text_add(p->text, " %s=", key);
  if (!equal && n > INLINE_SCALES && p->side != NULL) {
    intact_tensor *tensor = NULL;
    int64_t index = 0;
    if (p->status == INTACT_OK) p->status = intact_tensor_borrow(p->text->context, dtype, 1, &n, data, &tensor);
    if (p->status == INTACT_OK) p->status = p->side->put(p->side->user, tensor, &index);
    intact_tensor_destroy(tensor);
    intact__text_add(p->text, "@%lld", (long long)index);
    return;
  }
  if (!equal) intact__text_add(p->text, "[");
  for (int64_t i = 0; i < (equal ? 1 : n); i++) {
    if (i > 0) intact__text_add(p->text, ",");
    if (dtype == INTACT_F32) {
      intact__text_add_float(p->text, ((const float *)data)[i]);
    } else {
      intact__text_add(p->text, "%d", ((const int32_t *)data)[i]);
    }
  }
  if (!equal) intact__text_add(p->text, "]");
}

static void add_qparams(printer *p, const intact_qparams *q) {
  if (q == NULL) return;
  intact__text_add(p->text, " q{%s %lld..%lld", intact_qscheme_text(q->scheme), (long long)q->quant_min,
                   (long long)q->quant_max);
  if (q->axis >= 0) intact__text_add(p->text, " axis=%d", q->axis);
  if (q->group > 0) intact__text_add(p->text, " group=%lld", (long long)q->group);
  if (q->n != 1) intact__text_add(p->text, " n=%lld", (long long)q->n);
  add_list(p, "scale", INTACT_F32, q->n, q->scale);
  if (q->real_zero_point != NULL) {
    add_list(p, "real_zero", INTACT_F32, q->n, q->real_zero_point);
  } else {
    add_list(p, "zero", INTACT_S32, q->n, q->zero_point);
  }
  intact__text_add(p->text, "}");
}

static void add_value(printer *p, const intact_graph *graph, const intact_value *value) {
  add_name(p->text, value->name);
  intact__text_add(p->text, ": %s", intact_dtype_text(value->dtype));
  add_shape(p->text, graph, value->rank, value->dims);
  if (value->constant != NULL) add_content(p, value->constant);
  add_qparams(p, value->qparams);
}

static void add_attr(printer *p, const intact_graph *graph, const intact_attr_spec *spec, const intact_attr *attr) {
  intact_text *text = p->text;
  intact__text_add(text, " %s=", spec->name);
  switch (spec->type) {
    case INTACT_ATTR_INT:
      intact__text_add(text, "%lld", (long long)attr->i);
      return;
    case INTACT_ATTR_BOOL:
      intact__text_add(text, attr->i != 0 ? "true" : "false");
      return;
    case INTACT_ATTR_DTYPE:
      intact__text_add(text, "%s", intact_dtype_text((intact_dtype)attr->i));
      return;
    case INTACT_ATTR_FLOAT:
      intact__text_add_double(text, attr->f);
      return;
    case INTACT_ATTR_STRING:
      add_quoted(text, attr->s);
      return;
    case INTACT_ATTR_TENSOR:
      if (attr->tensor == NULL) {
        intact__text_add(text, "_");
        return;
      }
      intact__text_add(text, "%s", intact_dtype_text(attr->tensor->dtype));
      add_shape(text, graph, attr->tensor->rank, attr->tensor->dims);
      add_content(p, attr->tensor);
      return;
    default:
      break;
  }
  intact__text_add(text, "[");
  for (int i = 0; i < attr->n; i++) {
    if (i > 0) intact__text_add(text, ",");
    if (spec->type == INTACT_ATTR_INTS) intact__text_add(text, "%lld", (long long)attr->ints[i]);
    if (spec->type == INTACT_ATTR_FLOATS) intact__text_add_double(text, attr->floats[i]);
    if (spec->type == INTACT_ATTR_STRINGS) add_quoted(text, attr->strings[i]);
  }
  intact__text_add(text, "]");
}

static void add_key(intact_text *text, const char *key, const char *name) {
  intact__text_add(text, " .%s=", key);
  add_name(text, name);
}

static void add_observation(printer *p, const intact_observation *observation) {
  const intact_quant_spec *spec = &observation->spec;
  intact__text_add(p->text, " .observe={%s %s %s %lld..%lld", spec->observer != NULL ? spec->observer->name : "fixed",
                   intact_dtype_text(spec->dtype), intact_qscheme_text(spec->scheme), (long long)spec->quant_min,
                   (long long)spec->quant_max);
  if (spec->axis >= 0) intact__text_add(p->text, " axis=%d", spec->axis);
  if (spec->group > 0) intact__text_add(p->text, " group=%lld", (long long)spec->group);
  if (spec->options != NULL) {
    intact__text_add(p->text, " options=");
    add_quoted(p->text, spec->options);
  }
  intact__text_add(p->text, "}");
}

static void add_graph(printer *p, const intact_graph *graph, int depth);

static void add_node(printer *p, const intact_node *node, int depth) {
  intact_text *text = p->text;
  for (int i = 0; i < node->n_results; i++) {
    if (i > 0) intact__text_add(text, ", ");
    add_value(p, node->graph, node->results[i]);
  }
  intact__text_add(text, " = %s(", node->op->name);
  for (int i = 0; i < node->n_operands; i++) {
    if (i > 0) intact__text_add(text, ", ");
    if (node->operands[i] != NULL) {
      add_name(text, node->operands[i]->name);
    } else {
      intact__text_add(text, "_");
    }
  }
  intact__text_add(text, ")");
  for (int i = 0; i < node->op->schema.n_attrs; i++)
    if (node->attrs[i].present) add_attr(p, node->graph, &node->op->schema.attrs[i], &node->attrs[i]);
  if (strcmp(node->name, node->results[0]->name) != 0) add_key(text, "node", node->name);
  if (node->source[0] != 0) add_key(text, "source", node->source);
  if (node->module_path[0] != 0) add_key(text, "module", node->module_path);
  if (node->module_type[0] != 0) add_key(text, "type", node->module_type);
  if (node->why_float != NULL) add_key(text, "float", node->why_float);
  if (node->divides) add_key(text, "rule", "divide");
  if (node->observation != NULL) add_observation(p, node->observation);
  if (node->n_bodies > 0) intact__text_add(text, " .bodies=%d", node->n_bodies);
  intact__text_add(text, "\n");
  for (int i = 0; i < node->n_bodies; i++) {
    intact__text_add(text, "%*sbody ", 2 * depth + 2, "");
    add_quoted(text, node->bodies[i]->name);
    intact__text_add(text, "\n");
    add_graph(p, node->bodies[i], depth + 1);
    intact__text_add(text, "%*send\n", 2 * depth + 2, "");
  }
}

static void add_graph(printer *p, const intact_graph *graph, int depth) {
  intact_text *text = p->text;
  for (int i = 0; i < graph->n_inputs; i++) {
    intact__text_add(text, "%*sinput ", 2 * depth, "");
    add_value(p, graph, graph->inputs[i]);
    intact__text_add(text, "\n");
  }
  for (size_t i = 0; i < graph->n_values; i++) {
    if (graph->values[i] == NULL || graph->values[i]->constant == NULL) continue;
    intact__text_add(text, "%*sconstant ", 2 * depth, "");
    add_value(p, graph, graph->values[i]);
    intact__text_add(text, "\n");
  }
  for (const intact_node *node = graph->first; node != NULL; node = node->next) {
    intact__text_add(text, "%*s", 2 * depth, "");
    add_node(p, node, depth);
  }
  for (int i = 0; i < graph->n_outputs; i++) {
    intact__text_add(text, "%*soutput ", 2 * depth, "");
    add_name(text, graph->outputs[i]->name);
    intact__text_add(text, "\n");
  }
}

static void mark_symbols(const intact_graph *graph, int n, bool *used) {
  for (size_t i = 0; i < graph->n_values; i++) {
    const intact_value *value = graph->values[i];
    for (int k = 0; value != NULL && k < value->rank; k++)
      if (value->dims[k] < 0 && value->dims[k] >= -(int64_t)n) used[-1 - value->dims[k]] = true;
  }
  for (const intact_node *node = graph->first; node != NULL; node = node->next)
    for (int i = 0; i < node->n_bodies; i++) mark_symbols(node->bodies[i], n, used);
}

static intact_status add_symbols(intact_text *text, const intact_graph *graph) {
  bool *used = intact__alloc_zeroed(text->context, (size_t)graph->n_symbols + 1, sizeof *used);
  if (used == NULL) return intact__no_memory(text->context, (size_t)graph->n_symbols);
  mark_symbols(graph, graph->n_symbols, used);
  const char *before = "symbols ";
  for (int i = 0; i < graph->n_symbols; i++) {
    if (!used[i]) continue;
    intact__text_add(text, "%s", before);
    add_name(text, graph->symbols[i]);
    before = ", ";
  }
  if (before[0] == ',') intact__text_add(text, "\n");
  intact__free(text->context, used);
  return INTACT_OK;
}

intact_status intact__graph_write_text(const intact_graph *graph, const intact_side_table *side, intact_text *text) {
  printer p = {.text = text, .side = side};
  intact__text_add(text, "intact graph 1\nname ");
  add_quoted(text, graph->name);
  intact__text_add(text, "\nstage %s\nrequantize ", intact_stage_text(graph->stage));
  add_name(text, graph->requantize);
  intact__text_add(text, "\n");
  for (int i = 0; i < graph->n_meta; i++) {
    intact__text_add(text, "meta ");
    add_quoted(text, graph->meta[2 * i]);
    intact__text_add(text, " ");
    add_quoted(text, graph->meta[2 * i + 1]);
    intact__text_add(text, "\n");
  }
  INTACT_TRY(add_symbols(text, graph));
  add_graph(&p, graph, 0);
  INTACT_TRY(p.status);
  return text->failed ? intact__no_memory(graph->context, text->length) : INTACT_OK;
}

intact_status intact_graph_print(const intact_graph *graph, char **text) {
  intact_text out;
  intact__text_init(&out, graph->context);
  const intact_status status = intact__graph_write_text(graph, NULL, &out);
  if (status == INTACT_OK) *text = intact__text_take(&out);
  intact__text_fini(&out);
  return status;
}

void intact_text_destroy(intact_context *context, char *text) { intact__free(context, text); }
