/* SPDX-License-Identifier: Apache-2.0 */
/* Physical shapes for the rows' lower_int. */
#include "graph/step.h"

#include <string.h>

int intact__physical_dims(const intact_lower *lower, const intact_value *value, int64_t *dims) {
  const int rank = value->rank;
  if (rank <= 0) return rank;
  memcpy(dims, value->dims, (size_t)rank * sizeof *dims);
  if (!lower->channels_last || rank < 3 || value->qparams == NULL) return rank;
  for (int i = 2; i < rank; i++) dims[i - 1] = value->dims[i];
  dims[rank - 1] = value->dims[1];
  return rank;
}

int intact__physical_axis(const intact_lower *lower, int rank, int axis) {
  if (!lower->channels_last || rank < 3 || axis == 0) return axis;
  return axis == 1 ? rank - 1 : axis - 1;
}
