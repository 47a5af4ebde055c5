/* SPDX-License-Identifier: Apache-2.0 */
/* The format rows by C name, as formats.def lists them. */
#ifndef INTACT_IO_FORMATS_H
#define INTACT_IO_FORMATS_H

#include "graph/format.h"

#define INTACT_FORMAT_RUNTIME(name) extern const intact_format intact_format_##name;
#ifdef INTACT_FULL
#define INTACT_FORMAT(name) extern const intact_format intact_format_##name;
#else
#define INTACT_FORMAT(name)
#endif
#include "io/formats.def"
#undef INTACT_FORMAT
#undef INTACT_FORMAT_RUNTIME

/* Whether path ends in one of the extensions ".a,.b" (letters of either case). */
bool intact__has_extension(const char *path, const char *extensions);

#endif
