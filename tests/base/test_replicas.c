/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas, as threads and as fibers, alone and under processes: ranks, sums, the order of what is gathered, failures. */
#include "support/test.h"

#include <string.h>

#include "base/comm.h"
#include "base/replicas.h"

enum { N = 3, ROUNDS = 200 };

typedef struct lab {
  intact_replicas *replicas;
  int seen[N]; /* ranks */
  int ends;
  int processes;
} lab;

static intact_context *context_of(const lab *l, int index) { return intact__replicas_context(l->replicas, index); }

static intact_status sum_up(void *user, int index) {
  lab *l = user;
  intact_context *c = context_of(l, index);
  const int rank = intact_comm_rank(c), size = intact_comm_size(c);
  double alone = rank;
  l->seen[index] = rank;
  intact__comm_be_alone(c, true);
  INTACT_TRY(intact__comm_sum_f64(c, &alone, 1));
  if (alone != rank || intact_comm_size(c) != 1) return INTACT_INTERNAL;
  intact__comm_be_alone(c, false);
  for (int i = 0; i < ROUNDS; i++) {
    double sum[2] = {rank + 1, i};
    int32_t mine = 10 * rank + i, all[2 * N];
    INTACT_TRY(intact__comm_sum_f64(c, sum, 2));
    INTACT_TRY(intact__comm_gather(c, &mine, sizeof mine, all));
    if (sum[0] != size * (size + 1) / 2.0 || sum[1] != (double)size * i) return INTACT_INTERNAL;
    for (int r = 0; r < size; r++)
      if (all[r] != 10 * r + i) return INTACT_INTERNAL;
  }
  return INTACT_OK;
}

static void all_replicas_get_the_sum(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    intact_context *c = test_context(threads);
    lab l = {0};
    assert_ok(c, intact__replicas_create(c, N, &l.replicas));
    assert_int_equal(intact_comm_size(c), N);
    assert_int_equal(intact__loop_threads(c), threads < N ? threads : 1);
    assert_ok(c, intact__replicas_run(l.replicas, sum_up, &l));
    assert_ok(c, intact__replicas_run(l.replicas, sum_up, &l)); /* again */
    for (int i = 0; i < N; i++) assert_int_equal(l.seen[i], i);
    intact__replicas_destroy(l.replicas);
    assert_int_equal(intact_comm_size(c), 1);
    assert_int_equal(intact__loop_threads(c), threads);
    intact_context_destroy(c);
  }
}

/* The backend of process 1 of 2; process 0 has, replica by replica, what its ranks would. Rank of replica j of process i: i + 2 j. */
static intact_status other_process(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  (void)context;
  (void)user;
  uint8_t *first = all;
  memcpy(first + bytes, mine, bytes);
  if (bytes == N * 2 * sizeof(double)) {
    for (int j = 0; j < N; j++) {
      double pair[2];
      memcpy(pair, (const double *)mine + 2 * j, sizeof pair);
      pair[0] -= 1; /* rank + 1 of the neighbour before */
      memcpy(first + (size_t)j * sizeof pair, pair, sizeof pair);
    }
    return INTACT_OK;
  }
  for (int j = 0; j < N; j++) {
    const int32_t theirs = ((const int32_t *)mine)[j] - 10;
    memcpy(first + (size_t)j * sizeof theirs, &theirs, sizeof theirs);
  }
  return INTACT_OK;
}

static void ranks_go_round_the_processes(void **state) {
  (void)state;
  for (int threads = 1; threads <= N; threads += N - 1) {
    intact_context *c = test_context(threads);
    lab l = {0};
    assert_ok(c, intact__comm_set(c, &(intact_comm){.rank = 1, .size = 2, .gather = other_process}));
    assert_ok(c, intact__replicas_create(c, N, &l.replicas));
    assert_ok(c, intact__replicas_run(l.replicas, sum_up, &l));
    for (int i = 0; i < N; i++) assert_int_equal(l.seen[i], 1 + 2 * i);
    intact__replicas_destroy(l.replicas);
    assert_int_equal(intact_comm_rank(c), 1);
    assert_int_equal(intact_comm_size(c), 2);
    intact_context_destroy(c);
  }
}

/* ---- failures ---- */

static intact_status second_fails(void *user, int index) {
  lab *l = user;
  intact_context *c = context_of(l, index);
  for (int i = 0; i < ROUNDS; i++) {
    double sum = 1;
    if (index == 1 && i == 7) INTACT_FAIL(c, OUT_OF_RANGE, "here", "round %d is too much", i);
    const intact_status status = intact__comm_sum_f64(c, &sum, 1);
    if (status != INTACT_OK) return intact__fail_in(c, "summing");
  }
  return INTACT_OK;
}

static intact_status third_ends(void *user, int index) {
  double sum = 1;
  return index == 2 ? INTACT_OK : intact__comm_sum_f64(context_of(user, index), &sum, 1);
}

static intact_status first_sends_more(void *user, int index) {
  double sums[2] = {1, 1};
  return intact__comm_sum_f64(context_of(user, index), sums, index == 0 ? 2 : 1);
}

static void the_first_failure_is_told(void **state) {
  (void)state;
  static const struct {
    intact_replica_fn fn;
    intact_status status;
    const char *message;
  } cases[] = {{second_fails, INTACT_OUT_OF_RANGE, "round 7 is too much"},
               {third_ends, INTACT_INTERNAL, "2 of 3 replicas wait for the others, which have ended"},
               {first_sends_more, INTACT_INTERNAL, "replica 1 sums 8 bytes where the first sums 16"}};
  for (int threads = 1; threads <= N; threads += N - 1) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      intact_context *c = test_context(threads);
      lab l = {0};
      assert_ok(c, intact__replicas_create(c, N, &l.replicas));
      assert_int_equal(intact__replicas_run(l.replicas, cases[i].fn, &l), cases[i].status);
      assert_int_equal(intact_context_status(c), cases[i].status);
      assert_non_null(strstr(intact_context_message(c), cases[i].message));
      assert_ok(c, intact__replicas_run(l.replicas, sum_up, &l)); /* they work again */
      intact__replicas_destroy(l.replicas);
      intact_context_destroy(c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_replicas_get_the_sum), cmocka_unit_test(ranks_go_round_the_processes),
                                     cmocka_unit_test(the_first_failure_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
