/* SPDX-License-Identifier: Apache-2.0 */
/* Small ONNX files that ask for much: what they unfold to stays in proportion, and names are text. */
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/io.h"
#include "support/test.h"

/* ---- a heap that remembers the most it held ---- */
typedef struct heap {
  size_t live, most;
} heap;

static void *heap_allocate(void *user, size_t bytes) {
  heap *h = user;
  size_t *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (memory == NULL) return NULL;
  memory[0] = bytes;
  h->live += bytes;
  if (h->live > h->most) h->most = h->live;
  return memory + 8;
}

static void heap_release(void *user, void *memory) {
  heap *h = user;
  if (memory == NULL) return;
  h->live -= ((size_t *)memory)[-8];
  free((size_t *)memory - 8);
}

/* ---- protobuf messages, fields by their numbers in onnx.proto ---- */
typedef struct message {
  uint8_t *data;
  size_t n, capacity;
} message;

static void put(message *m, const void *bytes, size_t n) {
  if (m->n + n > m->capacity) {
    m->capacity = (m->n + n) * 2;
    m->data = realloc(m->data, m->capacity);
    if (m->data == NULL) exit(1);
  }
  if (n > 0) memcpy(m->data + m->n, bytes, n);
  m->n += n;
}

static void put_varint(message *m, uint64_t value) {
  for (;; value >>= 7) {
    const uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    put(m, &byte, 1);
    if (value <= 127) return;
  }
}

static void put_int(message *m, int field, int64_t value) {
  put_varint(m, (uint64_t)field << 3);
  put_varint(m, (uint64_t)value);
}

static void put_bytes(message *m, int field, const void *bytes, size_t n) {
  put_varint(m, (uint64_t)field << 3 | 2);
  put_varint(m, n);
  put(m, bytes, n);
}

static void put_text(message *m, int field, const char *text) { put_bytes(m, field, text, strlen(text)); }

/* Takes the inner message over. */
static void put_message(message *m, int field, message inner) {
  put_bytes(m, field, inner.data, inner.n);
  free(inner.data);
}

static message value_info(const char *name, int64_t size) {
  message dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
  put_int(&dim, 1, size);
  put_message(&shape, 1, dim);
  put_int(&tensor, 1, 1); /* float */
  put_message(&tensor, 2, shape);
  put_message(&type, 1, tensor);
  put_text(&info, 1, name);
  put_message(&info, 2, type);
  return info;
}

static message node(const char *op, const char *name, const char *a, const char *b, const char *output) {
  message n = {0};
  put_text(&n, 1, a);
  if (b != NULL) put_text(&n, 1, b);
  put_text(&n, 2, output);
  put_text(&n, 3, name);
  put_text(&n, 4, op);
  return n;
}

static message opset(const char *domain, int64_t version) {
  message o = {0};
  put_text(&o, 1, domain);
  put_int(&o, 2, version);
  return o;
}

static message zeros(const char *name, int64_t n) {
  message t = {0};
  uint8_t *bytes = calloc((size_t)n, 4);
  put_int(&t, 1, n);
  put_int(&t, 2, 1);
  put_text(&t, 8, name);
  put_bytes(&t, 9, bytes, (size_t)n * 4);
  free(bytes);
  return t;
}

/* The graph gets input x, output y; what else the file holds is in `model` already. */
static void finish(message *model, message graph, const char *path) {
  put_text(&graph, 2, "g");
  put_message(&graph, 11, value_info("x", 1));
  put_message(&graph, 12, value_info("y", 1));
  put_int(model, 1, 9);
  put_message(model, 7, graph);
  put_message(model, 8, opset("", 17));
  put_message(model, 8, opset("f", 1));
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(model->data, 1, model->n, file), model->n);
  fclose(file);
  free(model->data);
}

static const char *file_path(const char *ending) {
  static char path[1200];
  snprintf(path, sizeof path, "%s/tests/%ld_proportion.%s", INTACT_BINARY_DIR, (long)getpid(), ending);
  return path;
}

