/* SPDX-License-Identifier: Apache-2.0 */
/* SQNR = 10 log10(sum a^2 / sum (b-a)^2), cosine = sum a b / sqrt(sum a^2 sum b^2). */
#include "inspect/difference.h"

#include <math.h>

void intact__difference_add(intact_difference *d, const intact_tensor *a, const intact_tensor *b) {
  const float *x = intact__f32(a), *y = intact__f32(b);
  const bool range = !isnan(d->low);
  for (int64_t i = 0; i < a->count; i++) {
    double u = (double)x[i], v = (double)y[i];
    if (u < d->least) u = d->least;
    if (v < d->least) v = d->least;
    if (u > d->most) u = d->most;
    if (v > d->most) v = d->most;
    d->count++;
    if (range) d->outside += u < d->low || u > d->high;
    if (!isfinite(u) || !isfinite(v)) continue;
    const double e = v - u;
    d->error += e * e;
    d->a += u * u;
    d->b += v * v;
    d->dot += u * v;
    if (fabs(e) > d->max_abs) d->max_abs = fabs(e);
  }
}

double intact__difference_sqnr_db(const intact_difference *d) {
  if (!d->count) return NAN;
  if (d->error == 0) return INFINITY;
  return d->a > 0 ? 10 * log10(d->a / d->error) : -INFINITY;
}

double intact__difference_cosine(const intact_difference *d) {
  if (!d->count) return NAN;
  if (d->a == 0 || d->b == 0) return d->a == d->b ? 1 : 0;
  return d->dot / sqrt(d->a * d->b);
}
