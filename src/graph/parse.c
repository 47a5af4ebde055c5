/* SPDX-License-Identifier: Apache-2.0 */
/* Text to graph. */
#include <assert.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/lex.h"
#include "graph/observer.h"

enum { DEEPEST_BODY = 64, TEXT_VERSION = 1 };

/* The types that the text states for a node's results, until infer has run. */
typedef struct stated {
  intact_dtype dtype;
  int rank;
  int64_t dims[INTACT_MAX_RANK];
  const intact_qparams *qparams;
} stated;

/* Growing arrays that the lines of one graph share. */
typedef struct lists {
  char **names; /* of results, then of operands; NULL for _ */
  size_t n_names, names_capacity;
  stated *types;
  size_t n_types, types_capacity;
  intact_value **outputs;
  size_t n_outputs, outputs_capacity;
} lists;

static intact_status parse_body(intact_lexer *lexer, intact_graph *graph, int depth);

static intact_status take_word(intact_lexer *lexer, intact_arena *arena, const char **copy) {
  const char *kept = intact__arena_strdup(arena, lexer->word.data);
  if (kept == NULL) return intact__no_memory(lexer->context, lexer->word.length + 1);
  *copy = kept;
  return INTACT_OK;
}

static bool word_is(const intact_lexer *lexer, const char *word) { return strcmp(lexer->word.data, word) == 0; }

/* ---- inputs, constants, outputs ---- */
static intact_status parse_input(intact_lexer *lexer, intact_graph *graph) {
  const char *name = NULL;
  stated type = {0};
  intact_value *value = NULL;
  INTACT_TRY(intact__lex_name(lexer, NULL));
  INTACT_TRY(take_word(lexer, &graph->arena, &name));
  INTACT_TRY(intact__lex_expect(lexer, ":"));
  INTACT_TRY(intact__lex_type(lexer, graph, &type.dtype, &type.rank, type.dims));
  INTACT_TRY(intact__lex_qparams(lexer, &graph->arena, type.dtype, &type.qparams));
  INTACT_TRY(intact__graph_add_input(graph, name, type.dtype, type.rank, type.dims, &value));
  value->qparams = type.qparams;
  return INTACT_OK;
}

static intact_status parse_constant(intact_lexer *lexer, intact_graph *graph) {
  const char *name = NULL;
  stated type = {0};
  intact_tensor *tensor = NULL;
  intact_value *value = NULL;
  INTACT_TRY(intact__lex_name(lexer, NULL));
  INTACT_TRY(take_word(lexer, &graph->arena, &name));
  INTACT_TRY(intact__lex_expect(lexer, ":"));
  INTACT_TRY(intact__lex_type(lexer, NULL, &type.dtype, &type.rank, type.dims));
  INTACT_TRY(intact__lex_content(lexer, type.dtype, type.rank, type.dims, &tensor));
  const intact_status status = intact__lex_qparams(lexer, &graph->arena, type.dtype, &type.qparams);
  if (status != INTACT_OK) {
    intact_tensor_destroy(tensor);
    return status;
  }
  return intact__graph_add_constant(graph, name, tensor, type.qparams, &value);
}

static intact_status fail_undefined(intact_lexer *lexer, const char *name) {
  INTACT_FAIL(lexer->context, BAD_REFERENCE, name, "graph text, line %lld: value %s is used but not defined before",
              (long long)lexer->line, name);
}

static intact_status parse_output(intact_lexer *lexer, intact_graph *graph, lists *l) {
  INTACT_TRY(intact__lex_name(lexer, NULL));
  intact_value *value = intact__graph_find_value(graph, lexer->word.data);
  if (value == NULL) return fail_undefined(lexer, lexer->word.data);
  void *array = l->outputs;
  INTACT_TRY(intact__reserve(lexer->context, &array, &l->outputs_capacity, l->n_outputs + 1, sizeof *l->outputs));
  l->outputs = array;
  l->outputs[l->n_outputs++] = value;
  return INTACT_OK;
}