/* Reads the file; the heap stays below `most`. */
static intact_status read_within(size_t most, int64_t *nodes, char *text, size_t text_bytes) {
  heap h = {0};
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  options.allocator = (intact_allocator){&h, heap_allocate, heap_release};
  intact_context *context = NULL;
  intact_graph *graph = NULL;
  assert_int_equal(intact_context_create(&options, &context), INTACT_OK);
  const intact_status status = intact_model_read(context, file_path("onnx"), &graph);
  if (status == INTACT_OK && nodes != NULL) *nodes = intact_graph_node_count(graph);
  if (text != NULL) snprintf(text, text_bytes, "%s", intact_context_message(context));
  intact_graph_destroy(graph);
  intact_context_destroy(context);
  unlink(file_path("onnx"));
  assert_int_equal(h.live, 0);
  assert_in_range(h.most, 0, most);
  return status;
}

enum { MEGABYTE = 1 << 20 };

/* c1 = concat(c0, c0), c2 = concat(c1, c1) ...: constants that double 30 times. They are not made while reading. */
static void test_doubled_constants(void **state) {
  (void)state;
  message model = {0}, graph = {0};
  char from[20] = "c0", to[20];
  put_message(&graph, 5, zeros("c0", 16384));
  for (int i = 1; i <= 30; i++) {
    snprintf(to, sizeof to, "c%d", i);
    message concat = node("Concat", to, from, from, to), axis = {0};
    put_text(&axis, 1, "axis");
    put_int(&axis, 3, 0);
    put_int(&axis, 20, 2);
    put_message(&concat, 5, axis);
    put_message(&graph, 1, concat);
    snprintf(from, sizeof from, "%s", to);
  }
  put_message(&graph, 1, node("Add", "add", "x", from, "y"));
  finish(&model, graph, file_path("onnx"));
  assert_int_equal(read_within(200 * (size_t)MEGABYTE, NULL, NULL, 0), INTACT_OK);
}

/* f(k) calls f(k - 1) twice: 2^depth nodes. `defaults` attributes with a default stand in f0. */
static void write_functions(int depth, const char *name, int defaults) {
  message model = {0}, graph = {0};
  char own[20], inner[20] = "";
  for (int d = 0; d < depth; d++) {
    snprintf(own, sizeof own, "f%d", d);
    message function = {0}, first = node(d == 0 ? "LeakyRelu" : inner, name, "a", NULL, d == 0 ? "b" : "t");
    put_text(&function, 1, own);
    put_text(&function, 4, "a");
    put_text(&function, 5, "b");
    if (d == 0) {
      message reference = {0};
      put_text(&reference, 1, "alpha");
      put_int(&reference, 20, 1);
      put_text(&reference, 21, "alpha");
      put_message(&first, 5, reference);
      for (int i = 0; i < defaults; i++) {
        const float half = 0.5f;
        char attr[20] = "alpha";
        message attribute = {0};
        if (i + 1 < defaults) snprintf(attr, sizeof attr, "unused%d", i);
        put_text(&attribute, 1, attr);
        put_varint(&attribute, 2 << 3 | 5);
        put(&attribute, &half, sizeof half);
        put_int(&attribute, 20, 1);
        put_message(&function, 11, attribute);
      }
    } else {
      message second = node(inner, "second", "t", NULL, "b");
      put_text(&first, 7, "f");
      put_text(&second, 7, "f");
      put_message(&function, 7, second);
    }
    put_message(&function, 7, first);
    put_message(&function, 9, opset("", 17));
    put_message(&function, 9, opset("f", 1));
    put_text(&function, 10, "f");
    put_message(&model, 25, function);
    snprintf(inner, sizeof inner, "%s", own);
  }
  message call = node(inner, "call", "x", NULL, "y");
  put_text(&call, 7, "f");
  put_message(&graph, 1, call);
  finish(&model, graph, file_path("onnx"));
}

