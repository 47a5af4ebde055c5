/* SPDX-License-Identifier: Apache-2.0 */
/* The look at the wire format before anything is unpacked: lengths, nesting, places of raw tensor bytes. Field numbers are
   those of onnx.proto. */
#include "io/onnx/onnx_scan.h"

#include <string.h>

#include "graph/op.h"
#include "io/onnx/onnx_file.h"

typedef enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 } wire;

typedef enum message {
  OPAQUE, /* bytes, strings, packed numbers, messages without tensors or nesting */
  SKIP,   /* left out of the skeleton */
  RAW,    /* raw_data */
  MODEL,
  GRAPH,
  NODE,
  ATTRIBUTE,
  TENSOR,
  SPARSE,
  FUNCTION,
  VALUE_INFO,
  TYPE,
  CONTAINER, /* TypeProto.Sequence, Map, Optional: element type in field 1 or 2 */
  LEAF       /* a message that nests no further */
} message;

typedef struct child {
  uint8_t parent;
  uint8_t number;
  uint8_t kind;
} child;

static const child children[] = {
    {MODEL, 7, GRAPH},       {MODEL, 8, LEAF},        {MODEL, 14, LEAF},     {MODEL, 20, SKIP},
    {MODEL, 25, FUNCTION},   {GRAPH, 1, NODE},        {GRAPH, 5, TENSOR},    {GRAPH, 11, VALUE_INFO},
    {GRAPH, 12, VALUE_INFO}, {GRAPH, 13, VALUE_INFO}, {GRAPH, 14, LEAF},     {GRAPH, 15, SPARSE},
    {NODE, 5, ATTRIBUTE},    {ATTRIBUTE, 5, TENSOR},  {ATTRIBUTE, 6, GRAPH}, {ATTRIBUTE, 10, TENSOR},
    {ATTRIBUTE, 11, GRAPH},  {ATTRIBUTE, 14, TYPE},   {ATTRIBUTE, 15, TYPE}, {ATTRIBUTE, 22, SPARSE},
    {ATTRIBUTE, 23, SPARSE}, {TENSOR, 9, RAW},        {TENSOR, 13, LEAF},    {SPARSE, 1, TENSOR},
    {SPARSE, 2, TENSOR},     {FUNCTION, 7, NODE},     {FUNCTION, 9, LEAF},   {FUNCTION, 11, ATTRIBUTE},
    {VALUE_INFO, 2, TYPE},   {TYPE, 1, LEAF},         {TYPE, 4, CONTAINER},  {TYPE, 5, CONTAINER},
    {TYPE, 9, CONTAINER},    {TYPE, 8, LEAF},         {CONTAINER, 1, TYPE},  {CONTAINER, 2, TYPE},
};

static const char *const message_names[] = {"bytes",          "bytes",          "bytes",
                                            "ModelProto",     "GraphProto",     "NodeProto",
                                            "AttributeProto", "TensorProto",    "SparseTensorProto",
                                            "FunctionProto",  "ValueInfoProto", "TypeProto",
                                            "TypeProto",      "message"};

/* What unpacking costs at most per message and per other length-delimited field. */
enum { COST_MESSAGE = 256, COST_BYTES = 32 };
enum { LENGTH_BYTES = 5 }; /* of a length to be filled in later: a varint padded to five bytes */

typedef struct scanner {
  intact_context *context;
  const char *path;
  const uint8_t *data;
  size_t bytes; /* of the file */
  intact_onnx_skeleton *out;
  size_t cost;
} scanner;

typedef struct field {
  size_t start, payload, end; /* of the whole field, of its content (after tag and length), end of both */
  uint64_t number;
  wire type;
} field;

static message child_kind(message parent, uint64_t number) {
  for (int i = 0; i < INTACT_COUNT_OF(children); i++) {
    if (children[i].parent == (uint8_t)parent && children[i].number == number) return (message)children[i].kind;
  }
  return OPAQUE;
}

