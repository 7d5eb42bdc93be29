# quadfs_module(name FACE header… SOURCES file… [LINKS target…] [FACE_LINKS target…])
# A static library with the project's warnings. FACE lists the headers other modules may include.
function(quadfs_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -Wold-style-cast)
  if(QUADFS_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(QUADFS_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${QUADFS_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${QUADFS_SANITIZE})
  endif()
endfunction()

function(quadfs_module name)
  cmake_parse_arguments(arg "" "" "FACE;SOURCES;LINKS;FACE_LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${arg_FACE})
  target_link_libraries(${name} PUBLIC ${arg_FACE_LINKS} PRIVATE ${arg_LINKS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                           VERIFY_INTERFACE_HEADER_SETS ON)
  quadfs_warnings(${name})
endfunction()

# quadfs_test(name SOURCES file… [LINKS target…] [LABELS label…] [TIMEOUT seconds])
# A GoogleTest program, one CTest entry.
function(quadfs_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE quadfs_test_support ${arg_LINKS} GTest::gmock
                                        GTest::gtest_main)
  quadfs_warnings(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                                          SKIP_RETURN_CODE 77)
endfunction()
