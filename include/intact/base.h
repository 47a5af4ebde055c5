/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, the context (allocator, log, threads, instruction set) and error detail. */
#ifndef INTACT_BASE_H
#define INTACT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INTACT_API __attribute__((visibility("default")))
#define INTACT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define INTACT_API
#define INTACT_PRINTF(fmt, args)
#endif

/* name of the enumerator, text used in reports and in --json as "kind" */
#define INTACT_STATUS_MAP(XX)                        \
  XX(OK, "ok")                                       \
  XX(BAD_MAGIC, "bad-magic")                         \
  XX(BAD_REFERENCE, "bad-reference")                 \
  XX(CHECKSUM, "checksum")                           \
  XX(CYCLE, "cycle")                                 \
  XX(DUPLICATE, "duplicate")                         \
  XX(INVALID_VALUE, "invalid-value")                 \
  XX(MISSING_ENTRY, "missing-entry")                 \
  XX(MISSING_FIELD, "missing-field")                 \
  XX(OUT_OF_RANGE, "out-of-range")                   \
  XX(OVERFLOW, "overflow")                           \
  XX(PATH_TRAVERSAL, "path-traversal")               \
  XX(RECURSION_LIMIT, "recursion-limit")             \
  XX(SIZE_MISMATCH, "size-mismatch")                 \
  XX(SYNTAX, "syntax")                               \
  XX(TRUNCATED, "truncated")                         \
  XX(TYPE_MISMATCH, "type-mismatch")                 \
  XX(UNSUPPORTED_GLOBAL, "unsupported-global")       \
  XX(UNSUPPORTED_OP, "unsupported-op")               \
  XX(UNSUPPORTED_TYPE, "unsupported-type")           \
  XX(UNSUPPORTED_VERSION, "unsupported-version")     \
  XX(NO_MEMORY, "no-memory")                         \
  XX(IO, "io")                                       \
  XX(WRONG_USE, "wrong-use")                         \
  XX(INTERNAL, "internal")

typedef enum intact_status {
#define XX(name, text) INTACT_##name,
  INTACT_STATUS_MAP(XX)
#undef XX
} intact_status;

/* Text of a status, e.g. "bad-magic". Never NULL. */
INTACT_API const char *intact_status_text(intact_status status);

/* Instruction sets that kernels exist for. A level implies the levels it is built on. */
#define INTACT_ISA_MAP(XX)          \
  XX(SCALAR, "scalar")              \
  XX(AVX2, "avx2")                  \
  XX(AVX512, "avx512")              \
  XX(AVX512VNNI, "avx512vnni")      \
  XX(NEON, "neon")

typedef enum intact_isa {
#define XX(name, text) INTACT_ISA_##name,
  INTACT_ISA_MAP(XX)
#undef XX
  INTACT_ISA_COUNT,
  INTACT_ISA_BEST = -1 /* what this CPU has */
} intact_isa;

INTACT_API const char *intact_isa_text(intact_isa isa);
/* Finds the level named `text`; false when there is none. */
INTACT_API bool intact_isa_from_text(const char *text, intact_isa *isa);
/* The best level of the CPU that runs this, capped by the environment variable INTACT_ISA. */
INTACT_API intact_isa intact_isa_detect(void);
/* Whether this CPU can run kernels of `isa`. */
INTACT_API bool intact_isa_available(intact_isa isa);

/* `allocate` returns memory aligned to 64 bytes or NULL; `release` takes NULL. */
typedef struct intact_allocator {
  void *user;
  void *(*allocate)(void *user, size_t bytes);
  void (*release)(void *user, void *memory);
} intact_allocator;

typedef enum intact_log_level { INTACT_LOG_DEBUG, INTACT_LOG_INFO, INTACT_LOG_WARNING } intact_log_level;
typedef void (*intact_log_fn)(void *user, intact_log_level level, const char *text);
/* Progress of long work: `done` of `total` steps of `what`. Called from the calling thread only. */
typedef void (*intact_progress_fn)(void *user, const char *what, int64_t done, int64_t total);

typedef struct intact_context_options {
  intact_allocator allocator; /* all NULL: malloc and free */
  intact_log_fn log;          /* NULL: silent */
  void *log_user;
  intact_progress_fn progress; /* NULL: none */
  void *progress_user;
  int threads;    /* 0: as many as the machine has */
  intact_isa isa; /* INTACT_ISA_BEST, or a cap */
  uint64_t seed;  /* start of the random numbers */
} intact_context_options;

/* Everything a call needs beside its arguments: allocator, log, thread pool, instruction set, the last error.
   A context is used by one thread at a time; its own pool works inside calls. */
typedef struct intact_context intact_context;

INTACT_API intact_context_options intact_context_default_options(void);
/* `options` NULL means the defaults. Refuses an isa that the CPU does not have. On failure *context is untouched. */
INTACT_API intact_status intact_context_create(const intact_context_options *options, intact_context **context);
/* Takes NULL. Objects made with the context must be destroyed before. */
INTACT_API void intact_context_destroy(intact_context *context);

/* The last error of this context: its status, its message (what failed, the value found, the rule, what to do) and
   the node or file it is about ("" if none). Valid until the next failing call. */
INTACT_API intact_status intact_context_status(const intact_context *context);
INTACT_API const char *intact_context_message(const intact_context *context);
INTACT_API const char *intact_context_where(const intact_context *context);
/* What the last error lists, all of it, a line each; "" when it lists nothing. unsupported-op of a model: "OPERATOR<tab>NODE". */
INTACT_API const char *intact_context_details(const intact_context *context);
INTACT_API int intact_context_threads(const intact_context *context);
INTACT_API intact_isa intact_context_isa(const intact_context *context);

/* "0.1.0" */
INTACT_API const char *intact_version(void);

#ifdef __cplusplus
}
#endif
#endif