/* ---- attributes ---- */
static intact_status parse_list(intact_lexer *lexer, intact_node *node, const intact_attr_spec *spec) {
  intact_arena *arena = &node->graph->arena;
  void *array = NULL;
  size_t capacity = 0;
  int n = 0;
  intact_status status = INTACT_OK;
  const size_t size = spec->type == INTACT_ATTR_STRINGS ? sizeof(const char *) : sizeof(int64_t);
  INTACT_TRY(intact__lex_expect(lexer, "["));
  while (!intact__lex_mark(lexer, "]")) {
    if (n > 0) INTACT_TRY_TO(done, intact__lex_expect(lexer, ","));
    INTACT_TRY_TO(done, intact__reserve(lexer->context, &array, &capacity, (size_t)n + 1, size));
    if (spec->type == INTACT_ATTR_INTS) INTACT_TRY_TO(done, intact__lex_int(lexer, (int64_t *)array + n));
    if (spec->type == INTACT_ATTR_FLOATS) INTACT_TRY_TO(done, intact__lex_double(lexer, (double *)array + n));
    if (spec->type == INTACT_ATTR_STRINGS) {
      INTACT_TRY_TO(done, intact__lex_string(lexer));
      INTACT_TRY_TO(done, take_word(lexer, arena, (const char **)array + n));
    }
    n++;
  }
  if (spec->type == INTACT_ATTR_INTS) status = intact__attr_set_ints(node, spec->name, n, array);
  if (spec->type == INTACT_ATTR_FLOATS) status = intact__attr_set_floats(node, spec->name, n, array);
  if (spec->type == INTACT_ATTR_STRINGS) status = intact__attr_set_strings(node, spec->name, n, array);
done:
  intact__free(lexer->context, array);
  return status;
}

static intact_status parse_tensor_attr(intact_lexer *lexer, intact_node *node, const intact_attr_spec *spec) {
  intact_tensor *tensor = NULL;
  stated type = {0};
  if (!intact__lex_mark(lexer, "_")) {
    INTACT_TRY(intact__lex_type(lexer, NULL, &type.dtype, &type.rank, type.dims));
    INTACT_TRY(intact__lex_content(lexer, type.dtype, type.rank, type.dims, &tensor));
  }
  return intact__attr_set_tensor(node, spec->name, tensor);
}

static intact_status parse_attr(intact_lexer *lexer, intact_node *node, const intact_attr_spec *spec) {
  int64_t i = 0;
  double f = 0;
  intact_dtype dtype = INTACT_F32;
  switch (spec->type) {
    case INTACT_ATTR_INT:
      INTACT_TRY(intact__lex_int(lexer, &i));
      intact__attr_set_int(node, spec->name, i);
      return INTACT_OK;
    case INTACT_ATTR_BOOL:
      if (intact__lex_mark(lexer, "true")) {
        i = 1;
      } else {
        INTACT_TRY(intact__lex_expect(lexer, "false"));
      }
      intact__attr_set_int(node, spec->name, i);
      return INTACT_OK;
    case INTACT_ATTR_DTYPE:
      INTACT_TRY(intact__lex_word(lexer));
      if (!intact_dtype_from_text(lexer->word.data, &dtype)) return intact__lex_fail(lexer, "an element type such as f32");
      intact__attr_set_int(node, spec->name, (int64_t)dtype);
      return INTACT_OK;
    case INTACT_ATTR_FLOAT:
      INTACT_TRY(intact__lex_double(lexer, &f));
      intact__attr_set_float(node, spec->name, f);
      return INTACT_OK;
    case INTACT_ATTR_STRING:
      INTACT_TRY(intact__lex_string(lexer));
      return intact__attr_set_string(node, spec->name, lexer->word.data);
    case INTACT_ATTR_TENSOR:
      return parse_tensor_attr(lexer, node, spec);
    default:
      return parse_list(lexer, node, spec);
  }
}

