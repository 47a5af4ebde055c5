/* SPDX-License-Identifier: Apache-2.0 */
/* The NEON kernels of quantization against the definitions; tools/check_neon.sh builds it for AArch64 and runs it. */
#include "kernels/affine_checks.h"

int main(void) {
  const affine_kernels neon = AFFINE_KERNELS("neon", neon);
  return run_checks(&neon);
}
