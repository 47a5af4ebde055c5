/* SPDX-License-Identifier: Apache-2.0 */
/* The families of ONNX fix-ups; each array ends with a row without a name. */
#ifndef INTACT_IO_ONNX_ONNX_FIXUPS_H
#define INTACT_IO_ONNX_ONNX_FIXUPS_H

#include "io/onnx/onnx_import.h"

extern const intact_onnx_fixup intact__onnx_fixups_elementwise[];

#endif
