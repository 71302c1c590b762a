# CAMBER_SANITIZE: ON for the address and undefined-behaviour sanitizers, THREAD for the thread sanitizer.
if(NOT CAMBER_SANITIZE)
  return()
endif()
# GCC 12 takes the sanitizers' own code in <regex> and <functional> for uninitialised reads.
target_compile_options(camber_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# The runtimes stand between a program and dlopen, which then looks along the path of the runtime's own library; the older kind of
# path is the whole process's.
target_link_options(camber_flags INTERFACE "LINKER:--disable-new-dtags")
if(NOT CAMBER_SANITIZE STREQUAL THREAD)
  target_compile_options(camber_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(camber_flags INTERFACE -fsanitize=address,undefined)
  return()
endif()

# The regions of OpenMP have an order that the sanitizer cannot see; the library says it, and has to be found before libgomp.
add_library(camber_openmp_order SHARED ${PROJECT_SOURCE_DIR}/tests/thread_sanitizer/openmp_order.cpp)
target_link_libraries(camber_openmp_order PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(camber_openmp_order PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# LibTorch's headers count Python's references with a fence, which the sanitizer does not follow; no file of ours has one.
target_compile_options(camber_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
target_link_options(camber_flags INTERFACE -fsanitize=thread
                    "LINKER:--push-state,--no-as-needed,$<TARGET_FILE:camber_openmp_order>,--pop-state"
                    "LINKER:-rpath,${PROJECT_BINARY_DIR}/lib")
add_dependencies(camber_flags camber_openmp_order)
