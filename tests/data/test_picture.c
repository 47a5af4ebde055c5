/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as a data set: PNG of every colour type, JPEG, layouts, pictures that are corrupt or of another size. */
/* clang-format off */
#include "support/test.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h> /* needs stdio.h before it */
#include <png.h>
/* clang-format on */

#include "data/picture.h"
#include "graph/graph.h"
#include "intact/data.h"

enum { HEIGHT = 6, WIDTH = 5 };

static char folder[512];

static const char *in_folder(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s/tests/pictures-XXXXXX", INTACT_BINARY_DIR);
  return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

static uint8_t sample(int picture, int y, int x, int c) {
  return (uint8_t)(picture * 50 + y * 29 + x * 13 + c * 71);
}

/* Writes HEIGHT x WIDTH pixels of a colour type with `bytes` bytes a pixel. */
static void write_png(const char *path, int picture, int type, int bytes, bool interlaced) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  const int depth = type == PNG_COLOR_TYPE_GRAY && bytes == 2 ? 16 : 8;
  png_set_IHDR(png, info, WIDTH, HEIGHT, depth, type, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  uint8_t pixels[HEIGHT][WIDTH * 4];
  png_bytep rows[HEIGHT];
  for (int y = 0; y < HEIGHT; y++) {
    rows[y] = pixels[y];
    for (int i = 0; i < WIDTH * bytes; i++) pixels[y][i] = sample(picture, y, i / bytes, i % bytes);
  }
  png_write_image(png, rows);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  fclose(file);
}

/* One grey value everywhere: what a cosine transform keeps exactly. */
static void write_jpeg(const char *path, int channels, uint8_t value) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = WIDTH;
  jpeg.image_height = HEIGHT;
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  uint8_t row[WIDTH * 3];
  memset(row, value, sizeof row);
  JSAMPROW rows[] = {row};
  while (jpeg.next_scanline < HEIGHT) jpeg_write_scanlines(&jpeg, rows, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  fclose(file);
}

static intact_graph *network(intact_context *context, const int64_t *dims) {
  intact_graph *graph;
  intact_value *value;
  int64_t shape[4];
  assert_ok(context, intact__graph_create(context, "inputs", &graph));
  for (int i = 0; i < 4; i++) shape[i] = dims[i] < 0 ? intact__graph_symbol(graph, NULL) : dims[i];
  assert_ok(context, intact__graph_add_input(graph, "x", INTACT_F32, 4, shape, &value));
  return graph;
}

static void colour_types(void **state) {
  (void)state;
  static const struct {
    int type, bytes;
    bool interlaced;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1, false}, {PNG_COLOR_TYPE_RGB, 3, false},        {PNG_COLOR_TYPE_RGB, 3, true},
               {PNG_COLOR_TYPE_RGBA, 4, false}, {PNG_COLOR_TYPE_GRAY_ALPHA, 2, false}, {PNG_COLOR_TYPE_GRAY, 2, false}};
  intact_context *context = test_context(1);
  for (int k = 0; k < 6; k++) {
    const char *path = in_folder("kind.png");
    intact_mapping *mapping;
    intact_picture_info info;
    uint8_t grey[HEIGHT * WIDTH], colour[HEIGHT * WIDTH * 3];
    write_png(path, k, kinds[k].type, kinds[k].bytes, kinds[k].interlaced);
    assert_ok(context, intact__map_file(context, path, &mapping));
    const uint8_t *data = intact__mapping_data(mapping);
    const size_t bytes = intact__mapping_bytes(mapping);
    assert_ok(context, intact__picture_info(context, path, data, bytes, &info));
    assert_int_equal(info.height, HEIGHT);
    assert_int_equal(info.width, WIDTH);
    assert_ok(context, intact__picture_decode(context, path, data, bytes, &info, 1, grey));
    assert_ok(context, intact__picture_decode(context, path, data, bytes, &info, 3, colour));
    for (int i = 0; i < HEIGHT * WIDTH; i++) {
      const int y = i / WIDTH, x = i % WIDTH;
      const bool coloured = kinds[k].bytes >= 3;
      uint8_t wanted[3];
      for (int c = 0; c < 3; c++) wanted[c] = sample(k, y, x, coloured ? c : 0);
      assert_memory_equal(colour + 3 * i, wanted, 3);
      const double luma = 0.299 * wanted[0] + 0.587 * wanted[1] + 0.114 * wanted[2]; /* ITU-R 601-2 */
      assert_true(grey[i] - luma <= 0.51 && luma - grey[i] <= 0.51);
    }
    /* cut anywhere: refused, never half a picture */
    for (size_t cut = 0; cut < bytes - 12; cut++) {
      const intact_status status = intact__picture_decode(context, path, data, cut, &info, 1, grey);
      assert_true(status == INTACT_TRUNCATED || status == INTACT_SYNTAX || status == INTACT_BAD_MAGIC);
    }
    intact__mapping_release(mapping);
  }
  unlink(in_folder("kind.png"));
  intact_context_destroy(context);
}