/* "{histogram u8 per_tensor_affine 0..255 axis=0 group=32 options=".."}": an observation that has seen nothing. */
static intact_status parse_observation(intact_lexer *lexer, intact_node *node) {
#if defined(INTACT_FULL)
  intact_quant_spec spec = {.axis = -1};
  const char *options = NULL;
  INTACT_TRY(intact__lex_expect(lexer, "{"));
  INTACT_TRY(intact__lex_word(lexer));
  spec.observer = intact__find_observer(lexer->word.data);
  if (spec.observer == NULL && !word_is(lexer, "fixed")) return intact__lex_fail(lexer, "an observer after {");
  INTACT_TRY(intact__lex_word(lexer));
  if (!intact_dtype_from_text(lexer->word.data, &spec.dtype)) return intact__lex_fail(lexer, "an element type before this");
  INTACT_TRY(intact__lex_word(lexer));
  if (!intact_qscheme_from_text(lexer->word.data, &spec.scheme)) return intact__lex_fail(lexer, "a qscheme before this");
  INTACT_TRY(intact__lex_int(lexer, &spec.quant_min));
  INTACT_TRY(intact__lex_expect(lexer, ".."));
  INTACT_TRY(intact__lex_int(lexer, &spec.quant_max));
  int64_t axis = -1;
  if (intact__lex_mark(lexer, "axis=")) INTACT_TRY(intact__lex_int_in(lexer, "axis", 0, INTACT_MAX_RANK - 1, &axis));
  spec.axis = (int)axis;
  if (intact__lex_mark(lexer, "group=")) INTACT_TRY(intact__lex_int_in(lexer, "group", 1, INT64_MAX, &spec.group));
  if (intact__lex_mark(lexer, "options=")) {
    INTACT_TRY(intact__lex_string(lexer));
    INTACT_TRY(take_word(lexer, &node->graph->arena, &options));
  }
  spec.options = options;
  INTACT_TRY(intact__lex_expect(lexer, "}"));
  if (node->observation != NULL) return intact__lex_fail(lexer, "one observation only");
  return intact__observation_create(lexer->context, &spec, &node->observation);
#else
  (void)node;
  return intact__lex_fail(lexer, "a graph without observers: this library holds the runtime only");
#endif
}

static intact_status parse_key(intact_lexer *lexer, intact_node *node, int64_t *n_bodies) {
  INTACT_TRY(intact__lex_word(lexer));
  const char **text = word_is(lexer, "source") ? &node->source
                      : word_is(lexer, "module") ? &node->module_path
                      : word_is(lexer, "type")   ? &node->module_type
                      : word_is(lexer, "float")  ? &node->why_float
                                                 : NULL;
  const bool bodies = word_is(lexer, "bodies"), observe = word_is(lexer, "observe"), rule = word_is(lexer, "rule");
  if (text == NULL && !bodies && !observe && !rule)
    return intact__lex_fail(lexer, "one of .node .source .module .type .float .rule .observe .bodies before this");
  INTACT_TRY(intact__lex_expect(lexer, "="));
  if (bodies) return intact__lex_int_in(lexer, "the number of bodies", 0, 64, n_bodies);
  if (observe) return parse_observation(lexer, node);
  INTACT_TRY(intact__lex_name(lexer, NULL));
  if (!rule) return take_word(lexer, &node->graph->arena, text);
  node->divides = word_is(lexer, "divide");
  return node->divides || word_is(lexer, "reciprocal") ? INTACT_OK : intact__lex_fail(lexer, "divide or reciprocal");
}

/* "name=value" of the schema. */
static intact_status parse_named_attr(intact_lexer *lexer, intact_node *node) {
  const intact_schema *schema = &node->op->schema;
  INTACT_TRY(intact__lex_word(lexer));
  int k = 0;
  while (k < schema->n_attrs && !word_is(lexer, schema->attrs[k].name)) k++;
  if (k == schema->n_attrs) {
    lexer->at -= lexer->word.length;
    intact__lex_fail(lexer, "an attribute");
    return intact__fail_in(lexer->context, "%s has no such attribute", node->op->name);
  }
  if (node->attrs[k].present) return intact__lex_fail(lexer, "every attribute once");
  INTACT_TRY(intact__lex_expect(lexer, "="));
  return parse_attr(lexer, node, &schema->attrs[k]);
}

