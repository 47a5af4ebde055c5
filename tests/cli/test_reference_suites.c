/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance program over all reference cases and samples; its verdict is the test's. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/reference.h"

int main(void) {
  static const char program[] = INTACT_BINARY_DIR "/bin/conformance";
  char suites[1024], samples[1024];
  test_reference("conformance", suites, sizeof suites);
  test_reference("samples", samples, sizeof samples);
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, suites, samples, (char *)NULL);
    perror(program);
    _exit(1);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
