# The manifest and the export list, generated from the public headers by tools/manifest.py.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

file(GLOB ASTER_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/aster_ml/*.h
     ${PROJECT_SOURCE_DIR}/include/aster_ml/*.hpp)
set(ASTER_MANIFEST_TOOL ${PROJECT_SOURCE_DIR}/tools/manifest.py)
set(ASTER_EXPORT_MAP ${CMAKE_BINARY_DIR}/aster_ml.map)
# Beside lib/ as in an installed tree: the Python binding looks in <library>/../share/aster_ml.
set(ASTER_MANIFEST ${CMAKE_BINARY_DIR}/share/aster_ml/manifest.json)

add_custom_command(OUTPUT ${ASTER_EXPORT_MAP}.stamp BYPRODUCTS ${ASTER_EXPORT_MAP}
  COMMAND ${Python3_EXECUTABLE} ${ASTER_MANIFEST_TOOL} --export-map ${ASTER_EXPORT_MAP}
  COMMAND ${CMAKE_COMMAND} -E touch ${ASTER_EXPORT_MAP}.stamp
  DEPENDS ${ASTER_MANIFEST_TOOL} ${ASTER_HEADERS} COMMENT "Export list" VERBATIM)
add_custom_target(aster_export_map DEPENDS ${ASTER_EXPORT_MAP}.stamp)

add_custom_command(OUTPUT ${ASTER_MANIFEST}.stamp BYPRODUCTS ${ASTER_MANIFEST}
  COMMAND ${Python3_EXECUTABLE} ${ASTER_MANIFEST_TOOL} --out ${ASTER_MANIFEST} --compiler ${CMAKE_C_COMPILER}
  COMMAND ${CMAKE_COMMAND} -E touch ${ASTER_MANIFEST}.stamp
  DEPENDS ${ASTER_MANIFEST_TOOL} ${ASTER_HEADERS} COMMENT "Manifest" VERBATIM)
add_custom_target(aster_manifest ALL DEPENDS ${ASTER_MANIFEST}.stamp)
