/* SPDX-License-Identifier: Apache-2.0 */
/* Context, arena, parallel loops, the instruction-set table; allocation failures. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/threads.h"

typedef struct budget {
  int left; /* allocations that succeed */
  int live;
} budget;

static void *limited_allocate(void *user, size_t bytes) {
  budget *b = user;
  if (b->left-- <= 0) return NULL;
  b->live++;
  return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes ? 0 : 64));
}

static void limited_release(void *user, void *memory) {
  if (memory) ((budget *)user)->live--;
  free(memory);
}

static void failures_are_reported_with_place(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  const intact_status status = intact__fail(c, INTACT_OUT_OF_RANGE, "node7", "file.c", 3, "axis %d is outside of 0..%d", 9, 3);
  assert_int_equal(status, INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_context_status(c), INTACT_OUT_OF_RANGE);
  assert_string_equal(intact_context_message(c), "axis 9 is outside of 0..3");
  assert_string_equal(intact_context_where(c), "node7");
  intact__fail_in(c, "while reading '%s'", "m.onnx");
  assert_string_equal(intact_context_message(c), "while reading 'm.onnx': axis 9 is outside of 0..3");
  intact_context_destroy(c);
}

static void long_messages_are_cut(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  char *text = malloc(100000);
  memset(text, 'a', 99999);
  text[99999] = 0;
  intact__fail(c, INTACT_SYNTAX, text, __FILE__, __LINE__, "%s", text);
  assert_true(strlen(intact_context_message(c)) < 10000);
  assert_true(strlen(intact_context_where(c)) < 10000);
  free(text);
  intact_context_destroy(c);
}

static void wrong_options_are_refused(void **state) {
  (void)state;
  intact_context *c = NULL;
  intact_context_options o = intact_context_default_options();
  o.threads = -1;
  assert_fails(intact_context_create(&o, &c), INTACT_WRONG_USE);
  o = intact_context_default_options();
  o.isa = INTACT_ISA_COUNT;
  assert_fails(intact_context_create(&o, &c), INTACT_WRONG_USE);
  o = intact_context_default_options();
  o.allocator.release = NULL;
  assert_fails(intact_context_create(&o, &c), INTACT_WRONG_USE);
  assert_null(c);
  intact_context_destroy(NULL);
}

static void memory_runs_out_without_harm(void **state) {
  (void)state;
  for (int n = 0; n < 12; n++) {
    budget b = {.left = n};
    intact_context_options o = intact_context_default_options();
    o.allocator = (intact_allocator){&b, limited_allocate, limited_release};
    intact_context *c = NULL;
    if (intact_context_create(&o, &c) != INTACT_OK) {
      assert_null(c);
      continue;
    }
    intact_arena arena;
    intact__arena_init(&arena, c);
    for (int i = 0; i < 6; i++) {
      char *p = intact__arena_alloc(&arena, 5000, 1);
      if (p) p[4999] = 1;
    }
    intact__arena_fini(&arena);
    intact_context_destroy(c);
    assert_int_equal(b.live, 0);
  }
}

static void arena_gives_zeroed_aligned_memory(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_arena arena;
  intact__arena_init(&arena, c);
  for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
    unsigned char *p = intact__arena_alloc(&arena, bytes, 1);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % (bytes >= 64 ? 64 : 16), 0);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, bytes);
  }
  assert_null(intact__arena_alloc(&arena, SIZE_MAX / 2, 4));
  assert_string_equal(intact__arena_format(&arena, "%s_%d", "conv", 12), "conv_12");
  intact__arena_fini(&arena);
  intact_context_destroy(c);
}

static void mark(void *user, int64_t begin, int64_t end) {
  unsigned char *seen = user;
  for (int64_t i = begin; i < end; i++) seen[i]++;
}

static void parallel_covers_each_element_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads++) {
    intact_context *c = test_context(threads);
    const int64_t counts[] = {0, 1, 7, 64, 1000, 4097};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
      for (int64_t grain = 1; grain < 200; grain = grain * 5 + 1) {
        unsigned char *seen = calloc((size_t)counts[k] + 1, 1);
        intact__parallel(c, counts[k], grain, mark, seen);
        for (int64_t i = 0; i < counts[k]; i++) assert_int_equal(seen[i], 1);
        assert_int_equal(seen[counts[k]], 0);
        free(seen);
      }
    }
    intact_context_destroy(c);
  }
}

static void isa_levels_imply_each_other(void **state) {
  (void)state;
  intact_isa isa;
  for (int i = 0; i < INTACT_ISA_COUNT; i++) {
    assert_true(intact_isa_from_text(intact_isa_text((intact_isa)i), &isa));
    assert_int_equal(isa, i);
    assert_true(intact__isa_implies((intact_isa)i) & 1u << INTACT_ISA_SCALAR);
  }
  assert_false(intact_isa_from_text("sse9", &isa));
  assert_true(intact_isa_available(INTACT_ISA_SCALAR));
  assert_true(intact__isa_implies(INTACT_ISA_AVX512VNNI) & 1u << INTACT_ISA_AVX2);
  assert_false(intact__isa_implies(INTACT_ISA_AVX2) & 1u << INTACT_ISA_AVX512);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failures_are_reported_with_place), cmocka_unit_test(long_messages_are_cut),
      cmocka_unit_test(wrong_options_are_refused),        cmocka_unit_test(memory_runs_out_without_harm),
      cmocka_unit_test(arena_gives_zeroed_aligned_memory), cmocka_unit_test(parallel_covers_each_element_once),
      cmocka_unit_test(isa_levels_imply_each_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