static intact_status check_required(const intact_lexer *lexer, const intact_node *node) {
  const intact_op *op = node->op;
  for (int i = 0; i < op->schema.n_attrs; i++)
    if (op->schema.attrs[i].required && !node->attrs[i].present)
      INTACT_FAIL(lexer->context, MISSING_FIELD, node->name, "node %s (%s) lacks attribute %s, which the op requires", node->name,
                  op->name, op->schema.attrs[i].name);
  return INTACT_OK;
}

/* What stands behind the operands, but for .node, which was read ahead. */
static intact_status parse_tail(intact_lexer *lexer, intact_node *node, int64_t *n_bodies) {
  while (!intact__lex_line_ends(lexer)) {
    if (intact__lex_mark(lexer, ".node=")) {
      INTACT_TRY(intact__lex_name(lexer, NULL));
      continue;
    }
    if (intact__lex_mark(lexer, ".")) {
      INTACT_TRY(parse_key(lexer, node, n_bodies));
      continue;
    }
    INTACT_TRY(parse_named_attr(lexer, node));
  }
  return INTACT_OK;
}

/* Finds " .node=NAME" in the rest of the line and comes back: the node needs its name when it is made. */
static intact_status look_for_name(intact_lexer *lexer, intact_arena *arena, const char **name) {
  static const char key[] = " .node=";
  const char *const back = lexer->at;
  bool in_string = false;
  intact_status status = INTACT_OK;
  for (; lexer->at < lexer->end && *lexer->at != '\n'; lexer->at++) {
    if (*lexer->at == '"') in_string = !in_string;
    if (in_string && *lexer->at == '\\' && lexer->end - lexer->at > 1) lexer->at++;
    if (in_string || (size_t)(lexer->end - lexer->at) < sizeof key || memcmp(lexer->at, key, sizeof key - 1) != 0) continue;
    lexer->at += sizeof key - 1;
    INTACT_TRY_TO(done, intact__lex_name(lexer, NULL));
    INTACT_TRY_TO(done, take_word(lexer, arena, name));
    break;
  }
done:
  if (status == INTACT_OK) lexer->at = back;
  return status;
}

/* ---- nodes ---- */
static intact_status add_name(intact_lexer *lexer, intact_graph *graph, lists *l, bool quoted) {
  void *array = l->names;
  INTACT_TRY(intact__reserve(lexer->context, &array, &l->names_capacity, l->n_names + 1, sizeof *l->names));
  l->names = array;
  const char *name = NULL;
  if (quoted || !word_is(lexer, "_")) INTACT_TRY(take_word(lexer, &graph->arena, &name));
  memcpy(&l->names[l->n_names++], &name, sizeof name);
  return INTACT_OK;
}

/* ": type q{..}" of one result; the name was read. */
static intact_status parse_result(intact_lexer *lexer, intact_graph *graph, lists *l, bool quoted) {
  INTACT_TRY(add_name(lexer, graph, l, quoted));
  INTACT_TRY(intact__lex_expect(lexer, ":"));
  void *array = l->types;
  INTACT_TRY(intact__reserve(lexer->context, &array, &l->types_capacity, l->n_types + 1, sizeof *l->types));
  l->types = array;
  stated *type = &l->types[l->n_types++];
  memset(type, 0, sizeof *type);
  INTACT_TRY(intact__lex_type(lexer, graph, &type->dtype, &type->rank, type->dims));
  return intact__lex_qparams(lexer, &graph->arena, type->dtype, &type->qparams);
}

