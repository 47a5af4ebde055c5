/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of observers. */
#include "quant/observers/observers.h"

#include <string.h>

const intact_observer *const intact__observers[] = {
#define INTACT_OBSERVER(name) &intact_observer_##name,
#include "quant/observers/observers.def"
#undef INTACT_OBSERVER
    NULL};

const int intact__n_observers = INTACT_COUNT_OF(intact__observers) - 1;

const intact_observer *intact__find_observer(const char *name) {
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    if (strcmp(row->name, name) == 0 || (row->torch_name && strcmp(row->torch_name, name) == 0)) return row;
  }
  return NULL;
}
