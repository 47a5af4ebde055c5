/* SPDX-License-Identifier: Apache-2.0 */
/* The command: finds the verb, reads the options, makes the context, prints the result. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "intact/comm.h"

#define INTACT_VERB(name) extern const intact_verb intact_verb_##name;
#include "verbs.def"
#undef INTACT_VERB

const intact_verb *const cli_verbs[] = {
#define INTACT_VERB(name) &intact_verb_##name,
#include "verbs.def"
#undef INTACT_VERB
    NULL};

const cli_option cli_common_options[] = {
    {"--json", NULL, "print one JSON object on standard output"},
    {"--threads", "N", "threads to use (default: all CPUs)"},
    {"--isa", "NAME", "kernels of at most this instruction set: scalar avx2 avx512 avx512vnni neon"},
    {"--seed", "N", "start of the random numbers (default 0)"},
    {"--quiet", NULL, "no progress, no notes"},
    {"--config", "FILE.json", "options in one file: {\"observer\": \"min_max\", \"no-equalize\": true}"},
    {"--help", NULL, "this help"},
    {NULL, NULL, NULL}};

const char *cli_plain(const char *text, char *buffer, size_t bytes) {
  const unsigned char *at = (const unsigned char *)text;
  size_t used = 0;
  while (*at && used + 5 <= bytes) {
    size_t length = 1; /* of a UTF-8 sequence: jansson is who knows */
    const unsigned char *next = at + 1;
    while ((*next & 0xc0) == 0x80 && length < 4) {
      next++;
      length++;
    }
    json_t *valid = *at < 0x80 ? NULL : json_stringn((const char *)at, length);
    if (*at < 0x20 || *at == 0x7f || (*at >= 0x80 && !valid)) {
      used += (size_t)snprintf(buffer + used, bytes - used, "\\x%02x", *at++);
    } else {
      if (*at < 0x80) length = 1;
      memcpy(buffer + used, at, length);
      used += length;
      at += length;
    }
    json_decref(valid);
  }
  buffer[used] = 0;
  return buffer;
}

/* The nodes that a model read with unsupported-op names: lines "operator<tab>node". */
static json_t *unsupported_nodes(const char *details) {
  json_t *list = json_array();
  for (const char *line = details; *line;) {
    size_t length = strcspn(line, "\n"), op = strcspn(line, "\t");
    if (op < length) /* else a name with a line break */
      json_array_append_new(list, json_pack("{s:s%,s:s%}", "op", line, op, "node", line + op + 1, length - op - 1));
    line += length + (line[length] == '\n');
  }
  return list;
}

