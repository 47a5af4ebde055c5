/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of oneDNN primitives of a context, and their execution. */
#include "kernels/float/dnnl_run.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

enum { CACHE_ENTRIES = 96, SHAPE_BYTES = 256 };

/* One port of a cached primitive. */
typedef struct port {
  int arg;
  bool output;
  dnnl_memory_t plain;   /* on the caller's memory */
  dnnl_memory_t inner;   /* as the primitive wants it; the same object as plain when it wants it so */
  dnnl_primitive_t copy; /* between the two; NULL when they are the same */
  size_t inner_bytes;
} port;

typedef struct entry {
  const void *build;
  size_t shape_bytes;
  unsigned char shape[SHAPE_BYTES];
  uint64_t used;              /* clock of the last use; 0: free */
  dnnl_primitive_t primitive; /* NULL: oneDNN has none for this recipe */
  dnnl_memory_t scratchpad;
  size_t scratchpad_bytes;
  int n_ports;
  port ports[INTACT_DNNL_PORTS];
  const void *kept_identity[2]; /* of the weights in kept, NULL: none */
  void *kept_handle, *kept;
  void (*kept_release)(void *handle);
} entry;

typedef struct cache {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_attr_t attr;
  uint64_t clock;
  void *workspace; /* scratchpad and copies of the running primitive */
  size_t workspace_bytes;
  entry entries[CACHE_ENTRIES];
} cache;

static const char cache_key;

static void drop_kept(intact_context *context, entry *e) {
  if (e->kept_handle != NULL) e->kept_release(e->kept_handle);
  intact__free(context, e->kept);
  e->kept = e->kept_handle = NULL;
  e->kept_identity[0] = e->kept_identity[1] = NULL;
}

static void clear_entry(intact_context *context, entry *e) {
  drop_kept(context, e);
  for (int i = 0; i < e->n_ports; i++) {
    port *p = &e->ports[i];
    if (p->copy != NULL) dnnl_primitive_destroy(p->copy);
    if (p->inner != NULL && p->inner != p->plain) dnnl_memory_destroy(p->inner);
    if (p->plain != NULL) dnnl_memory_destroy(p->plain);
  }
  if (e->scratchpad != NULL) dnnl_memory_destroy(e->scratchpad);
  if (e->primitive != NULL) dnnl_primitive_destroy(e->primitive);
  memset(e, 0, sizeof *e);
}

static void destroy_cache(intact_context *context, void *object) {
  cache *c = object;
  for (int i = 0; i < CACHE_ENTRIES; i++) clear_entry(context, &c->entries[i]);
  if (c->attr != NULL) dnnl_primitive_attr_destroy(c->attr);
  if (c->stream != NULL) dnnl_stream_destroy(c->stream);
  if (c->engine != NULL) dnnl_engine_destroy(c->engine);
  intact__free(context, c->workspace);
  intact__free(context, c);
}

static intact_status make_cache(intact_context *context, cache **result) {
  cache *c = intact__alloc_zeroed(context, 1, sizeof *c);
  if (c == NULL) return intact__no_memory(context, sizeof *c);
  bool made = dnnl_engine_create(&c->engine, dnnl_cpu, 0) == dnnl_success &&
              dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags) == dnnl_success &&
              dnnl_primitive_attr_create(&c->attr) == dnnl_success &&
              dnnl_primitive_attr_set_scratchpad_mode(c->attr, dnnl_scratchpad_mode_user) == dnnl_success;
  if (!made) {
    destroy_cache(context, c);
    INTACT_FAIL(context, INTERNAL, "", "oneDNN gives no CPU engine; run without the fast float kernels");
  }
  *result = c;
  return INTACT_OK;
}

/* One cache per thread: pieces of a batch run at the same time. */
typedef struct caches {
  int n;
  cache *of_thread[]; /* NULL: not made yet */
} caches;