/* A varint at *at, before end; 0 done, -1 cut off by end, -2 longer than ten bytes. */
static int read_varint(const uint8_t *data, size_t end, size_t *at, uint64_t *value) {
  uint64_t result = 0;
  for (int i = 0; i < 10; i++) {
    if (*at >= end) return -1;
    uint8_t byte = data[(*at)++];
    result |= (uint64_t)(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      *value = result;
      return 0;
    }
  }
  return -2;
}

static intact_status fail_cut(const scanner *s, size_t at, size_t end, message kind) {
  if (end == s->bytes) {
    INTACT_FAIL(
        s->context, TRUNCATED, s->path,
        "cannot read %s: the protobuf ends inside a field of %s at byte %zu; the file has %zu bytes and is cut short",
        s->path, message_names[kind], at, s->bytes);
  }
  INTACT_FAIL(s->context, SYNTAX, s->path, "cannot read %s: a field of %s at byte %zu runs past the end of its message",
              s->path, message_names[kind], at);
}

/* The field at `at` of a message that ends at `end`. */
static intact_status read_field(const scanner *s, size_t at, size_t end, message kind, field *f) {
  f->start = at;
  uint64_t tag = 0, length = 0;
  int result = read_varint(s->data, end, &at, &tag);
  if (result == -1) return fail_cut(s, f->start, end, kind);
  f->number = tag >> 3;
  f->type = (wire)(tag & 7);
  if (result == -2 || f->number == 0 || f->number > 0x1fffffff) {
    INTACT_FAIL(s->context, SYNTAX, s->path,
                "cannot read %s: byte %zu of %s is no protobuf tag; not an ONNX file or corrupt", s->path, f->start,
                message_names[kind]);
  }
  f->payload = at;
  switch (f->type) {
    case WIRE_VARINT:
      result = read_varint(s->data, end, &at, &length);
      length = 0;
      break;
    case WIRE_FIXED64:
      length = 8;
      break;
    case WIRE_FIXED32:
      length = 4;
      break;
    case WIRE_BYTES:
      result = read_varint(s->data, end, &at, &length);
      f->payload = at;
      break;
    default:
      INTACT_FAIL(s->context, SYNTAX, s->path,
                  "cannot read %s: field %llu of %s at byte %zu has wire type %d, which ONNX does not use", s->path,
                  (unsigned long long)f->number, message_names[kind], f->start, (int)f->type);
  }
  if (result == -2) {
    INTACT_FAIL(s->context, SYNTAX, s->path, "cannot read %s: a varint of more than ten bytes in %s at byte %zu", s->path,
                message_names[kind], f->start);
  }
  if (result == -1) return fail_cut(s, f->start, end, kind);
  if (length > end - at) {
    if (length > s->bytes - at) return fail_cut(s, f->start, s->bytes, kind);
    return fail_cut(s, f->start, end, kind);
  }
  f->end = at + (size_t)length;
  return INTACT_OK;
}

static intact_status put(scanner *s, const void *bytes, size_t n) {
  intact_onnx_skeleton *out = s->out;
  void *data = out->data;
  intact_status status = intact__reserve(s->context, &data, &out->capacity, out->bytes + n, 1);
  out->data = data;
  INTACT_TRY(status);
  memcpy(out->data + out->bytes, bytes, n);
  out->bytes += n;
  return INTACT_OK;
}

