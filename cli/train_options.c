/* SPDX-License-Identifier: Apache-2.0 */
/* Options of intact train. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "train.h"

const cli_option cli_train_options[] = {
    {"--data", "D", "training samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--labels", "L", "labels of the samples: an IDX file, .npy or .safetensors"},
    {"-o", "OUT", "the file to write; its extension names the format: .onnx, .intact"},
    {"--from-scratch", "NAME", "a network with fresh parameters instead of MODEL: cnn mlp mobilenet resnet8 (intact networks)"},
    {"--weights", "FILE", "its parameters from a state dict (.safetensors)"},
    {"--test-data", "D", "samples that are not trained on: accuracy after every epoch and at the end"},
    {"--test-labels", "L", "their labels"},
    {"--float", NULL, "plain training of the float network"},
    {"--samples", "N", "use the first N samples (default: all)"},
    {"--batch", "N", "samples per step (default 32)"},
    {"--replicas", "N", "parts of a step's batch; any number of processes that divides N gives the same bits (default 2)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data), one value or one per channel"},
    {"--std", "s[,s..]", "then divided by, one value or one per channel"},
    {"--epochs", "N", "passes over the samples (default 1)"},
    {"--lr", "X", "learning rate, the highest one of a cycle (default: the optimizer's)"},
    {"--optimizer", "NAME[:o=v..]", "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax (default AdamW)"},
    {"--momentum", "X", "of the optimizer"},
    {"--weight-decay", "X", "of the optimizer"},
    {"--schedule", "NAME[:o=v..]", "of the learning rate: OneCycleLR (default) CosineAnnealingLR StepLR ..., or none"},
    {"--schedule-by", "step|epoch", "when it goes on (default: step for OneCycleLR, CyclicLR, CosineAnnealingLR, LinearLR, PolynomialLR)"},
    {"--clip-norm", "X", "gradients are scaled down to this norm"},
    {"--label-smoothing", "X", "share of the target spread over all classes"},
    {"--augment", "flip,shift=N", "pictures are mirrored at random and shifted by up to N pixels"},
    {"--distill", "MODEL", "a float model whose outputs are imitated"},
    {"--distill-weight", "X", "its share of the loss (default 0.5)"},
    {"--distill-temperature", "X", "softens both outputs (default 2)"},
    {"--bits-weights", "N[,PATTERN=N..]", "bits of weights, 2 to 8 (default 8); first and last layer keep 8 unless a pattern names them"},
    {"--bits-activations", "N[,PATTERN=N..]", "bits of what flows into a layer"},
    {"--method", "NAME[:o=v..]", "of fake quantization: fused (default) straight-through learnable lsq pact"},
    {"--activations", "u8|s8", "type of activations (default u8)"},
    {"--simulate-integers", NULL, "loss and accuracy see what the integer program gives, bit for bit; gradients as ever"},
    {"--per-tensor", NULL, "one scale for a layer's weights instead of one per channel"},
    {"--keep-float", "PATTERN[,..]", "nodes that stay float, by name with * and ?"},
    {"--no-equalize", NULL, "no cross-layer equalization before training"},
    {"--learn-scales-at", "N", "learnable, lsq, pact: from this step on (default: after 5 % of the first epoch)"},
    {"--fake-quantize-at", "N", "observe only before this step (default 0)"},
    {"--freeze-observers-at", "N", "scales stay from this step on"},
    {"--freeze-batch-norm-at", "N", "statistics of batch norms stay from this step on"},
    {"--checkpoint", "DIR", "a checkpoint here after every epoch"},
    {"--checkpoint-steps", "N", "and after every N steps"},
    {"--resume", NULL, "go on from the checkpoint, if there is one, to the same bits"},
    {"--report", "FILE.html", "a page with the curves"},
    {"--log", "FILE.json", "losses of all steps, epochs, events"},
    {NULL, NULL, NULL}};

/* The name of "NAME:a=1,b=2" into buffer; the options as a list to be freed (empty without any). */
static char **take_apart(const char *text, char *name, size_t size, int *count) {
  const size_t length = strcspn(text, ":");
  snprintf(name, size, "%.*s", (int)length, text);
  return cli_split(text[length] ? text + length + 1 : NULL, count);
}

/* Splits "a=1"; the value of a bare name is "". */
static const char *value_of(char *option) {
  char *equals = strchr(option, '=');
  if (!equals) return "";
  *equals = 0;
  return equals + 1;
}

/* A number of its own option, if that is given. */
static bool number(cli *c, const char *name, double *value) {
  return cli_double(c, name, *value, 0, 1e30, value);
}

