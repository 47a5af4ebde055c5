/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of the context: error macros, heap, log, progress, parallel loops. */
#ifndef INTACT_BASE_CONTEXT_H
#define INTACT_BASE_CONTEXT_H

#include <stdarg.h>

#include "intact/base.h"

/* Forwards a failure. */
#define INTACT_TRY(call)                              \
  do {                                                \
    intact_status intact_try_status_ = (call);        \
    if (intact_try_status_ != INTACT_OK) return intact_try_status_; \
  } while (0)

/* Raises a failure: records status, place and message in the context and returns the status.
   `where` names the node or file ("" when none). The message says: what failed, the value found, the rule, what to do. */
#define INTACT_FAIL(context, code, where, ...) \
  return intact__fail((context), INTACT_##code, (where), __FILE__, __LINE__, __VA_ARGS__)

/* The same for functions that clean up at a `fail:` label: sets `status` and jumps. */
#define INTACT_FAIL_TO(label, context, code, where, ...)                                              \
  do {                                                                                                \
    status = intact__fail((context), INTACT_##code, (where), __FILE__, __LINE__, __VA_ARGS__);        \
    goto label;                                                                                       \
  } while (0)

#define INTACT_TRY_TO(label, call)       \
  do {                                   \
    status = (call);                     \
    if (status != INTACT_OK) goto label; \
  } while (0)

intact_status intact__fail(intact_context *context, intact_status status, const char *where, const char *file, int line,
                           const char *format, ...) INTACT_PRINTF(6, 7);
/* What the error that was just raised lists: a line each. Takes `details` over (from intact__alloc; NULL: nothing). */
void intact__fail_details(intact_context *context, char *details);
/* Puts "outer: " before the message of the last error; returns its status. */
intact_status intact__fail_in(intact_context *context, const char *format, ...) INTACT_PRINTF(2, 3);
/* Makes the last error of another context this one's. */
void intact__error_copy(intact_context *context, const intact_context *from);

/* Another context with the same allocator, instruction set and seed; it writes no log. */
intact_status intact__context_like(intact_context *context, int threads, intact_context **other);

/* Heap. Memory is aligned to 64 bytes and not cleared; intact__alloc_zeroed clears it. NULL when there is none
   (the caller reports NO_MEMORY with intact__no_memory). Sizes are count * size, checked for overflow. */
void *intact__alloc(intact_context *context, size_t count, size_t size);
void *intact__alloc_zeroed(intact_context *context, size_t count, size_t size);
void intact__free(intact_context *context, void *memory);
/* Freed blocks are kept for the next use up to so many bytes in all; only raises what holds. */
void intact__recycle_up_to(intact_context *context, size_t bytes);
char *intact__strdup(intact_context *context, const char *text);
intact_status intact__no_memory(intact_context *context, size_t bytes);
/* Grows an array to hold at least `need` elements (doubling). */
intact_status intact__reserve(intact_context *context, void **array, size_t *capacity, size_t need, size_t size);

/* Something that a module keeps with a context, found again by a key (the address of something of its own). The context destroys it
   when it is destroyed itself; attach takes the object over, also on failure. */
void *intact__attachment(const intact_context *context, const void *key);
intact_status intact__attach(intact_context *context, const void *key, void *object,
                             void (*destroy)(intact_context *context, void *object));

void intact__log(intact_context *context, intact_log_level level, const char *format, ...) INTACT_PRINTF(3, 4);
void intact__progress(intact_context *context, const char *what, int64_t done, int64_t total);
uint64_t intact__seed(const intact_context *context);

/* Calls fn(user, begin, end) for pieces that cover 0..count; each piece is a multiple of `grain` long (but the last), pieces
   run at the same time on the context's threads. Results must not depend on the split. Runs inline when one thread or one
   piece is enough. */
typedef void (*intact_range_fn)(void *user, int64_t begin, int64_t end);
void intact__parallel(intact_context *context, int64_t count, int64_t grain, intact_range_fn fn, void *user);
/* From here on loops run on so many threads, at most those of the context. */
void intact__limit_threads(intact_context *context, int threads);
int intact__loop_threads(const intact_context *context);
/* Index of the pool's thread that runs the calling piece, 0..threads-1 (0 outside of intact__parallel). */
int intact__thread_index(void);
bool intact__parallel_inside(void); /* the caller runs a piece of a parallel loop */

/* base/isa.c: bit i of a set stands for intact_isa i. A context runs every level that its isa implies. */
uint32_t intact__isa_implies(intact_isa isa);
uint32_t intact__isa_set(const intact_context *context);

#endif
