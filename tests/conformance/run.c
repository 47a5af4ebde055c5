/* SPDX-License-Identifier: Apache-2.0 */
/* Runs cases in a pool of processes, so that a crash or a hang fails one case and nothing else. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/conformance.h"

enum { SECONDS_PER_CASE = 120, MAX_PROCESSES = 64 };

/* Shared by the processes: the next case to take; the case each process works on. */
typedef struct shared {
  atomic_size_t next;
  size_t at[MAX_PROCESSES];
  conf_outcome outcomes[];
} shared;

/* The tensors of the set that a process works on are kept from case to case. */
typedef struct worker {
  intact_context *context;
  const conf_set *set;
  intact_tensor_set *tensors;
} worker;

static bool open_tensors(worker *w, conf_case *c) {
  if (w->set != c->set) {
    intact_tensor_set_destroy(w->tensors);
    w->tensors = NULL;
    w->set = c->set;
    if (c->set->tensors_path) {
      intact_status status = intact_tensors_read(w->context, c->set->tensors_path, &w->tensors);
      if (status != INTACT_OK) {
        w->set = NULL;
        conf_fail(c, "expected the set's tensors, got %s: %s", intact_status_text(status),
                  intact_context_message(w->context));
        return false;
      }
    }
  }
  c->tensors = w->tensors;
  return true;
}

static void run_case(worker *w, const conf_case *listed, conf_outcome *outcome) {
  conf_case c = *listed;
  c.outcome = outcome;
  c.context = w->context;
  outcome->state = CONF_RUNNING;
  const conf_handler handler = conf_find_handler(&c);
  if (!handler) {
    conf_skip(&c, c.op);
    return;
  }
  if (!open_tensors(w, &c)) return;
  if (intact_tensor_set_create(w->context, &c.results) != INTACT_OK) {
    conf_fail(&c, "expected a run, got no memory");
    return;
  }
  alarm(SECONDS_PER_CASE);
  conf_check(&c, handler(&c));
  alarm(0);
  intact_tensor_set_destroy(c.results);
}

static int work(const conf_list *list, shared *s, int process) {
  worker w = {.set = NULL};
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  if (intact_context_create(&options, &w.context) != INTACT_OK) return 1;
  for (;;) {
    const size_t i = atomic_fetch_add(&s->next, 1);
    s->at[process] = i;
    if (i >= list->n_cases) break;
    run_case(&w, &list->cases[i], &s->outcomes[i]);
  }
  intact_tensor_set_destroy(w.tensors);
  intact_context_destroy(w.context);
  return 0;
}

static pid_t start(const conf_list *list, shared *s, int process) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) exit(work(list, s, process));
  if (pid < 0) perror("fork");
  return pid;
}

/* A process ended: fails the case that it worked on if it did not end by itself. True: start another one. */
static bool bury(const conf_list *list, shared *s, int process, int status, bool *good) {
  const size_t at = s->at[process];
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  if (at < list->n_cases && s->outcomes[at].state == CONF_RUNNING) {
    conf_outcome *outcome = &s->outcomes[at];
    outcome->state = CONF_FAILED;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
      snprintf(outcome->message, sizeof outcome->message, "expected an end, got none in %d seconds", SECONDS_PER_CASE);
    } else if (WIFSIGNALED(status)) {
      snprintf(outcome->message, sizeof outcome->message, "expected a result, got a crash: %s", strsignal(WTERMSIG(status)));
    } else {
      snprintf(outcome->message, sizeof outcome->message, "expected a result, got an exit with code %d",
               WEXITSTATUS(status));
    }
    return true;
  }
  fprintf(stderr, "conformance: a process ended with status %d outside of a case\n", status);
  *good = false;
  return false;
}

bool conf_run(const conf_list *list, conf_outcome *outcomes, int processes) {
  const size_t bytes = sizeof(shared) + (list->n_cases + 1) * sizeof(conf_outcome);
  shared *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED) {
    perror("mmap");
    return false;
  }
  atomic_init(&s->next, 0);
  pid_t pids[MAX_PROCESSES];
  if (processes > MAX_PROCESSES) processes = MAX_PROCESSES;
  int running = 0;
  bool good = true;
  for (int p = 0; p < processes; p++) {
    pids[p] = start(list, s, p);
    if (pids[p] > 0) running++;
  }
  good = running > 0;
  while (running > 0) {
    int status;
    const pid_t pid = wait(&status);
    if (pid < 0) break;
    int p = 0;
    while (p < processes && pids[p] != pid) p++;
    if (p == processes) continue;
    running--;
    if (bury(list, s, p, status, &good)) {
      pids[p] = start(list, s, p);
      if (pids[p] > 0) running++;
    }
  }
  memcpy(outcomes, s->outcomes, list->n_cases * sizeof *outcomes);
  munmap(s, bytes);
  return good;
}