static void a_folder(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  assert_int_equal(mkdir(in_folder("set"), 0777), 0);
  write_png(in_folder("set/b.png"), 1, PNG_COLOR_TYPE_RGB, 3, false);
  write_png(in_folder("set/a.png"), 0, PNG_COLOR_TYPE_RGB, 3, false);
  write_jpeg(in_folder("set/c.jpg"), 1, 200);
  write_jpeg(in_folder("set/d.jpeg"), 3, 77);
  const int64_t shapes[3][4] = {{-1, 3, HEIGHT, WIDTH}, {-1, HEIGHT, WIDTH, 3}, {1, 3, -1, -1}};
  for (int s = 0; s < 3; s++) {
    intact_graph *graph = network(context, shapes[s]);
    intact_data *data;
    intact_tensor *batch;
    assert_ok(context, intact_data_open(context, in_folder("set"), graph, NULL, &data));
    assert_int_equal(intact_data_count(data), 4);
    assert_ok(context, intact_data_batch(data, 0, 4, &batch));
    for (int i = 0; i < 4 * HEIGHT * WIDTH * 3; i++) {
      const int picture = i / (HEIGHT * WIDTH * 3), at = i % (HEIGHT * WIDTH * 3);
      const int c = s == 1 ? at % 3 : at / (HEIGHT * WIDTH), pixel = s == 1 ? at / 3 : at % (HEIGHT * WIDTH);
      const int wanted = picture < 2 ? sample(picture, pixel / WIDTH, pixel % WIDTH, c) : picture == 2 ? 200 : 77;
      assert_true(intact__f32(batch)[i] == (float)wanted / 255.0f);
    }
    intact_tensor_destroy(batch);
    intact_data_close(data);
    intact_graph_destroy(graph);
  }
  intact_context_destroy(context);
}

static void refusals(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_data *data = NULL;
  intact_graph *other_size = network(context, (const int64_t[]){-1, 3, HEIGHT + 1, WIDTH});
  intact_graph *other_channels = network(context, (const int64_t[]){-1, 4, HEIGHT, WIDTH});
  intact_graph *graph = network(context, (const int64_t[]){-1, 1, HEIGHT, WIDTH});
  assert_fails(intact_data_open(context, in_folder("set"), other_size, NULL, &data), INTACT_SIZE_MISMATCH);
  assert_non_null(strstr(intact_context_message(context), "[3,6,5]"));
  assert_non_null(strstr(intact_context_message(context), "[3,7,5]"));
  assert_fails(intact_data_open(context, in_folder("set"), other_channels, NULL, &data), INTACT_SIZE_MISMATCH);
  assert_ok(context, intact_data_open(context, in_folder("set"), graph, NULL, &data));
  assert_int_equal(truncate(in_folder("set/b.png"), 60), 0); /* behind its header */
  intact_tensor *batch = NULL;
  const intact_status status = intact_data_batch(data, 0, 2, &batch);
  assert_true(status == INTACT_TRUNCATED || status == INTACT_SYNTAX);
  assert_string_equal(intact_context_where(context), in_folder("set/b.png"));
  assert_null(batch);
  intact_data_close(data);
  FILE *file = fopen(in_folder("set/words.txt"), "w");
  assert_non_null(file);
  fputs("no picture", file);
  fclose(file);
  assert_fails(intact_data_open(context, in_folder("set"), graph, NULL, &data), INTACT_BAD_MAGIC);
  assert_int_equal(truncate(in_folder("set/c.jpg"), 200), 0);
  assert_fails(intact_data_open(context, in_folder("set/b.png"), other_size, NULL, &data), INTACT_SIZE_MISMATCH);
  intact_graph_destroy(graph);
  intact_graph_destroy(other_size);
  intact_graph_destroy(other_channels);
  intact_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(colour_types), cmocka_unit_test(a_folder), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