static void destroy_caches(intact_context *context, void *object) {
  caches *all = object;
  for (int i = 0; i < all->n; i++)
    if (all->of_thread[i] != NULL) destroy_cache(context, all->of_thread[i]);
  intact__free(context, all);
}

static intact_status find_caches(intact_context *context, caches **result) {
  *result = intact__attachment(context, &cache_key);
  if (*result != NULL) return INTACT_OK;
  const int n = intact_context_threads(context);
  caches *all = intact__alloc_zeroed(context, 1, sizeof *all + (size_t)n * sizeof *all->of_thread);
  if (all == NULL) return intact__no_memory(context, sizeof *all);
  all->n = n;
  INTACT_TRY(intact__attach(context, &cache_key, all, destroy_caches));
  *result = all;
  return INTACT_OK;
}

static intact_status find_cache(intact_context *context, int thread, cache **result) {
  caches *all;
  INTACT_TRY(find_caches(context, &all));
  if (all->of_thread[thread] == NULL) INTACT_TRY(make_cache(context, &all->of_thread[thread]));
  *result = all->of_thread[thread];
  return INTACT_OK;
}

enum { THREADED_WORK = 1 << 26 }; /* from here on oneDNN's own threads pay for their barriers */

void intact__dnnl_set_threads(const intact_context *context, int64_t work) {
  const int threads = work < THREADED_WORK || intact__parallel_inside() ? 1 : intact__loop_threads(context);
  /* Debian's oneDNN runs on OpenMP; one built on another runtime has threads of its own. */
  union {
    void *object;
    void (*function)(int);
  } set = {dlsym(RTLD_DEFAULT, "omp_set_num_threads")};
  if (set.object != NULL) set.function(threads);
}

dnnl_status_t intact__dnnl_plain(dnnl_memory_desc_t *desc, int rank, const int64_t *dims) {
  dnnl_dims_t sizes, strides;
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    sizes[d] = dims[d];
    strides[d] = step;
    step *= dims[d];
  }
  return dnnl_memory_desc_init_by_strides(desc, rank, sizes, dnnl_f32, strides);
}

/* ---- making an entry ---- */

static dnnl_status_t make_copy(const cache *c, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                               dnnl_primitive_t *copy) {
  dnnl_primitive_desc_t desc;
  dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from, c->engine, to, c->engine, NULL);
  if (status != dnnl_success) return status;
  status = dnnl_primitive_create(copy, desc);
  dnnl_primitive_desc_destroy(desc);
  return status;
}

static dnnl_status_t make_port(const cache *c, const_dnnl_primitive_desc_t desc, const intact_dnnl_port *wanted, port *p) {
  const dnnl_memory_desc_t *inner = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, wanted->arg);
  p->arg = wanted->arg;
  p->output = wanted->output;
  dnnl_status_t status = dnnl_memory_create(&p->plain, &wanted->plain, c->engine, DNNL_MEMORY_NONE);
  p->inner = p->plain;
  if (status != dnnl_success || dnnl_memory_desc_equal(inner, &wanted->plain)) return status;
  p->inner = NULL;
  p->inner_bytes = dnnl_memory_desc_get_size(inner);
  status = dnnl_memory_create(&p->inner, inner, c->engine, DNNL_MEMORY_NONE);
  if (status != dnnl_success) return status;
  return p->output ? make_copy(c, inner, &wanted->plain, &p->copy) : make_copy(c, &wanted->plain, inner, &p->copy);
}

static dnnl_status_t make_entry(const cache *c, const intact_dnnl_recipe *recipe, entry *e) {
  intact_dnnl_port ports[INTACT_DNNL_PORTS];
  int n = 0;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = recipe->build(recipe->shape, c->engine, c->attr, &desc, ports, &n);
  if (status != dnnl_success) return status;
  status = dnnl_primitive_create(&e->primitive, desc);
  for (int i = 0; i < n && status == dnnl_success; i++) {
    e->n_ports = i + 1;
    status = make_port(c, desc, &ports[i], &e->ports[i]);
  }
  const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  e->scratchpad_bytes = scratchpad != NULL ? dnnl_memory_desc_get_size(scratchpad) : 0;
  if (status == dnnl_success && e->scratchpad_bytes > 0) {
    status = dnnl_memory_create(&e->scratchpad, scratchpad, c->engine, DNNL_MEMORY_NONE);
  }
  dnnl_primitive_desc_destroy(desc);
  return status;
}