static int read_optimizer(cli *c, cli_training *t) {
  const char *text = cli_get(c, "--optimizer");
  int n = 0;
  char **list = take_apart(text ? text : "AdamW", t->optimizer_name, sizeof t->optimizer_name, &n);
  intact_status status = list ? intact_optimizer_default_options(c->context, t->optimizer_name, &t->optimizer) : INTACT_NO_MEMORY;
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    const char *value = value_of(list[i]);
    status = intact_optimizer_set_option(c->context, &t->optimizer, list[i], value);
    if (status == INTACT_OK && !intact_optimizer_has_option(t->optimizer_name, list[i])) {
      const int code = cli_wrong_use(c, "--optimizer: %s has no option '%s'; 'intact optimizers' lists those of each", t->optimizer_name, list[i]);
      free(list);
      return code;
    }
  }
  free(list);
  if (status != INTACT_OK) return cli_wrong_use(c, "--optimizer: %s", intact_context_message(c->context));
  if (cli_get(c, "--momentum") && !intact_optimizer_has_option(t->optimizer_name, "momentum"))
    return cli_wrong_use(c, "--momentum: %s has none; SGD and RMSprop have, those of the Adam family have beta1 (--optimizer Adam:beta1=0.9)",
                         t->optimizer_name);
  if (!number(c, "--lr", &t->optimizer.lr) || !number(c, "--momentum", &t->optimizer.momentum) ||
      !number(c, "--weight-decay", &t->optimizer.weight_decay)) {
    return CLI_WRONG_USE;
  }
  if (!(t->optimizer.lr > 0)) return cli_wrong_use(c, "--lr is %g; a number above 0 is needed", t->optimizer.lr);
  t->options.optimizer = t->optimizer_name;
  t->options.optimizer_options = &t->optimizer;
  return 0;
}

static bool goes_by_step(const char *schedule) {
  static const char *const names[] = {"OneCycleLR", "CyclicLR", "CosineAnnealingLR", "LinearLR", "PolynomialLR"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcasecmp(names[i], schedule) == 0) return true;
  }
  return false;
}

static int read_schedule(cli *c, cli_training *t) {
  const char *text = cli_get(c, "--schedule"), *by = cli_get(c, "--schedule-by");
  int n = 0;
  if (by && strcmp(by, "step") != 0 && strcmp(by, "epoch") != 0) return cli_wrong_use(c, "--schedule-by is '%s'; step or epoch", by);
  if (text && strcmp(text, "none") == 0) return 0;
  t->kept = take_apart(text ? text : "OneCycleLR", t->schedule_name, sizeof t->schedule_name, &n);
  intact_status status = t->kept ? intact_scheduler_default_options(c->context, t->schedule_name, &t->schedule) : INTACT_NO_MEMORY;
  const bool has_momentum = t->optimizer.momentum > 0 || t->optimizer.beta1 > 0;
  if (!has_momentum) t->schedule.cycle_momentum = false;
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    const char *value = value_of(t->kept[i]);
    status = intact_scheduler_set_option(c->context, &t->schedule, t->kept[i], value);
    if (status == INTACT_OK && !intact_scheduler_has_option(t->schedule_name, t->kept[i]))
      return cli_wrong_use(c, "--schedule: %s has no option '%s'; 'intact schedulers' lists those of each", t->schedule_name, t->kept[i]);
  }
  if (status != INTACT_OK) return cli_wrong_use(c, "--schedule: %s", intact_context_message(c->context));
  t->options.schedule = t->schedule_name;
  t->options.schedule_options = &t->schedule;
  t->options.schedule_by_epoch = by ? strcmp(by, "epoch") == 0 : !goes_by_step(t->schedule_name);
  return 0;
}

static int read_augment(cli *c, cli_training *t) {
  int n = 0, code = 0;
  char **list = cli_split(cli_get(c, "--augment"), &n);
  for (int i = 0; i < n && !code; i++) {
    if (strcmp(list[i], "flip") == 0) {
      t->options.augment_flip = true;
    } else if (strncmp(list[i], "shift=", 6) == 0 && strspn(list[i] + 6, "0123456789") == strlen(list[i] + 6) && list[i][6] &&
               strlen(list[i]) < 10) {
      t->options.augment_shift = atoi(list[i] + 6);
    } else {
      code = cli_wrong_use(c, "--augment has '%s'; flip and shift=N are known", list[i]);
    }
  }
  free(list);
  return code;
}

