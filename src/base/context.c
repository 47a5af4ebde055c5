/* SPDX-License-Identifier: Apache-2.0 */
/* The context: allocator, log, last error. */
#include "base/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recycle.h"
#include "base/threads.h"
#include "intact/version.h"

enum { MESSAGE_BYTES = 8192, WHERE_BYTES = 512, ALIGNMENT = 64 };

typedef struct attachment {
  struct attachment *next;
  const void *key;
  void *object;
  void (*destroy)(intact_context *context, void *object);
} attachment;

struct intact_context {
  intact_context_options options;
  int threads; /* that loops use at present, at most options.threads */
  intact_pool *pool;
  attachment *attachments;
  bool recycles; /* the allocator is the heap */
  intact_recycler recycler;
  uint32_t isa_set;
  intact_status status;
  char message[MESSAGE_BYTES];
  char where[WHERE_BYTES];
  char *details; /* NULL: none */
};

const char *intact_status_text(intact_status status) {
  switch (status) {
#define XX(name, text) \
  case INTACT_##name:  \
    return text;
    INTACT_STATUS_MAP(XX)
#undef XX
  }
  return "unknown";
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
const char *intact_version(void) { return VERSION_TEXT(INTACT_VERSION_MAJOR, INTACT_VERSION_MINOR, INTACT_VERSION_PATCH); }

static void *heap_allocate(void *user, size_t bytes) {
  (void)user;
  if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
  size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
}

static void heap_release(void *user, void *memory) {
  (void)user;
  free(memory);
}

intact_context_options intact_context_default_options(void) {
  return (intact_context_options){
      .allocator = {NULL, heap_allocate, heap_release}, .threads = 0, .isa = INTACT_ISA_BEST, .seed = 0};
}

intact_status intact_context_create(const intact_context_options *options, intact_context **context) {
  intact_context_options o = options ? *options : intact_context_default_options();
  if (!o.allocator.allocate || !o.allocator.release) {
    if (o.allocator.allocate || o.allocator.release) return INTACT_WRONG_USE;
    o.allocator = intact_context_default_options().allocator;
  }
  if (o.threads < 0 || o.threads > 1024) return INTACT_WRONG_USE;
  if (o.isa == INTACT_ISA_BEST) o.isa = intact_isa_detect();
  if (!intact_isa_available(o.isa)) return INTACT_WRONG_USE;
  if (o.threads == 0) o.threads = intact__cpu_count();
  intact_context *c = o.allocator.allocate(o.allocator.user, sizeof *c);
  if (!c) return INTACT_NO_MEMORY;
  memset(c, 0, sizeof *c);
  c->options = o;
  c->threads = o.threads;
  c->isa_set = intact__isa_implies(o.isa);
  c->recycles = o.allocator.allocate == heap_allocate;
  intact__recycler_init(&c->recycler);
  *context = c;
  return INTACT_OK;
}

intact_status intact__context_like(intact_context *context, int threads, intact_context **other) {
  intact_context_options options = context->options;
  options.log = NULL;
  options.progress = NULL;
  options.threads = threads;
  const intact_status status = intact_context_create(&options, other);
  return status == INTACT_OK ? INTACT_OK : intact__no_memory(context, sizeof **other);
}

void intact_context_destroy(intact_context *context) {
  if (!context) return;
  while (context->attachments) {
    attachment *first = context->attachments;
    context->attachments = first->next;
    first->destroy(context, first->object);
    intact__free(context, first);
  }
  intact__pool_destroy(context->pool);
  intact__fail_details(context, NULL);
  for (void *kept; (kept = intact__recycler_drain(&context->recycler)) != NULL;) heap_release(NULL, kept);
  context->options.allocator.release(context->options.allocator.user, context);
}

void *intact__attachment(const intact_context *context, const void *key) {
  for (const attachment *a = context->attachments; a; a = a->next) {
    if (a->key == key) return a->object;
  }
  return NULL;
}

intact_status intact__attach(intact_context *context, const void *key, void *object,
                             void (*destroy)(intact_context *context, void *object)) {
  attachment *a = intact__alloc(context, 1, sizeof *a);
  if (!a) {
    destroy(context, object);
    return intact__no_memory(context, sizeof *a);
  }
  *a = (attachment){.next = context->attachments, .key = key, .object = object, .destroy = destroy};
  context->attachments = a;
  return INTACT_OK;
}

intact_status intact_context_status(const intact_context *context) { return context->status; }
const char *intact_context_message(const intact_context *context) { return context->message; }
const char *intact_context_where(const intact_context *context) { return context->where; }
const char *intact_context_details(const intact_context *context) { return context->details ? context->details : ""; }
int intact_context_threads(const intact_context *context) { return context->options.threads; }
intact_isa intact_context_isa(const intact_context *context) { return context->options.isa; }
int intact__loop_threads(const intact_context *context) { return context->threads; }
uint32_t intact__isa_set(const intact_context *context) { return context->isa_set; }
uint64_t intact__seed(const intact_context *context) { return context->options.seed; }

intact_status intact__fail(intact_context *context, intact_status status, const char *where, const char *file, int line,
                           const char *format, ...) {
  char message[MESSAGE_BYTES]; /* the arguments may point into context->message */
  va_list args;
  va_start(args, format);
  int length = vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (length >= MESSAGE_BYTES) memcpy(message + MESSAGE_BYTES - 4, "...", 4);
  char place[WHERE_BYTES];
  snprintf(place, sizeof place, "%s", where ? where : "");
  memcpy(context->message, message, sizeof message);
  memcpy(context->where, place, sizeof place);
  context->status = status;
  intact__fail_details(context, NULL);
  intact__log(context, INTACT_LOG_DEBUG, "%s:%d: %s: %s", file, line, intact_status_text(status), message);
  return status;
}

void intact__fail_details(intact_context *context, char *details) {
  intact__free(context, context->details);
  context->details = details;
}

intact_status intact__fail_in(intact_context *context, const char *format, ...) {
  char outer[MESSAGE_BYTES], inner[MESSAGE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(outer, sizeof outer, format, args);
  va_end(args);
  memcpy(inner, context->message, sizeof inner);
  size_t used = strlen(outer);
  memcpy(context->message, outer, used + 1);
  int room = (int)(sizeof context->message - used) - 3; /* ": " and the end; what does not fit is cut */
  snprintf(context->message + used, sizeof context->message - used, ": %.*s", room > 0 ? room : 0, inner);
  return context->status;
}

void intact__error_copy(intact_context *context, const intact_context *from) {
  if (context == from) return;
  memcpy(context->message, from->message, sizeof context->message);
  memcpy(context->where, from->where, sizeof context->where);
  context->status = from->status;
  intact__fail_details(context, from->details ? intact__strdup(context, from->details) : NULL);
}

intact_status intact__no_memory(intact_context *context, size_t bytes) {
  return intact__fail(context, INTACT_NO_MEMORY, "", __FILE__, __LINE__, "out of memory: %zu bytes were refused", bytes);
}

void *intact__alloc(intact_context *context, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *kept = context->recycles ? intact__recycler_take(&context->recycler, bytes) : NULL;
  return kept ? kept : context->options.allocator.allocate(context->options.allocator.user, bytes);
}

void intact__recycle_up_to(intact_context *context, size_t bytes) {
  if (context->recycler.most < bytes) context->recycler.most = bytes;
}

void *intact__alloc_zeroed(intact_context *context, size_t count, size_t size) {
  void *memory = intact__alloc(context, count, size);
  if (memory) memset(memory, 0, count * size);
  return memory;
}

void intact__free(intact_context *context, void *memory) {
  void *evicted = NULL;
  if (memory && context->recycles && intact__recycler_give(&context->recycler, memory, &evicted)) memory = evicted;
  if (memory) context->options.allocator.release(context->options.allocator.user, memory);
}

char *intact__strdup(intact_context *context, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = intact__alloc(context, bytes, 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

intact_status intact__reserve(intact_context *context, void **array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return INTACT_OK;
  size_t grown = *capacity < 8 ? 8 : *capacity;
  while (grown < need) {
    if (grown > SIZE_MAX / 2) return intact__no_memory(context, SIZE_MAX);
    grown *= 2;
  }
  void *memory = intact__alloc(context, grown, size);
  if (!memory) return intact__no_memory(context, grown * size);
  if (*array) memcpy(memory, *array, *capacity * size);
  intact__free(context, *array);
  *array = memory;
  *capacity = grown;
  return INTACT_OK;
}

void intact__log(intact_context *context, intact_log_level level, const char *format, ...) {
  if (!context->options.log) return;
  char text[MESSAGE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  context->options.log(context->options.log_user, level, text);
}

void intact__progress(intact_context *context, const char *what, int64_t done, int64_t total) {
  if (context->options.progress) context->options.progress(context->options.progress_user, what, done, total);
}

void intact__limit_threads(intact_context *context, int threads) {
  if (threads != context->threads) {
    intact__pool_destroy(context->pool);
    context->pool = NULL;
  }
  context->threads = threads;
}

void intact__parallel(intact_context *context, int64_t count, int64_t grain, intact_range_fn fn, void *user) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  if (context->threads > 1 && count > grain && !intact__parallel_inside()) {
    if (!context->pool) context->pool = intact__pool_create(context->threads);
    if (context->pool) {
      intact__pool_run(context->pool, count, grain, fn, user);
      return;
    }
  }
  fn(user, 0, count);
}
