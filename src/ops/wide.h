/* SPDX-License-Identifier: Apache-2.0 */
/* Float loops that are compiled once per instruction set, in the full build; the loader picks the widest that the CPU has. Nothing is
   contracted or reordered, so every version gives the same bits. */
#ifndef INTACT_OPS_WIDE_H
#define INTACT_OPS_WIDE_H

#include "kernels/kernel.h" /* INTACT_INLINE: helpers of such loops */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define INTACT_INSTRUMENTED 1 /* its code must not run while the loader still picks */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTACT_INSTRUMENTED 1
#endif

#if defined(INTACT_FULL) && defined(__x86_64__) && defined(__gnu_linux__) && !defined(INTACT_INSTRUMENTED)
#define INTACT_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define INTACT_WIDE
#endif

#endif
