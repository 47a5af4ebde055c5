/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets this CPU has. Compiled without any of their flags. */
#include <cpuinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t cpu_set;

const char *intact_isa_text(intact_isa isa) {
  static const char *const texts[] = {
#define XX(name, text) text,
      INTACT_ISA_MAP(XX)
#undef XX
  };
  return isa >= 0 && isa < INTACT_ISA_COUNT ? texts[isa] : "best";
}

bool intact_isa_from_text(const char *text, intact_isa *isa) {
  for (int i = 0; i < INTACT_ISA_COUNT; i++) {
    if (strcmp(text, intact_isa_text((intact_isa)i)) == 0) {
      *isa = (intact_isa)i;
      return true;
    }
  }
  return false;
}

uint32_t intact__isa_implies(intact_isa isa) {
  static const uint32_t scalar = 1u << INTACT_ISA_SCALAR, avx2 = 1u << INTACT_ISA_AVX2, avx512 = 1u << INTACT_ISA_AVX512;
  switch (isa) {
    case INTACT_ISA_AVX2:
      return scalar | avx2;
    case INTACT_ISA_AVX512:
      return scalar | avx2 | avx512;
    case INTACT_ISA_AVX512VNNI:
      return scalar | avx2 | avx512 | 1u << INTACT_ISA_AVX512VNNI;
    case INTACT_ISA_NEON:
      return scalar | 1u << INTACT_ISA_NEON;
    default:
      return scalar;
  }
}

static void detect(void) {
  cpu_set = 1u << INTACT_ISA_SCALAR;
  if (!cpuinfo_initialize()) return;
  if (cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3() && cpuinfo_has_x86_f16c()) cpu_set |= 1u << INTACT_ISA_AVX2;
  if ((cpu_set & 1u << INTACT_ISA_AVX2) && cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512bw() &&
      cpuinfo_has_x86_avx512dq() && cpuinfo_has_x86_avx512vl())
    cpu_set |= 1u << INTACT_ISA_AVX512;
  if ((cpu_set & 1u << INTACT_ISA_AVX512) && cpuinfo_has_x86_avx512vnni()) cpu_set |= 1u << INTACT_ISA_AVX512VNNI;
#if defined(__aarch64__)
  cpu_set |= 1u << INTACT_ISA_NEON;
#endif
}

bool intact_isa_available(intact_isa isa) {
  pthread_once(&once, detect);
  return isa >= 0 && isa < INTACT_ISA_COUNT && (cpu_set >> isa & 1u);
}

intact_isa intact_isa_detect(void) {
  const char *cap = getenv("INTACT_ISA");
  intact_isa isa = INTACT_ISA_SCALAR;
  if (cap && *cap) return intact_isa_from_text(cap, &isa) ? isa : INTACT_ISA_COUNT;
  for (int i = 0; i < INTACT_ISA_COUNT; i++)
    if (intact_isa_available((intact_isa)i)) isa = (intact_isa)i;
  return isa;
}
