/* SPDX-License-Identifier: Apache-2.0 */
/* The observer rows by C name, as observers.def lists them. */
#ifndef INTACT_QUANT_OBSERVERS_OBSERVERS_H
#define INTACT_QUANT_OBSERVERS_OBSERVERS_H

#include "graph/observer.h"

#define INTACT_OBSERVER(name) extern const intact_observer intact_observer_##name;
#include "quant/observers/observers.def"
#undef INTACT_OBSERVER

#endif
