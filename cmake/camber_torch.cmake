# Finds LibTorch: the one Torch_DIR names, else the one that scripts/setup put into .venv.
if(NOT DEFINED Torch_DIR AND DEFINED ENV{Torch_DIR} AND NOT "$ENV{Torch_DIR}" STREQUAL "")
  set(Torch_DIR "$ENV{Torch_DIR}" CACHE PATH "Folder of TorchConfig.cmake")
endif()
if(NOT DEFINED Torch_DIR)
  file(GLOB camber_torch_candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake/Torch)
  if(camber_torch_candidates)
    list(GET camber_torch_candidates 0 camber_torch_first)
    set(Torch_DIR "${camber_torch_first}" CACHE PATH "Folder of TorchConfig.cmake")
  endif()
endif()
# The wheel has kineto inside of libtorch_cpu.so; TorchConfig.cmake looks for a library of its own and warns without it.
if(NOT kineto_LIBRARY)
  set(kineto_LIBRARY torch CACHE STRING "Where LibTorch's profiler is" FORCE)
endif()
find_package(Torch REQUIRED)

# The wheel's headers are not ours to warn about, and its link interface names them with -I.
get_target_property(camber_torch_includes torch INTERFACE_INCLUDE_DIRECTORIES)
set_target_properties(torch PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${camber_torch_includes}")

# Where what is installed finds LibTorch. CMake leaves folders inside the source tree, such as .venv, out of the paths that it
# takes over itself.
get_filename_component(CAMBER_TORCH_LIBRARIES "${TORCH_LIBRARY}" DIRECTORY)

# LibTorch brings its own OpenMP runtime; the compiler's would be a second one of the same name on the search path.
file(GLOB camber_torch_openmp ${CAMBER_TORCH_LIBRARIES}/libgomp*.so*)
if(camber_torch_openmp)
  list(GET camber_torch_openmp 0 camber_torch_first_openmp)
  set(OpenMP_gomp_LIBRARY "${camber_torch_first_openmp}" CACHE FILEPATH "The OpenMP runtime of LibTorch" FORCE)
endif()