/* ---- quantization ---- */
/* "4,conv1=8": the width of all into *bits, those of patterns into t->bits. */
static int read_bits(cli *c, cli_training *t, const char *option, bool weights, int *bits) {
  int n = 0;
  char **list = cli_split(cli_get(c, option), &n);
  t->lists[weights] = list;
  for (int i = 0; i < n; i++) {
    char *equals = strrchr(list[i], '=');
    const char *number_text = equals ? equals + 1 : list[i];
    if (strlen(number_text) != 1 || *number_text < '2' || *number_text > '8' || (equals && t->n_bits == CLI_MAX_BITS)) {
      return cli_wrong_use(c, "%s has '%s'; 2 to 8 bits are possible: N or PATTERN=N", option, list[i]);
    }
    const int width = *number_text - '0';
    if (!equals) {
      *bits = width;
      continue;
    }
    *equals = 0;
    t->bits[t->n_bits++] = (intact_qat_bits){list[i], weights ? 0 : width, weights ? width : 0};
  }
  return 0;
}

static int read_quantization(cli *c, cli_training *t) {
  const char *method = cli_get(c, "--method"), *activations = cli_get(c, "--activations");
  intact_qat_options *q = &t->qat;
  *q = intact_qat_default_options();
  if (activations && strcmp(activations, "u8") != 0 && strcmp(activations, "s8") != 0) {
    return cli_wrong_use(c, "--activations is '%s': u8 or s8", activations);
  }
  if (activations && *activations == 's') q->quantize.activations = INTACT_S8;
  q->quantize.equalize = cli_get(c, "--no-equalize") == NULL;
  q->quantize.weights_per_tensor = cli_get(c, "--per-tensor") != NULL;
  t->keep_float = cli_split(cli_get(c, "--keep-float"), &q->quantize.n_keep_float);
  union {
    char **from;
    const char *const *to;
  } cast = {t->keep_float};
  q->quantize.keep_float = cast.to;
  if (method) {
    snprintf(t->method, sizeof t->method, "%s", method);
    for (char *at = t->method; *at && *at != ':'; at++) *at = *at == '-' ? '_' : *at;
    q->fake_quantizer = q->weight_fake_quantizer = t->method;
  }
  int code = read_bits(c, t, "--bits-activations", false, &q->activation_bits);
  return code ? code : read_bits(c, t, "--bits-weights", true, &q->weight_bits);
}

const intact_qat_options *cli_training_qat(cli_training *t, const intact_graph *graph) {
  const char *ends[2];
  intact_train_border_layers(graph, &ends[0], &ends[1]);
  for (int i = 0; i < 2 && ends[i]; i++) t->bits[t->n_bits++] = (intact_qat_bits){ends[i], 8, 8};
  t->qat.n_bits = t->n_bits;
  t->qat.bits = t->bits;
  return &t->qat;
}

int cli_training_read(cli *c, cli_training *t) {
  *t = (cli_training){.options = intact_train_default_options()};
  intact_train_options *o = &t->options;
  int64_t seed, replicas;
  if (!cli_int(c, "--epochs", 1, 1, 1 << 20, &o->epochs) || !cli_int(c, "--batch", 32, 1, 1 << 20, &o->batch) ||
      !cli_int(c, "--replicas", o->replicas, 1, INTACT_MAX_REPLICAS, &replicas) ||
      !cli_int(c, "--seed", 0, 0, INT64_MAX, &seed) || !cli_int(c, "--checkpoint-steps", 0, 1, INT64_MAX, &o->checkpoint_steps) ||
      !cli_int(c, "--fake-quantize-at", 0, 0, INT64_MAX, &o->qat.fake_quantize_at) ||
      !cli_int(c, "--freeze-observers-at", -1, 0, INT64_MAX, &o->qat.freeze_observers_at) ||
      !cli_int(c, "--freeze-batch-norm-at", -1, 0, INT64_MAX, &o->qat.freeze_batch_norm_at) ||
      !cli_int(c, "--learn-scales-at", -1, 0, INT64_MAX, &o->qat.learn_at) ||
      !number(c, "--clip-norm", &o->clip_norm) || !number(c, "--label-smoothing", &o->label_smoothing) ||
      !number(c, "--distill-weight", &o->distill_weight) || !number(c, "--distill-temperature", &o->distill_temperature)) {
    return CLI_WRONG_USE;
  }
  o->seed = (uint64_t)seed;
  o->replicas = (int)replicas;
  o->checkpoint = cli_get(c, "--checkpoint");
  o->resume = cli_get(c, "--resume") != NULL;
  o->simulate_integers = cli_get(c, "--simulate-integers") != NULL;
  if (!o->checkpoint && (o->resume || o->checkpoint_steps)) {
    return cli_wrong_use(c, "%s needs --checkpoint DIR", o->resume ? "--resume" : "--checkpoint-steps");
  }
  int code = read_optimizer(c, t);
  if (!code) code = read_schedule(c, t);
  if (!code) code = read_quantization(c, t);
  return code ? code : read_augment(c, t);
}

void cli_training_free(cli_training *t) {
  free(t->kept);
  free(t->keep_float);
  free(t->lists[0]);
  free(t->lists[1]);
}
