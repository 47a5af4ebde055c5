/* SPDX-License-Identifier: Apache-2.0 */
/* A training to try things on: a network of the table, 512 pictures, their labels. */
#ifndef INTACT_TESTS_SUPPORT_LESSON_H
#define INTACT_TESTS_SUPPORT_LESSON_H

#include "intact/io.h"
#include "intact/train.h"
#include "support/reference.h"
#include "support/test.h"

static char models[1024]; /* the reference models' folder; main asks for it */

static inline const char *model_file(const char *model, const char *file, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/%s/%s", models, model, file);
  return buffer;
}

typedef struct lesson {
  intact_graph *graph;
  intact_data *data;
  intact_tensor *labels;
} lesson;

static inline void open_lesson(intact_context *c, const char *network, lesson *l) {
  const double mean = 0.286, std = 0.353;
  const intact_data_options options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std};
  char path[1200];
  intact_generator *g;
  assert_ok(c, intact_generator_create(c, 0, &g));
  assert_ok(c, intact_network_create(c, network, g, &l->graph));
  intact_generator_destroy(g);
  assert_ok(c, intact_data_open(c, model_file("data", "train-512-images-idx3-ubyte", path, sizeof path), l->graph, &options, &l->data));
  assert_ok(c, intact_labels_read(c, model_file("data", "train-512-labels-idx1-ubyte", path, sizeof path), &l->labels));
}

static inline void close_lesson(lesson *l) {
  intact_graph_destroy(l->graph);
  intact_data_close(l->data);
  intact_tensor_destroy(l->labels);
}

#endif
