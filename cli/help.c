/* SPDX-License-Identifier: Apache-2.0 */
/* Help, man page and bash completion, all from the verb table. */
#include <string.h>

#include "cli.h"

static void print_options(FILE *out, const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    fprintf(out, "  %-26s %s\n", left, o->doc);
  }
}

void cli_print_help(FILE *out, const intact_verb *verb) {
  if (verb) {
    fprintf(out, "intact %s %s%s[options]\n\n%s\n\n", verb->name, verb->arguments, *verb->arguments ? " " : "", verb->doc);
    print_options(out, verb->options);
    print_options(out, cli_common_options);
    return;
  }
  fprintf(out, "intact VERB ... [options]\n\nTurns a trained neural network into an integer one, runs it and says what it cost.\n\n");
  for (int i = 0; cli_verbs[i]; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", cli_verbs[i]->name, cli_verbs[i]->arguments);
    fprintf(out, "  %-26s %s\n", left, cli_verbs[i]->doc);
  }
  fprintf(out, "\n'intact VERB --help' lists a verb's options, 'intact --version' the version.\n"
               "Exit code: 0 done, 1 failed (one message on standard error), 2 wrong use.\n");
}

/* Text with the characters that roff reads specially escaped. */
static void print_roff(FILE *out, const char *text) {
  for (const char *at = text; *at; at++) {
    if (*at == '-' || *at == '\\') fputc('\\', out);
    if (*at == '\'' && at == text) fputs("\\&", out);
    fputc(*at, out);
  }
}

static void man_options(FILE *out, const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    fputs(".TP\n.B ", out);
    print_roff(out, o->name);
    if (o->argument) fprintf(out, " \\fI%s\\fR", o->argument);
    fputc('\n', out);
    print_roff(out, o->doc);
    fputc('\n', out);
  }
}

int cli_print_man(FILE *out) {
  fprintf(out, ".TH INTACT 1 \"\" \"intact %s\" \"User Commands\"\n.SH NAME\nintact \\- integer neural networks from trained ones\n"
               ".SH SYNOPSIS\n.B intact\n.I VERB\n[arguments] [options]\n.SH DESCRIPTION\n"
               "Quantizes a trained network, runs the integer network and says what it cost.\n.SH VERBS\n", intact_version());
  for (int i = 0; cli_verbs[i]; i++) {
    const intact_verb *verb = cli_verbs[i];
    fprintf(out, ".SS intact %s %s\n", verb->name, verb->arguments);
    print_roff(out, verb->doc);
    fputc('\n', out);
    man_options(out, verb->options);
  }
  fprintf(out, ".SH COMMON OPTIONS\n");
  man_options(out, cli_common_options);
  fprintf(out, ".SH EXIT STATUS\n0 done, 1 failed with one message on standard error, 2 wrong use.\n.SH ENVIRONMENT\n.TP\n.B INTACT_ISA\n"
               "caps the instruction set as \\-\\-isa does.\n");
  return CLI_DONE;
}

int cli_print_completion(FILE *out) {
  fprintf(out, "# bash completion of intact; made by 'intact help --completion'\n_intact() {\n"
               "  local verb=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} words=\n"
               "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
  for (int i = 0; cli_verbs[i]; i++) fprintf(out, "%s ", cli_verbs[i]->name);
  fprintf(out, "--help --version' -- \"$current\"))\n    return\n  fi\n  case $verb in\n");
  for (int i = 0; cli_verbs[i]; i++) {
    fprintf(out, "    %s) words='", cli_verbs[i]->name);
    for (const cli_option *o = cli_verbs[i]->options; o && o->name; o++) fprintf(out, "%s ", o->name);
    fprintf(out, "' ;;\n");
  }
  fprintf(out, "  esac\n  case $current in\n    -*) COMPREPLY=($(compgen -W \"$words");
  for (const cli_option *o = cli_common_options; o->name; o++) fprintf(out, " %s", o->name);
  fprintf(out, "\" -- \"$current\")) ;;\n    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n  esac\n}\n"
               "complete -o filenames -F _intact intact\n");
  return CLI_DONE;
}

static const cli_option options[] = {{"--man", NULL, "print the man page"},
                                     {"--completion", NULL, "print the bash completion"},
                                     {NULL, NULL, NULL}};

static int run(cli *c) {
  if (c->json) {
    json_t *verbs = json_array();
    for (int i = 0; cli_verbs[i]; i++)
      json_array_append_new(verbs, json_pack("{s:s,s:s,s:s}", "name", cli_verbs[i]->name, "arguments", cli_verbs[i]->arguments,
                                             "doc", cli_verbs[i]->doc));
    json_object_set_new(c->result, "verbs", verbs);
    return CLI_DONE;
  }
  if (cli_get(c, "--man")) return cli_print_man(stdout);
  if (cli_get(c, "--completion")) return cli_print_completion(stdout);
  const intact_verb *verb = NULL;
  if (c->n_positional && !(verb = cli_find_verb(c->positional[0])))
    return cli_wrong_use(c, "there is no verb '%s'; 'intact help' lists them", c->positional[0]);
  cli_print_help(stdout, verb);
  return CLI_DONE;
}

const intact_verb intact_verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .doc = "Lists the verbs, or the options of one; prints the man page or the shell completion.",
    .options = options,
    .run = run};