/* The stated type holds where it says more than infer; where both are known they must agree. */
static intact_status settle_type(intact_lexer *lexer, intact_value *value, const stated *type) {
  char is[200], wanted[200];
  bool fits = value->dtype == type->dtype && (value->rank < 0 || type->rank < 0 || value->rank == type->rank);
  for (int i = 0; fits && i < value->rank && i < type->rank; i++)
    fits = value->dims[i] < 0 || type->dims[i] < 0 || value->dims[i] == type->dims[i];
  if (!fits)
    INTACT_FAIL(lexer->context, SIZE_MISMATCH, value->name,
                "graph text: value %s is said to be %s%s, its node gives %s%s", value->name, intact_dtype_text(type->dtype),
                intact__shape_text(type->rank < 0 ? 0 : type->rank, type->dims, wanted), intact_dtype_text(value->dtype),
                intact__shape_text(value->rank < 0 ? 0 : value->rank, value->dims, is));
  if (type->rank < 0) return INTACT_OK;
  for (int i = 0; i < type->rank; i++)
    if (value->rank < 0 || value->dims[i] < 0) value->dims[i] = type->dims[i];
  value->rank = type->rank;
  return INTACT_OK;
}

static intact_status parse_bodies(intact_lexer *lexer, intact_node *node, int64_t n_bodies, int depth) {
  for (int64_t i = 0; i < n_bodies; i++) {
    intact_graph *body = NULL;
    if (!intact__lex_next_line(lexer)) return intact__lex_fail(lexer, "body");
    INTACT_TRY(intact__lex_expect(lexer, "body"));
    INTACT_TRY(intact__lex_name(lexer, NULL));
    INTACT_TRY(intact__node_add_body(node, lexer->word.data, &body));
    INTACT_TRY(intact__lex_end_line(lexer));
    INTACT_TRY(parse_body(lexer, body, depth + 1));
  }
  return INTACT_OK;
}

static intact_status parse_operands(intact_lexer *lexer, intact_graph *graph, lists *l) {
  INTACT_TRY(intact__lex_expect(lexer, "("));
  for (int i = 0; !intact__lex_mark(lexer, ")"); i++) {
    bool quoted = false;
    if (i > 0) INTACT_TRY(intact__lex_expect(lexer, ","));
    INTACT_TRY(intact__lex_name(lexer, &quoted));
    INTACT_TRY(add_name(lexer, graph, l, quoted));
  }
  return INTACT_OK;
}

/* Values of the operands' names, written over the names. */
static intact_status find_operands(intact_lexer *lexer, intact_graph *graph, lists *l, size_t first, intact_value **operands) {
  for (size_t i = first; i < l->n_names; i++) {
    operands[i - first] = l->names[i] != NULL ? intact__graph_find_value(graph, l->names[i]) : NULL;
    if (l->names[i] != NULL && operands[i - first] == NULL) return fail_undefined(lexer, l->names[i]);
  }
  return INTACT_OK;
}

static intact_status make_node(intact_lexer *lexer, intact_graph *graph, lists *l, const intact_op *op, const char *name,
                               intact_node **node) {
  const size_t n_results = l->n_types, n_operands = l->n_names - n_results;
  intact_value **operands = intact__alloc(lexer->context, n_operands, sizeof *operands);
  if (operands == NULL) return intact__no_memory(lexer->context, n_operands * sizeof *operands);
  intact_status status = find_operands(lexer, graph, l, n_results, operands);
  for (size_t i = 0; i < n_results && status == INTACT_OK; i++)
    if (l->names[i] == NULL) status = intact__lex_fail(lexer, "results that have names");
  if (status == INTACT_OK)
    status = intact__graph_add_node(graph, op, name != NULL ? name : l->names[0], (int)n_operands, operands, (int)n_results,
                                    (const char *const *)l->names, NULL, node);
  intact__free(lexer->context, operands);
  return status;
}

