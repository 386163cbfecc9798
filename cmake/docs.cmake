# The reference as pages, from the public headers and the Python package: `cmake --build . --target docs`, installed with the rest.
file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/aster_ml/*.py)
set(ASTER_DOCS ${CMAKE_BINARY_DIR}/docs)
add_custom_command(OUTPUT ${ASTER_DOCS}.stamp BYPRODUCTS ${ASTER_DOCS}/index.html
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/reference_html.py --out ${ASTER_DOCS}
  COMMAND ${CMAKE_COMMAND} -E touch ${ASTER_DOCS}.stamp
  DEPENDS ${PROJECT_SOURCE_DIR}/tools/reference_html.py ${PROJECT_SOURCE_DIR}/tools/reference.py
          ${PROJECT_SOURCE_DIR}/tools/reference_python.py ${python_sources}
          ${ASTER_MANIFEST_TOOL} ${ASTER_HEADERS}
  COMMENT "Reference as pages" VERBATIM)
add_custom_target(docs ALL DEPENDS ${ASTER_DOCS}.stamp)
install(DIRECTORY ${ASTER_DOCS}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL)
