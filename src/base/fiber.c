/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers over ucontext. The sanitizers are told of every change of stacks. */
#include "base/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#elif defined __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER 1
#elif defined __SANITIZE_THREAD__
#define THREAD_SANITIZER 1
#endif

#if defined ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#elif defined THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK = 8 << 20 }; /* only pages that are touched take memory */

/* Where one can stop: a stack, and what runs on it. */
typedef struct place {
  ucontext_t state;
  const void *stack;
  size_t bytes;
  void *shadow; /* the sanitizer's view of it while it stands still */
} place;

struct intact_fiber {
  intact_context *context;
  intact_fiber_fn fn;
  void *user;
  void *memory;
  size_t bytes;
  place inside, outside;
  bool ended;
};

static void leave(place *from, place *to, bool for_good) {
#if defined ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(for_good ? NULL : &from->shadow, to->stack, to->bytes);
#elif defined THREAD_SANITIZER
  __tsan_switch_to_fiber(to->shadow, 0);
#endif
  (void)for_good;
  swapcontext(&from->state, &to->state);
}

/* After a change to `here`; `from`, if its stack is not known, gets it. */
static void arrive(place *here, place *from) {
#if defined ADDRESS_SANITIZER
  const void *stack;
  size_t bytes;
  __sanitizer_finish_switch_fiber(here->shadow, &stack, &bytes);
  if (from) from->stack = stack, from->bytes = bytes;
#endif
  (void)here;
  (void)from;
}

/* makecontext passes ints: the halves of a pointer. */
static void begin(unsigned high, unsigned low) {
  const union {
    uintptr_t number;
    intact_fiber *pointer;
  } it = {.number = (uintptr_t)high << 16 << 16 | low};
  intact_fiber *fiber = it.pointer;
  arrive(&fiber->inside, &fiber->outside);
  fiber->fn(fiber->user);
  fiber->ended = true;
  leave(&fiber->inside, &fiber->outside, true);
}

static void set_up(intact_fiber *fiber, size_t page) {
  const union {
    intact_fiber *pointer;
    uintptr_t number;
  } it = {.pointer = fiber};
  const union {
    void (*with)(unsigned, unsigned);
    void (*without)(void);
  } start = {begin};
  place *inside = &fiber->inside;
  uint8_t *stack = (uint8_t *)fiber->memory + page; /* the lowest page stops an overflow */
  getcontext(&inside->state);
  inside->stack = inside->state.uc_stack.ss_sp = stack;
  inside->bytes = inside->state.uc_stack.ss_size = fiber->bytes - page;
  makecontext(&inside->state, start.without, 2, (unsigned)(it.number >> 16 >> 16), (unsigned)it.number);
#if defined THREAD_SANITIZER
  inside->shadow = __tsan_create_fiber(0);
#endif
}

intact_status intact__fiber_create(intact_context *context, intact_fiber_fn fn, void *user, intact_fiber **fiber) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  intact_fiber *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  *made = (intact_fiber){.context = context, .fn = fn, .user = user, .bytes = STACK};
  made->memory = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (made->memory == MAP_FAILED || mprotect(made->memory, page, PROT_NONE) != 0) {
    if (made->memory != MAP_FAILED) munmap(made->memory, made->bytes);
    intact__free(context, made);
    return intact__no_memory(context, STACK);
  }
  set_up(made, page);
  *fiber = made;
  return INTACT_OK;
}

bool intact__fiber_resume(intact_fiber *fiber) {
#if defined THREAD_SANITIZER
  fiber->outside.shadow = __tsan_get_current_fiber();
#endif
  leave(&fiber->outside, &fiber->inside, false);
  arrive(&fiber->outside, NULL);
  return !fiber->ended;
}

void intact__fiber_wait(intact_fiber *fiber) {
  leave(&fiber->inside, &fiber->outside, false);
  arrive(&fiber->inside, &fiber->outside);
}

void intact__fiber_destroy(intact_fiber *fiber) {
  if (!fiber) return;
#if defined THREAD_SANITIZER
  __tsan_destroy_fiber(fiber->inside.shadow);
#endif
  munmap(fiber->memory, fiber->bytes);
  intact__free(fiber->context, fiber);
}