static void test_unfolded_functions(void **state) {
  (void)state;
  char text[8192], name[2001];
  int64_t nodes = 0;
  write_functions(9, "first", 1);
  assert_int_equal(read_within(20 * (size_t)MEGABYTE, &nodes, NULL, 0), INTACT_OK);
  assert_int_equal(nodes, 256);
  write_functions(21, "first", 1);
  assert_int_equal(read_within(200 * (size_t)MEGABYTE, NULL, text, sizeof text), INTACT_OVERFLOW);
  assert_non_null(strstr(text, "out of proportion"));
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  write_functions(17, name, 1);
  assert_int_equal(read_within(200 * (size_t)MEGABYTE, NULL, NULL, 0), INTACT_OVERFLOW);
  write_functions(13, "first", 2000); /* each of the 4096 calls looks for its default among 2000 */
  assert_int_equal(read_within(100 * (size_t)MEGABYTE, &nodes, NULL, 0), INTACT_OK);
  assert_int_equal(nodes, 4096);
}

static void test_names_are_text(void **state) {
  (void)state;
  static const char *const names[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf"}; /* no, cut, surrogate, overlong */
  char text[8192];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    for (int kind = 0; kind < 2; kind++) {
      message model = {0}, graph = {0};
      put_message(&graph, 1, node("Relu", kind == 0 ? names[i] : "relu", "x", NULL, "between"));
      put_message(&graph, 1, node("Relu", "last", "between", NULL, kind == 1 ? names[i] : "y"));
      put_message(&graph, 12, value_info(kind == 1 ? names[i] : "y", 1));
      if (kind == 1) put_message(&graph, 1, node("Relu", "y", "x", NULL, "y"));
      finish(&model, graph, file_path("onnx"));
      assert_int_equal(read_within(20 * (size_t)MEGABYTE, NULL, text, sizeof text), INTACT_INVALID_VALUE);
      assert_non_null(strstr(text, "UTF-8"));
    }
  }
}

static message nested_if(int depth, const char *name, const char *output) {
  message n = node("If", name, "condition", NULL, output);
  for (int branch = 0; branch < 2; branch++) {
    message attribute = {0}, graph = {0};
    char inner[40];
    snprintf(inner, sizeof inner, "%s%d", branch == 0 ? "t" : "e", depth);
    put_message(&graph, 1, depth > 0 && branch == 0 ? nested_if(depth - 1, inner, inner) : node("Relu", inner, "x", NULL, inner));
    put_text(&graph, 2, "branch");
    put_message(&graph, 12, value_info(inner, 1));
    put_text(&attribute, 1, branch == 0 ? "then_branch" : "else_branch");
    put_message(&attribute, 6, graph);
    put_int(&attribute, 20, 5);
    put_message(&n, 5, attribute);
  }
  return n;
}

/* Bodies as deep as ONNX files may have them can be written and read again. */
static void test_deep_bodies(void **state) {
  (void)state;
  message model = {0}, graph = {0}, condition = {0}, type = {0}, tensor = {0}, shape = {0};
  intact_context *context = test_context(1);
  intact_graph *read = NULL, *again = NULL;
  put_int(&tensor, 1, 9); /* bool */
  put_message(&tensor, 2, shape);
  put_message(&type, 1, tensor);
  put_text(&condition, 1, "condition");
  put_message(&condition, 2, type);
  put_message(&graph, 11, condition);
  put_message(&graph, 1, nested_if(30, "if", "y"));
  finish(&model, graph, file_path("onnx"));
  assert_ok(context, intact_model_read(context, file_path("onnx"), &read));
  unlink(file_path("onnx"));
  assert_ok(context, intact_model_write(read, file_path("intact"), NULL));
  assert_ok(context, intact_model_read(context, file_path("intact"), &again));
  unlink(file_path("intact"));
  assert_int_equal(intact_graph_node_count(read), intact_graph_node_count(again));
  intact_graph_destroy(again);
  intact_graph_destroy(read);
  intact_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_doubled_constants), cmocka_unit_test(test_unfolded_functions),
                                     cmocka_unit_test(test_names_are_text), cmocka_unit_test(test_deep_bodies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