/* "y: type, z: type = op(a, b) attr=.. .key=.."; the first result's name was read. */
static intact_status parse_node(intact_lexer *lexer, intact_graph *graph, lists *l, bool quoted, int depth) {
  l->n_names = l->n_types = 0;
  INTACT_TRY(parse_result(lexer, graph, l, quoted));
  while (!intact__lex_mark(lexer, "=")) {
    INTACT_TRY(intact__lex_expect(lexer, ","));
    INTACT_TRY(intact__lex_name(lexer, &quoted));
    INTACT_TRY(parse_result(lexer, graph, l, quoted));
  }
  INTACT_TRY(intact__lex_word(lexer));
  const intact_op *op = intact__find_op(lexer->word.data);
  if (op == NULL)
    INTACT_FAIL(lexer->context, UNSUPPORTED_OP, l->names[0] != NULL ? l->names[0] : "",
                "graph text, line %lld: op %s is not in the table of this library", (long long)lexer->line, lexer->word.data);
  const char *name = NULL;
  int64_t n_bodies = 0;
  intact_node *node = NULL;
  INTACT_TRY(parse_operands(lexer, graph, l));
  INTACT_TRY(look_for_name(lexer, &graph->arena, &name));
  INTACT_TRY(make_node(lexer, graph, l, op, name, &node));
  INTACT_TRY(parse_tail(lexer, node, &n_bodies));
  INTACT_TRY(intact__lex_end_line(lexer));
  INTACT_TRY(parse_bodies(lexer, node, n_bodies, depth));
  INTACT_TRY(check_required(lexer, node));
  for (int i = 0; i < node->n_results; i++) node->results[i]->qparams = l->types[i].qparams;
  INTACT_TRY(intact__node_infer(node));
  for (int i = 0; i < node->n_results; i++) INTACT_TRY(settle_type(lexer, node->results[i], &l->types[i]));
  return INTACT_OK;
}

/* Lines of a graph up to "end" (of a body) or the end of the text. */
static intact_status parse_lines(intact_lexer *lexer, intact_graph *graph, lists *l, int depth) {
  while (intact__lex_next_line(lexer)) {
    bool quoted = false;
    INTACT_TRY(intact__lex_name(lexer, &quoted));
    intact__lex_blanks(lexer);
    const bool keyword = !quoted && (lexer->at >= lexer->end || *lexer->at != ':');
    if (!keyword) {
      INTACT_TRY(parse_node(lexer, graph, l, quoted, depth));
      continue;
    }
    if (word_is(lexer, "input")) {
      INTACT_TRY(parse_input(lexer, graph));
    } else if (word_is(lexer, "constant")) {
      INTACT_TRY(parse_constant(lexer, graph));
    } else if (word_is(lexer, "output")) {
      INTACT_TRY(parse_output(lexer, graph, l));
    } else if (depth > 0 && word_is(lexer, "end")) {
      return intact__lex_end_line(lexer);
    } else {
      return intact__lex_fail(lexer, "input, constant, output or a node before this");
    }
    INTACT_TRY(intact__lex_end_line(lexer));
  }
  return depth > 0 ? intact__lex_fail(lexer, "end") : INTACT_OK;
}

static intact_status parse_body(intact_lexer *lexer, intact_graph *graph, int depth) {
  if (depth > DEEPEST_BODY)
    INTACT_FAIL(lexer->context, RECURSION_LIMIT, graph->name, "graph text, line %lld: bodies are nested deeper than %d",
                (long long)lexer->line, DEEPEST_BODY);
  lists l = {0};
  intact_status status = parse_lines(lexer, graph, &l, depth);
  if (status == INTACT_OK && l.n_outputs > INT32_MAX / 2) status = intact__lex_fail(lexer, "fewer outputs");
  if (status == INTACT_OK) status = intact__graph_set_outputs(graph, (int)l.n_outputs, l.outputs);
  intact__free(lexer->context, l.names);
  intact__free(lexer->context, l.types);
  intact__free(lexer->context, l.outputs);
  return status;
}

static intact_status parse_stage(intact_lexer *lexer, intact_graph *graph) {
  INTACT_TRY(intact__lex_word(lexer));
  for (int s = INTACT_STAGE_FLOAT; s <= INTACT_STAGE_INTEGER; s++) {
    if (!word_is(lexer, intact_stage_text((intact_stage)s))) continue;
    graph->stage = (intact_stage)s;
    return intact__lex_end_line(lexer);
  }
  lexer->at -= lexer->word.length;
  return intact__lex_fail(lexer, "one of float, observed, qdq, integer");
}

