/* SPDX-License-Identifier: Apache-2.0 */
/* conformance [--only GLOB,...] DIR...: runs every reference set found below the folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/conformance.h"

typedef struct counts {
  int passed, failed, skipped;
} counts;

static void print_case(const conf_case *c, const conf_outcome *outcome, counts *sum) {
  if (outcome->note[0]) printf("NOTE %s/%s: %s\n", c->suite, c->name, outcome->note);
  switch (outcome->state) {
    case CONF_PASSED:
      sum->passed++;
      break;
    case CONF_SKIPPED:
      sum->skipped++;
      break;
    case CONF_FAILED:
      sum->failed++;
      printf("FAIL %s/%s: %s\n", c->suite, c->name, outcome->message);
      break;
    default:
      sum->failed++;
      printf("FAIL %s/%s: expected a result, got none: the runner ended early\n", c->suite, c->name);
  }
}

/* Cases of one suite stand together but may come from several files (flows). */
static int compare_cases(const void *a, const void *b) {
  const conf_case *left = *(const conf_case *const *)a, *right = *(const conf_case *const *)b;
  const int order = strcmp(left->suite, right->suite);
  return order ? order : left < right ? -1 : left > right;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_skipped(const char *suite, const char **names, size_t n) {
  if (n == 0) return;
  qsort(names, n, sizeof *names, compare_texts);
  printf("skipped in %s:", suite);
  for (size_t i = 0, same; i < n; i += same) {
    for (same = 1; i + same < n && strcmp(names[i], names[i + same]) == 0;) same++;
    printf("%s %s (%zu)", i ? "," : "", names[i], same);
  }
  printf("\n");
}

static counts print_outcomes(const conf_list *list, const conf_outcome *outcomes) {
  counts all = {0, 0, 0};
  const size_t n = list->n_cases;
  const conf_case **order = malloc((n + 1) * sizeof *order);
  const char **skipped = malloc((n + 1) * sizeof *skipped);
  if (!order || !skipped) exit(1);
  for (size_t i = 0; i < n; i++) order[i] = &list->cases[i];
  qsort(order, n, sizeof *order, compare_cases);
  for (size_t i = 0; i < n;) {
    const char *suite = order[i]->suite;
    counts sum = {0, 0, 0};
    size_t n_skipped = 0;
    for (; i < n && strcmp(order[i]->suite, suite) == 0; i++) {
      const conf_outcome *outcome = &outcomes[order[i] - list->cases];
      print_case(order[i], outcome, &sum);
      if (outcome->state == CONF_SKIPPED) skipped[n_skipped++] = outcome->message;
    }
    printf("%s: %d passed, %d failed, %d skipped\n", suite, sum.passed, sum.failed, sum.skipped);
    print_skipped(suite, skipped, n_skipped);
    all.passed += sum.passed;
    all.failed += sum.failed;
    all.skipped += sum.skipped;
  }
  free(order);
  free(skipped);
  return all;
}

static int usage(void) {
  fprintf(stderr,
          "usage: conformance [--only GLOB,...] DIR...\n"
          "Runs the reference cases found below the folders; GLOB is matched with suite/case.\n");
  return 2;
}

int main(int argc, char **argv) {
  const char *only = NULL;
  conf_list list = {.sets = NULL};
  int folders = 0;
  bool good = true;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--only") == 0) {
      if (++i == argc) return usage();
      only = argv[i];
    } else if (strncmp(argv[i], "--only=", 7) == 0) {
      only = argv[i] + 7;
    } else if (argv[i][0] == '-') {
      return usage();
    }
  }
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--only") == 0) {
      i++;
    } else if (argv[i][0] != '-') {
      folders++;
      good = conf_find(argv[i], only, &list) && good;
    }
  }
  if (folders == 0) return usage();
  conf_outcome *outcomes = calloc(list.n_cases + 1, sizeof *outcomes);
  if (!outcomes) return 1;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (list.n_cases > 0) good = conf_run(&list, outcomes, processors > 0 ? (int)processors : 1) && good;
  const counts all = print_outcomes(&list, outcomes);
  free(outcomes);
  conf_list_destroy(&list);
  if (all.passed + all.failed + all.skipped == 0) {
    fprintf(stderr, "conformance: no case found\n");
    good = false;
  }
  printf("%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped);
  return all.failed || !good ? 1 : 0;
}
