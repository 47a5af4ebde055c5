/* SPDX-License-Identifier: Apache-2.0 */
/* What every test program starts with: cmocka in the order it needs, a context, replayable random numbers. */
#ifndef INTACT_TESTS_SUPPORT_TEST_H
#define INTACT_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/context.h"

/* A context for the instruction set named by INTACT_ISA (the best one without it). Ends the program with 77, "skipped",
   when the CPU lacks it. */
static inline intact_context *test_context(int threads) {
  intact_context_options options = intact_context_default_options();
  options.threads = threads;
  intact_context *context = NULL;
  if (intact_context_create(&options, &context) != INTACT_OK) {
    fprintf(stderr, "skipped: this CPU has no %s\n", getenv("INTACT_ISA") ? getenv("INTACT_ISA") : "?");
    exit(77);
  }
  return context;
}

/* Fails the test with the context's message unless the call succeeds. */
#define assert_ok(context, call)                                             \
  do {                                                                       \
    intact_status test_status_ = (call);                                     \
    if (test_status_ != INTACT_OK) {                                         \
      print_error("%s: %s\n", #call, intact_context_message(context));       \
      assert_string_equal(intact_status_text(test_status_), "ok");           \
    }                                                                        \
  } while (0)
#define assert_fails(call, status) assert_string_equal(intact_status_text(call), intact_status_text(status))

/* The same numbers in every run; INTACT_TEST_RANDOM sets another start. */
static inline uint64_t test_random_start(void) {
  const char *text = getenv("INTACT_TEST_RANDOM");
  return text ? strtoull(text, NULL, 10) : 20240229u;
}
static inline uint32_t test_random(uint64_t *state) { /* splitmix64, high half */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ (z >> 31)) >> 32);
}
static inline float test_uniform(uint64_t *state, float low, float high) {
  return low + (high - low) * ((float)(test_random(state) >> 8) * 0x1p-24f);
}

#endif