static bool is_entry_of(const entry *e, const intact_dnnl_recipe *recipe, const void *build) {
  return e->used != 0 && e->build == build && e->shape_bytes == recipe->shape_bytes &&
         memcmp(e->shape, recipe->shape, recipe->shape_bytes) == 0;
}

/* The entry of a recipe, made in the place of the one that was not used for longest. */
static entry *find_entry(intact_context *context, cache *c, const intact_dnnl_recipe *recipe) {
  union {
    dnnl_status_t (*function)(const void *, dnnl_engine_t, const_dnnl_primitive_attr_t, dnnl_primitive_desc_t *,
                              intact_dnnl_port *, int *);
    const void *object;
  } build = {recipe->build};
  entry *oldest = &c->entries[0];
  c->clock++;
  for (int i = 0; i < CACHE_ENTRIES; i++) {
    entry *e = &c->entries[i];
    if (is_entry_of(e, recipe, build.object)) {
      e->used = c->clock;
      return e;
    }
    if (e->used < oldest->used) oldest = e;
  }
  clear_entry(context, oldest);
  if (make_entry(c, recipe, oldest) != dnnl_success) clear_entry(context, oldest);
  oldest->build = build.object;
  oldest->shape_bytes = recipe->shape_bytes;
  memcpy(oldest->shape, recipe->shape, recipe->shape_bytes);
  oldest->used = c->clock;
  return oldest;
}

/* ---- running ---- */

static size_t rounded(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static intact_status reserve_workspace(intact_context *context, cache *c, const entry *e) {
  size_t need = rounded(e->scratchpad_bytes);
  for (int i = 0; i < e->n_ports; i++) need += rounded(e->ports[i].inner_bytes);
  if (need <= c->workspace_bytes) return INTACT_OK;
  intact__free(context, c->workspace);
  c->workspace_bytes = 0;
  c->workspace = intact__alloc(context, need, 1);
  if (c->workspace == NULL) return intact__no_memory(context, need);
  c->workspace_bytes = need;
  return INTACT_OK;
}

static dnnl_status_t execute_copy(const cache *c, const port *p) {
  const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, p->output ? p->inner : p->plain},
                                   {DNNL_ARG_TO, p->output ? p->plain : p->inner}};
  return dnnl_primitive_execute(p->copy, c->stream, 2, args);
}

/* Weights in the primitive's order from the last time, or NULL with room made for them. Without memory nothing is kept. */
static bool use_kept(intact_context *context, entry *e, const port *p, const intact_float_keep *keep) {
  if (e->kept != NULL && memcmp(e->kept_identity, keep->identity, sizeof keep->identity) == 0) return true;
  drop_kept(context, e);
  e->kept = intact__alloc(context, p->inner_bytes, 1);
  e->kept_handle = e->kept != NULL ? keep->retain(keep->object) : NULL;
  e->kept_release = keep->release;
  if (e->kept_handle == NULL) drop_kept(context, e);
  return false;
}

/* Brings an input into the primitive's order; an output's inner memory gets its place. */
static dnnl_status_t prepare_port(intact_context *context, cache *c, entry *e, port *p, void *data,
                                  const intact_float_keep *keep, unsigned char **room) {
  dnnl_status_t status = dnnl_memory_set_data_handle(p->plain, data);
  if (status != dnnl_success || p->copy == NULL) return status;
  void *inner = *room;
  bool ready = false, is_kept = keep != NULL && p->arg == DNNL_ARG_WEIGHTS && !p->output;
  if (is_kept) ready = use_kept(context, e, p, keep);
  if (is_kept && e->kept != NULL) {
    inner = e->kept;
  } else {
    *room += rounded(p->inner_bytes);
  }
  status = dnnl_memory_set_data_handle(p->inner, inner);
  if (status == dnnl_success && !p->output && !ready) status = execute_copy(c, p);
  if (status == dnnl_success && is_kept && e->kept != NULL) {
    memcpy(e->kept_identity, keep->identity, sizeof keep->identity);
  }
  return status;
}

