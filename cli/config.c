/* SPDX-License-Identifier: Apache-2.0 */
/* --config FILE.json: options of a verb in one file, {"observer": "min_max", "keep-float": ["a", "b*"], "no-equalize": true}. What
   stands on the command line counts more. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* The option's text of a JSON value; NULL: a flag that is off, or `*wrong`. Lists become "a,b". */
static json_t *option_text(const json_t *value, bool flag, bool *wrong) {
  if (flag) {
    *wrong = !json_is_boolean(value);
    return json_is_true(value) ? json_string("") : NULL;
  }
  if (json_is_string(value)) return json_string(json_string_value(value));
  if (json_is_integer(value)) return json_sprintf("%lld", (long long)json_integer_value(value));
  if (json_is_real(value)) return json_sprintf("%.17g", json_real_value(value));
  *wrong = !json_is_array(value);
  json_t *joined = json_string("");
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)(uintptr_t)value, i, item) {
    bool bad = false;
    json_t *part = json_is_array(item) ? NULL : option_text(item, false, &bad);
    if (!part || bad) *wrong = true;
    json_t *longer = part ? json_sprintf("%s%s%s", json_string_value(joined), i ? "," : "", json_string_value(part)) : NULL;
    json_decref(part);
    if (longer) {
      json_decref(joined);
      joined = longer;
    }
  }
  return joined;
}

int cli_read_config(cli *c, const char *path) {
  json_error_t error;
  struct stat info;
  if (stat(path, &info) != 0) return cli_wrong_use(c, "--config %s: there is no such file", path);
  if (!S_ISREG(info.st_mode)) return cli_wrong_use(c, "--config %s: it is no regular file", path);
  json_t *config = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!config) return cli_wrong_use(c, "--config %s: %s (line %d)", path, error.text, error.line);
  int code = 0;
  c->config_values = json_array();
  if (!json_is_object(config)) code = cli_wrong_use(c, "--config %s: a JSON object of option names and values is needed", path);
  const char *key;
  json_t *value;
  int n = 0;
  json_object_foreach(config, key, value) {
    if (code) break;
    char name[64];
    snprintf(name, sizeof name, "%s%s", strcmp(key, "o") == 0 ? "-" : "--", key);
    const cli_option *option = cli_find_option(c->verb, name);
    if (!option || strcmp(name, "--config") == 0) {
      code = cli_wrong_use(c, "--config %s: '%s' has no option '%s'", path, c->verb->name, key);
      break;
    }
    bool wrong = false;
    json_t *text = option_text(value, !option->argument, &wrong);
    if (wrong || c->n_options == CLI_MAX_ARGUMENTS) {
      json_decref(text);
      code = cli_wrong_use(c, "--config %s: the value of '%s' must be %s", path, key,
                           option->argument ? "a text, a number or a list of these" : "true or false");
      break;
    }
    if (!text) continue;
    json_array_append_new(c->config_values, text);
    memmove(&c->options[n + 1], &c->options[n], (size_t)(c->n_options - n) * sizeof *c->options);
    c->options[n].name = option->name;
    c->options[n++].value = json_string_value(text);
    c->n_options++;
  }
  json_decref(config);
  return code;
}
