/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped files, and files that appear whole or not at all. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

struct intact_mapping {
  intact_context *context;
  atomic_int holders;
  void *data;
  size_t bytes;
};

static intact_status open_file(intact_context *context, const char *path, int *fd, size_t *bytes) {
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer is refused, not waited for */
  if (opened < 0) {
    if (errno == ENOENT) INTACT_FAIL(context, MISSING_ENTRY, path, "can't read '%s': there is no such file", path);
    INTACT_FAIL(context, IO, path, "can't read '%s': %s", path, strerror(errno));
  }
  struct stat info;
  intact_status status = INTACT_OK;
  if (fstat(opened, &info) != 0)
    status = intact__fail(context, INTACT_IO, path, __FILE__, __LINE__, "can't read '%s': %s", path, strerror(errno));
  else if (!S_ISREG(info.st_mode))
    status = intact__fail(context, INTACT_IO, path, __FILE__, __LINE__, "can't read '%s': it is %s, a file is needed", path,
                          S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
  if (status != INTACT_OK) {
    close(opened);
    return status;
  }
  *fd = opened;
  *bytes = (size_t)info.st_size;
  return INTACT_OK;
}

intact_status intact__map_file(intact_context *context, const char *path, intact_mapping **mapping) {
  int fd = -1;
  size_t bytes = 0;
  INTACT_TRY(open_file(context, path, &fd, &bytes));
  void *data = NULL;
  if (bytes) data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  close(fd);
  if (data == MAP_FAILED) INTACT_FAIL(context, IO, path, "can't map '%s' (%zu bytes): %s", path, bytes, strerror(error));
  intact_mapping *m = intact__alloc(context, 1, sizeof *m);
  if (!m) {
    if (data) munmap(data, bytes);
    return intact__no_memory(context, sizeof *m);
  }
  m->context = context;
  atomic_init(&m->holders, 1);
  m->data = data;
  m->bytes = bytes;
  *mapping = m;
  return INTACT_OK;
}

const uint8_t *intact__mapping_data(const intact_mapping *mapping) { return mapping->data; }
size_t intact__mapping_bytes(const intact_mapping *mapping) { return mapping->bytes; }

intact_mapping *intact__mapping_retain(intact_mapping *mapping) {
  atomic_fetch_add(&mapping->holders, 1);
  return mapping;
}

void intact__mapping_release(intact_mapping *mapping) {
  if (!mapping || atomic_fetch_sub(&mapping->holders, 1) > 1) return;
  if (mapping->data) munmap(mapping->data, mapping->bytes);
  intact__free(mapping->context, mapping);
}

void intact__mapping_forget(const intact_mapping *mapping, size_t offset, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
  if (!mapping->data || bytes == 0 || offset >= mapping->bytes || bytes > mapping->bytes - offset) return;
  madvise((char *)mapping->data + begin, offset + bytes - begin, MADV_DONTNEED); /* a hint: failing costs memory only */
}

/* The file has no name until it is complete (O_TMPFILE), so that nothing is left behind however the process ends. Where the
   file system can't do that, it has a temporary name. */
struct intact_writer {
  intact_context *context;
  FILE *stream;
  char *path;
  char *temporary; /* name to rename from */
  bool named;      /* `temporary` exists already */
  bool direct;     /* path is no regular file: written in place */
};

static void writer_release(intact_writer *writer) {
  intact__free(writer->context, writer->temporary);
  intact__free(writer->context, writer->path);
  intact__free(writer->context, writer);
}

static int open_unnamed(intact_writer *writer) {
  char folder[4096];
  if (strlen(writer->path) >= sizeof folder) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(folder, writer->path, strlen(writer->path) + 1);
  int fd = open(dirname(folder), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  writer->named = true;
  return open(writer->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
}

intact_status intact__writer_open(intact_context *context, const char *path, intact_writer **writer) {
  intact_writer *w = intact__alloc_zeroed(context, 1, sizeof *w);
  if (!w) return intact__no_memory(context, sizeof *w);
  w->context = context;
  w->path = intact__strdup(context, path);
  intact_text name;
  intact__text_init(&name, context);
  intact__text_add(&name, "%s.unfinished-%ld", path, (long)getpid());
  w->temporary = intact__text_take(&name);
  if (!w->path || !w->temporary) {
    writer_release(w);
    return intact__no_memory(context, strlen(path));
  }
  struct stat info;
  int fd;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fd = -1;
  } else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    w->direct = true;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  } else {
    fd = open_unnamed(w);
  }
  w->stream = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!w->stream) {
    int error = errno;
    if (fd >= 0) close(fd);
    if (w->named) unlink(w->temporary);
    intact_status status = intact__fail(context, INTACT_IO, path, __FILE__, __LINE__, "can't write '%s': %s; name a place that can be written",
                                        path, strerror(error));
    writer_release(w);
    return status;
  }
  *writer = w;
  return INTACT_OK;
}

FILE *intact__writer_stream(intact_writer *writer) { return writer->stream; }

static int give_name(intact_writer *writer) {
  if (writer->named) return 0;
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(writer->stream));
  unlink(writer->temporary);
  if (linkat(AT_FDCWD, self, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) != 0) return -1;
  writer->named = true;
  return 0;
}

intact_status intact__writer_commit(intact_writer *writer) {
  intact_context *context = writer->context;
  int failed = ferror(writer->stream);
  if (fflush(writer->stream) != 0) failed = 1;
  if (!failed && !writer->direct) failed = fsync(fileno(writer->stream)) != 0 || give_name(writer) != 0;
  int error = errno;
  if (fclose(writer->stream) != 0 && !failed) {
    failed = 1;
    error = errno;
  }
  if (!failed && !writer->direct && rename(writer->temporary, writer->path) != 0) {
    failed = 1;
    error = errno;
  }
  intact_status status = INTACT_OK;
  if (failed) {
    if (writer->named) unlink(writer->temporary);
    status = intact__fail(context, INTACT_IO, writer->path, __FILE__, __LINE__,
                          "can't write '%s': %s; nothing was written under this name", writer->path, strerror(error));
  }
  writer_release(writer);
  return status;
}

void intact__writer_abort(intact_writer *writer) {
  if (!writer) return;
  fclose(writer->stream);
  if (writer->named) unlink(writer->temporary);
  writer_release(writer);
}