static dnnl_status_t execute(intact_context *context, cache *c, entry *e, void *const *data, const intact_float_keep *keep) {
  dnnl_exec_arg_t args[INTACT_DNNL_PORTS + 1];
  int n = 0;
  unsigned char *room = c->workspace;
  dnnl_status_t status = dnnl_success;
  if (e->scratchpad != NULL) {
    status = dnnl_memory_set_data_handle(e->scratchpad, room);
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, e->scratchpad};
    room += rounded(e->scratchpad_bytes);
  }
  for (int i = 0; i < e->n_ports && status == dnnl_success; i++) {
    if (data[i] == NULL) continue;
    status = prepare_port(context, c, e, &e->ports[i], data[i], keep, &room);
    args[n++] = (dnnl_exec_arg_t){e->ports[i].arg, e->ports[i].inner};
  }
  if (status == dnnl_success) status = dnnl_primitive_execute(e->primitive, c->stream, n, args);
  for (int i = 0; i < e->n_ports && status == dnnl_success; i++) {
    if (data[i] != NULL && e->ports[i].output && e->ports[i].copy != NULL) status = execute_copy(c, &e->ports[i]);
  }
  dnnl_status_t waited = dnnl_stream_wait(c->stream);
  return status != dnnl_success ? status : waited;
}

intact_status intact__dnnl_run(intact_context *context, const intact_dnnl_recipe *recipe, void *const *data,
                               const intact_float_keep *keep, bool *done) {
  cache *c;
  INTACT_TRY(find_cache(context, intact__thread_index(), &c));
  intact__dnnl_set_threads(context, recipe->work);
  entry *e = recipe->shape_bytes <= SHAPE_BYTES ? find_entry(context, c, recipe) : NULL;
  *done = e != NULL && e->primitive != NULL;
  if (!*done) return INTACT_OK;
  INTACT_TRY(reserve_workspace(context, c, e));
  dnnl_status_t status = execute(context, c, e, data, keep);
  if (status == dnnl_success) return INTACT_OK;
  clear_entry(context, e);
  if (status == dnnl_out_of_memory) return intact__no_memory(context, c->workspace_bytes);
  INTACT_FAIL(context, INTERNAL, "", "oneDNN failed with status %d; run without the fast float kernels", (int)status);
}

typedef struct batch_job {
  intact_context *context;
  const intact_dnnl_batch *batch;
  _Atomic int status; /* the first failure */
  _Atomic bool refused;
} batch_job;

static void run_batch_pieces(void *user, int64_t begin, int64_t end) {
  batch_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i * job->batch->piece, left = job->batch->n - first;
    bool done = false;
    const intact_status status =
        job->batch->run(job->context, job->batch->user, first, left < job->batch->piece ? left : job->batch->piece, &done);
    if (status != INTACT_OK) atomic_store(&job->status, (int)status);
    if (!done) atomic_store(&job->refused, true);
  }
}

intact_status intact__dnnl_run_batch(intact_context *context, const intact_dnnl_batch *batch, bool *done) {
  caches *all; /* made here, not by several threads at once */
  INTACT_TRY(find_caches(context, &all));
  for (int i = 0; i < all->n; i++) {
    cache *c;
    INTACT_TRY(find_cache(context, i, &c));
  }
  batch_job job = {.context = context, .batch = batch};
  intact__parallel(context, (batch->n + batch->piece - 1) / batch->piece, 1, run_batch_pieces, &job);
  *done = !atomic_load(&job.refused);
  return (intact_status)atomic_load(&job.status);
}