static int print_error(cli *c, int code, const char *kind, const char *found, const char *found_where) {
  static char message[4 * 8192], where[4 * 512]; /* what a context keeps, escaped */
  cli_plain(found, message, sizeof message);
  cli_plain(found_where, where, sizeof where);
  if (c->json) {
    json_t *error = json_pack("{s:{s:s,s:s,s:s}}", "error", "kind", kind, "message", message, "where", where);
    const char *details = c->context ? intact_context_details(c->context) : "";
    if (error && *details && strcmp(kind, "unsupported-op") == 0)
      json_object_set_new(error, "unsupported", unsupported_nodes(details));
    if (error) {
      json_dumpf(error, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
      fputc('\n', stdout);
      json_decref(error);
    } else {
      printf("{\"error\": {\"kind\": \"%s\", \"message\": \"out of memory\", \"where\": \"\"}}\n", kind);
    }
  }
  fprintf(stderr, "intact%s%s: %s\n", c->verb ? " " : "", c->verb ? c->verb->name : "", message);
  return code;
}

int cli_wrong_use(cli *c, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return print_error(c, CLI_WRONG_USE, "wrong-use", message, "");
}

int cli_failed(cli *c) {
  return print_error(c, CLI_FAILED, intact_status_text(intact_context_status(c->context)), intact_context_message(c->context),
                     intact_context_where(c->context));
}

int cli_file_failed(cli *c, const char *path, const char *why) {
  char message[1024];
  snprintf(message, sizeof message, "can't write '%s': %s; name a place that can be written", path, why);
  return print_error(c, CLI_FAILED, "io", message, path);
}

const cli_option *cli_find_option(const intact_verb *verb, const char *name) {
  for (const cli_option *o = cli_common_options; o->name; o++)
    if (strcmp(o->name, name) == 0) return o;
  for (const cli_option *o = verb->options; o && o->name; o++)
    if (strcmp(o->name, name) == 0) return o;
  return NULL;
}

const intact_verb *cli_find_verb(const char *name) {
  for (int i = 0; cli_verbs[i]; i++)
    if (strcmp(cli_verbs[i]->name, name) == 0) return cli_verbs[i];
  return NULL;
}

const char *cli_get(const cli *c, const char *name) {
  for (int i = c->n_options - 1; i >= 0; i--)
    if (strcmp(c->options[i].name, name) == 0) return c->options[i].value;
  return NULL;
}

bool cli_int(cli *c, const char *name, int64_t fallback, int64_t low, int64_t high, int64_t *value) {
  const char *text = cli_get(c, name);
  *value = fallback;
  if (!text) return true;
  char *end;
  errno = 0;
  const long long parsed = strtoll(text, &end, 10);
  if (isspace((unsigned char)*text) || !*text || *end || errno == ERANGE || parsed < low || parsed > high) {
    cli_wrong_use(c, "%s is '%s'; a whole number from %lld to %lld is needed", name, text, (long long)low, (long long)high);
    return false;
  }
  *value = parsed;
  return true;
}

bool cli_double(cli *c, const char *name, double fallback, double low, double high, double *value) {
  const char *text = cli_get(c, name);
  *value = fallback;
  if (!text) return true;
  char *end;
  const double parsed = strtod(text, &end);
  if (isspace((unsigned char)*text) || !*text || *end || !(parsed >= low && parsed <= high)) {
    cli_wrong_use(c, "%s is '%s'; a number from %g to %g is needed", name, text, low, high);
    return false;
  }
  *value = parsed;
  return true;
}

char **cli_split(const char *text, int *count) {
  const size_t length = text ? strlen(text) : 0;
  size_t parts = text && *text ? 1 : 0;
  for (size_t i = 0; i < length; i++) parts += text[i] == ',';
  char **list = malloc((parts + 1) * sizeof *list + length + 1);
  if (!list) return NULL;
  char *copy = (char *)(list + parts + 1);
  if (text) memcpy(copy, text, length + 1);
  size_t n = 0;
  for (char *at = copy; n < parts; n++) {
    list[n] = at;
    char *comma = strchr(at, ',');
    if (comma) *comma = 0;
    at = comma ? comma + 1 : at;
  }
  list[parts] = NULL;
  *count = (int)parts;
  return list;
}

json_t *cli_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Splits the command line by the verb's tables. Returns 0, or an exit code after a message. */
static int parse(cli *c, int argc, char **argv) {
  for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) /* so that complaints about the rest come as JSON too */
    if (strcmp(argv[i], "--json") == 0) c->json = true;
  bool only_positional = false;
  for (int i = 2; i < argc; i++) {
    char *arg = argv[i];
    if (!only_positional && strcmp(arg, "--") == 0) {
      only_positional = true;
      continue;
    }
    if (only_positional || arg[0] != '-' || !arg[1]) {
      if (c->n_positional == (int)(sizeof c->positional / sizeof *c->positional))
        return cli_wrong_use(c, "too many arguments at '%s'", arg);
      c->positional[c->n_positional++] = arg;
      continue;
    }
    char *equals = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    if (equals) *equals = 0;
    const cli_option *option = cli_find_option(c->verb, arg);
    if (!option) return cli_wrong_use(c, "there is no option '%s'; 'intact %s --help' lists them", arg, c->verb->name);
    const char *value = "";
    if (option->argument) {
      if (!equals && i + 1 >= argc) return cli_wrong_use(c, "%s needs a value: %s %s", arg, arg, option->argument);
      if (!equals && strncmp(argv[i + 1], "--", 2) == 0 && cli_find_option(c->verb, argv[i + 1]))
        return cli_wrong_use(c, "%s needs a value, but '%s' follows: %s %s", arg, argv[i + 1], arg, option->argument);
      value = equals ? equals + 1 : argv[++i];
    } else if (equals) {
      return cli_wrong_use(c, "%s takes no value", arg);
    }
    if (c->n_options == CLI_MAX_ARGUMENTS) return cli_wrong_use(c, "too many options");
    c->options[c->n_options].name = option->name;
    c->options[c->n_options++].value = value;
  }
  return 0;
}

