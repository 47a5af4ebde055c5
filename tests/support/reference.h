/* SPDX-License-Identifier: Apache-2.0 */
/* Where the reference sets are: $INTACT_SHARED, else tests/data/reference of the sources, else ../shared beside them. */
#ifndef INTACT_TESTS_SUPPORT_REFERENCE_H
#define INTACT_TESTS_SUPPORT_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

/* Path of `name` ("samples/index.json") in the first of the three places that has it, in a buffer of `size` bytes. */
bool test_reference_find(const char *name, char *path, size_t size);
/* The same for tests that need it: when no place has it, prints a loud line and ends the program with 77, "skipped":
   called in main, after the tests that need no data. */
const char *test_reference(const char *name, char *path, size_t size);

#endif
