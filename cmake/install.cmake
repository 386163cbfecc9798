# What `cmake --install` lays down: headers, both libraries, pkg-config file, CMake package, command, manifest, data.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/aster_ml DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS aster_ml_shared aster_ml_static EXPORT aster_ml_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET aster)
  set_target_properties(aster PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS aster RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${ASTER_MANIFEST} DESTINATION ${CMAKE_INSTALL_DATADIR}/aster_ml)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/examples/data)
  install(DIRECTORY examples/data DESTINATION ${CMAKE_INSTALL_DATADIR}/aster_ml)
endif()

# The prefix of the .pc file is found from where it lies, so that an installed tree may be moved.
file(RELATIVE_PATH ASTER_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/aster_ml.pc.in ${CMAKE_BINARY_DIR}/aster_ml.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/aster_ml.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/aster_ml)
install(EXPORT aster_ml_targets FILE aster_ml-targets.cmake NAMESPACE aster_ml:: DESTINATION ${package})
configure_package_config_file(cmake/aster_ml-config.cmake.in ${CMAKE_BINARY_DIR}/aster_ml-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/aster_ml-config-version.cmake
  COMPATIBILITY SameMinorVersion)  # 0.x: the ABI may change with the minor version
install(FILES ${CMAKE_BINARY_DIR}/aster_ml-config.cmake ${CMAKE_BINARY_DIR}/aster_ml-config-version.cmake
        DESTINATION ${package})