static void show_progress(void *user, const char *what, int64_t done, int64_t total) {
  const cli *c = user;
  if (c->silent) return;
  enum { WIDTH = 32 };
  const int filled = total > 0 ? (int)((double)done / (double)total * WIDTH) : 0;
  fprintf(stderr, "\r%-12s [%-*.*s] %lld/%lld ", what, WIDTH, filled, "################################", (long long)done,
          (long long)total);
  if (done >= total) fputc('\n', stderr);
  fflush(stderr);
}

static int make_context(cli *c) {
  intact_context_options options = intact_context_default_options();
  int64_t threads, seed;
  if (!cli_int(c, "--threads", 0, 1, 1024, &threads) || !cli_int(c, "--seed", 0, 0, INT64_MAX, &seed)) return CLI_WRONG_USE;
  options.threads = threads == 0 && intact_comm_started() > 1 ? 1 : (int)threads;
  options.progress_user = c;
  options.seed = (uint64_t)seed;
  const char *isa = cli_get(c, "--isa");
  if (!isa) isa = getenv("INTACT_ISA");
  if (isa && *isa) {
    if (!intact_isa_from_text(isa, &options.isa))
      return cli_wrong_use(c, "there is no instruction set '%s': scalar avx2 avx512 avx512vnni neon", isa);
    if (!intact_isa_available(options.isa)) {
      options.isa = INTACT_ISA_SCALAR;
      return cli_wrong_use(c, "this CPU has no %s", isa);
    }
  }
  if (!c->quiet && isatty(STDERR_FILENO)) options.progress = show_progress;
  if (intact_context_create(&options, &c->context) != INTACT_OK) return cli_wrong_use(c, "no context could be made");
  return 0;
}

/* How many positional arguments a verb takes; those in brackets may be left out. */
static bool takes_arguments(const intact_verb *verb, int given) {
  int all = 0, needed = 0;
  for (const char *at = verb->arguments; *at; at++) {
    if (*at == ' ' || (at != verb->arguments && at[-1] != ' ')) continue;
    all++;
    needed += *at != '[';
  }
  return given >= needed && given <= all;
}

static int call(cli *c, int argc, char **argv) {
  int code = parse(c, argc, argv);
  if (code) return code;
  const char *config = cli_get(c, "--config");
  if (config && (code = cli_read_config(c, config)) != 0) return code;
  c->json |= cli_get(c, "--json") != NULL;
  c->quiet = cli_get(c, "--quiet") != NULL;
  if (cli_get(c, "--help")) {
    cli_print_help(stdout, c->verb);
    return CLI_DONE;
  }
  if (!takes_arguments(c->verb, c->n_positional))
    return cli_wrong_use(c, "%d arguments given, needed: intact %s %s; 'intact %s --help' tells more", c->n_positional,
                         c->verb->name, c->verb->arguments, c->verb->name);
  code = make_context(c);
  if (code) return code;
  c->result = json_object();
  if (intact_comm_join(c->context) != INTACT_OK) return cli_failed(c);
  c->silent = intact_comm_rank(c->context) != 0;
  if (c->silent && !freopen("/dev/null", "w", stdout)) return CLI_FAILED;
  code = c->verb->run(c);
  if (code == CLI_DONE && c->json) {
    json_dumpf(c->result, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
    fputc('\n', stdout);
  }
  return code;
}

/* Everything has been printed: whether it arrived. */
static int finish(int code) {
  if ((ferror(stdout) || fflush(stdout) != 0) && code == CLI_DONE) {
    fprintf(stderr, "intact: can't write to standard output\n");
    return CLI_FAILED;
  }
  return code;
}

/* A descriptor of 0 to 2 that is closed would be given to the next file opened, which prints would then land in. */
static void occupy_closed_descriptors(void) {
  int fd;
  do fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
  cli c = {0};
  signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond the limit is an error with a message, not the end */
  occupy_closed_descriptors();
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    cli_print_help(argc < 2 ? stderr : stdout, NULL);
    return finish(argc < 2 ? CLI_WRONG_USE : CLI_DONE);
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("intact %s\n", intact_version());
    return finish(CLI_DONE);
  }
  c.verb = cli_find_verb(argv[1]);
  if (!c.verb) {
    for (int i = 2; i < argc; i++) c.json |= strcmp(argv[i], "--json") == 0;
    return cli_wrong_use(&c, "there is no verb '%s'; 'intact --help' lists them", argv[1]);
  }
  const int code = finish(call(&c, argc, argv));
  json_decref(c.result);
  json_decref(c.config_values);
  if (c.context) intact_comm_leave(c.context, code != CLI_DONE);
  intact_context_destroy(c.context);
  return code;
}