static intact_status parse_head(intact_lexer *lexer, intact_graph *graph) {
  int64_t version;
  if (!intact__lex_next_line(lexer)) return intact__lex_fail(lexer, "intact graph");
  INTACT_TRY(intact__lex_expect(lexer, "intact graph"));
  INTACT_TRY(intact__lex_int(lexer, &version));
  if (version != TEXT_VERSION)
    INTACT_FAIL(lexer->context, UNSUPPORTED_VERSION, "", "graph text of version %lld: this library reads version %d",
                (long long)version, TEXT_VERSION);
  INTACT_TRY(intact__lex_end_line(lexer));
  INTACT_TRY(intact__lex_expect(lexer, "name"));
  INTACT_TRY(intact__lex_string(lexer));
  INTACT_TRY(take_word(lexer, &graph->arena, &graph->name));
  INTACT_TRY(intact__lex_end_line(lexer));
  INTACT_TRY(intact__lex_expect(lexer, "stage"));
  INTACT_TRY(parse_stage(lexer, graph));
  INTACT_TRY(intact__lex_expect(lexer, "requantize"));
  INTACT_TRY(intact__lex_name(lexer, NULL));
  INTACT_TRY(take_word(lexer, &graph->arena, &graph->requantize));
  INTACT_TRY(intact__lex_end_line(lexer));
  while (intact__lex_mark(lexer, "meta ")) {
    const char *key = NULL;
    INTACT_TRY(intact__lex_string(lexer));
    INTACT_TRY(take_word(lexer, &graph->arena, &key));
    INTACT_TRY(intact__lex_string(lexer));
    INTACT_TRY(intact__graph_add_meta(graph, key, lexer->word.data));
    INTACT_TRY(intact__lex_end_line(lexer));
  }
  if (!intact__lex_mark(lexer, "symbols ")) return INTACT_OK;
  do {
    INTACT_TRY(intact__lex_name(lexer, NULL));
    INTACT_TRY(intact__check_name(lexer->context, "dimension", lexer->word.data));
    if (intact__graph_symbol(graph, lexer->word.data) == 0) return intact__no_memory(lexer->context, 0);
  } while (intact__lex_mark(lexer, ","));
  return intact__lex_end_line(lexer);
}

intact_status intact__graph_read_text(intact_context *context, const char *text, size_t length, const intact_side_table *side,
                                      intact_graph **graph) {
  intact_graph *made = NULL;
  intact_lexer lexer = {.context = context, .at = text, .end = text + length, .line = 1, .side = side};
  intact__text_init(&lexer.word, context);
  INTACT_TRY(intact__graph_create(context, "", &made));
  intact_status status = parse_head(&lexer, made);
  if (status == INTACT_OK) status = parse_body(&lexer, made, 0);
  if (status == INTACT_OK) status = intact_graph_verify(made);
  intact__text_fini(&lexer.word);
  if (status != INTACT_OK) {
    intact_graph_destroy(made);
    return status;
  }
  *graph = made;
  return INTACT_OK;
}

intact_status intact__node_read_attributes(intact_node *node, const char *text) {
  intact_lexer lexer = {.context = node->graph->context, .at = text, .end = text + strlen(text), .line = 1};
  intact__text_init(&lexer.word, lexer.context);
  intact_status status = INTACT_OK;
  while (status == INTACT_OK && !intact__lex_line_ends(&lexer)) status = parse_named_attr(&lexer, node);
  if (status == INTACT_OK && lexer.at < lexer.end) status = intact__lex_fail(&lexer, "attributes on one line");
  if (status == INTACT_OK) status = check_required(&lexer, node);
  intact__text_fini(&lexer.word);
  return status;
}

intact_status intact_graph_parse(intact_context *context, const char *text, intact_graph **graph) {
  return intact__graph_read_text(context, text, strlen(text), NULL, graph);
}
