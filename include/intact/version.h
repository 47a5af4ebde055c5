/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library; the build reads it from here. */
#ifndef INTACT_VERSION_H
#define INTACT_VERSION_H

#define INTACT_VERSION_MAJOR 0
#define INTACT_VERSION_MINOR 1
#define INTACT_VERSION_PATCH 0

#endif
