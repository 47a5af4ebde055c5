# cmake --install: headers, libraries, pkg-config file, CMake package, command, man page, completion.
include(CMakePackageConfigHelpers)
set_target_properties(intact_shared PROPERTIES EXPORT_NAME intact)
install(TARGETS intact_shared intact_static EXPORT intact-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS intact_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/intact DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT intact-targets NAMESPACE intact:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/intact)
configure_package_config_file(cmake/intact-config.cmake.in ${CMAKE_BINARY_DIR}/intact-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/intact)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/intact-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/intact-config.cmake ${CMAKE_BINARY_DIR}/intact-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/intact)
file(RELATIVE_PATH intact_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/intact.pc.in ${CMAKE_BINARY_DIR}/intact.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/intact.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES docs/intact.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/intact.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME intact)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