static intact_status put_tag(scanner *s, uint64_t number) {
  uint8_t tag[10];
  size_t n = 0;
  uint64_t value = number << 3 | WIRE_BYTES;
  while (value >= 0x80) {
    tag[n++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  tag[n++] = (uint8_t)value;
  return put(s, tag, n);
}

static void patch_length(scanner *s, size_t at) {
  uint64_t length = s->out->bytes - at - LENGTH_BYTES;
  for (int i = 0; i < LENGTH_BYTES; i++) {
    s->out->data[at + (size_t)i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
  }
}

static intact_status charge(scanner *s, size_t cost) {
  s->cost += cost;
  const size_t grant = intact__onnx_grant(s->bytes);
  if (s->cost > grant) {
    INTACT_FAIL(s->context, OVERFLOW, s->path,
                "cannot read %s: unpacking its %zu bytes would take more than %zu bytes of memory; it holds masses of empty "
                "messages and is taken as hostile",
                s->path, s->bytes, grant);
  }
  return INTACT_OK;
}

static intact_status scan_message(scanner *s, size_t at, size_t end, message kind, int depth) {
  if (depth > INTACT_ONNX_NESTING) {
    INTACT_FAIL(s->context, RECURSION_LIMIT, s->path, "cannot read %s: messages are nested deeper than %d at byte %zu",
                s->path, (int)INTACT_ONNX_NESTING, at);
  }
  while (at < end) {
    field f = {0};
    INTACT_TRY(read_field(s, at, end, kind, &f));
    at = f.end;
    message inner = f.type == WIRE_BYTES ? child_kind(kind, f.number) : OPAQUE;
    if (inner == SKIP) continue;
    if (inner == OPAQUE) {
      if (f.type == WIRE_BYTES) INTACT_TRY(charge(s, COST_BYTES));
      INTACT_TRY(put(s, s->data + f.start, f.end - f.start));
      continue;
    }
    INTACT_TRY(put_tag(s, f.number));
    if (inner == RAW) {
      intact_onnx_raw raw = {f.payload, f.end - f.payload};
      uint8_t length = sizeof raw;
      INTACT_TRY(put(s, &length, 1));
      INTACT_TRY(put(s, &raw, sizeof raw));
      continue;
    }
    INTACT_TRY(charge(s, COST_MESSAGE));
    static const uint8_t no_length[LENGTH_BYTES];
    size_t length_at = s->out->bytes;
    INTACT_TRY(put(s, no_length, LENGTH_BYTES));
    INTACT_TRY(scan_message(s, f.payload, f.end, inner, depth + 1));
    if (s->out->bytes - length_at > INT32_MAX) {
      INTACT_FAIL(s->context, OVERFLOW, s->path, "cannot read %s: a message holds more than 2 GB beside raw tensor data",
                  s->path);
    }
    patch_length(s, length_at);
  }
  return INTACT_OK;
}

intact_status intact__onnx_scan(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                intact_onnx_skeleton *skeleton) {
  if (bytes == 0) INTACT_FAIL(context, TRUNCATED, path, "cannot read %s: the file is empty", path);
  intact_onnx_skeleton out = {NULL, 0, 0};
  scanner s = {context, path, data, bytes, &out, 0};
  intact_status status = scan_message(&s, 0, bytes, MODEL, 1);
  if (status != INTACT_OK) {
    intact__free(context, out.data);
    return status;
  }
  *skeleton = out;
  return INTACT_OK;
}

bool intact__onnx_looks_like(const uint8_t *head, size_t head_bytes, size_t bytes) {
  size_t at = 0;
  int known = 0;
  while (at < head_bytes) {
    uint64_t tag = 0, value = 0;
    if (read_varint(head, head_bytes, &at, &tag) != 0) return known >= 2 && head_bytes < bytes;
    uint64_t number = tag >> 3;
    bool varint = number == 1 || number == 5;
    bool text = (number >= 2 && number <= 4) || (number >= 6 && number <= 8) || number == 14 || number == 20 ||
                number == 25 || number == 26;
    if (!varint && !text) return false;
    if ((wire)(tag & 7) != (varint ? WIRE_VARINT : WIRE_BYTES)) return false;
    if (read_varint(head, head_bytes, &at, &value) != 0) return known >= 2 && head_bytes < bytes;
    if (number == 1 && (value == 0 || value > 1000)) return false;
    known++;
    if (text) {
      if (value > bytes - at) return false;
      if (value > head_bytes - at) return known >= 2;
      at += (size_t)value;
    }
  }
  return known >= 2;
}
