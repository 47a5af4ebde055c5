#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cmake --install into a temporary place; a C program builds against it by pkg-config and a C++ one, over every header, by CMake.
set -euo pipefail
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/usr" >/dev/null
for file in bin/intact share/man/man1/intact.1 share/bash-completion/completions/intact; do
  [ -s "$place/usr/$file" ] || { echo "not installed: $file"; exit 1; }
done
mkdir -p "$place/app"
{
  for header in "$place"/usr/include/intact/*.h; do echo "#include <intact/$(basename "$header")>"; done
  echo '#include <cstring>'
  echo 'int main() { intact_context *c = nullptr; if (intact_context_create(nullptr, &c) != INTACT_OK) return 1;'
  echo '  intact_context_destroy(c); return std::strlen(intact_version()) == 0; }'
} >"$place/app/app.cpp"
cat >"$place/app/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(app LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(intact REQUIRED)
add_executable(app_shared app.cpp)
target_link_libraries(app_shared intact::intact)
add_executable(app_static app.cpp)
target_link_libraries(app_static intact::intact_static)
EOF
log=$place/log
sanitize=$(sed -n 's/^INTACT_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
flags=${sanitize:+-fsanitize=$sanitize}
cmake -S "$place/app" -B "$place/app/build" -DCMAKE_PREFIX_PATH="$place/usr" -DCMAKE_CXX_FLAGS="$flags" >"$log" 2>&1 &&
  cmake --build "$place/app/build" >>"$log" 2>&1 || { cat "$log"; exit 1; }
"$place/app/build/app_static"
"$place/app/build/app_shared"
echo '#include <intact/base.h>
int main(void) { return intact_version()[0] == 0; }' >"$place/app/app.c"
export PKG_CONFIG_PATH="$(dirname "$(find "$place" -name intact.pc)")"
cc $flags -o "$place/app/by_pkg_config" "$place/app/app.c" $(pkg-config --cflags --libs intact)
LD_LIBRARY_PATH="$(dirname "$(find "$place" -name 'libintact.so')")" "$place/app/by_pkg_config"
echo "installed version $(pkg-config --modversion intact) builds and runs C and C++ programs"
