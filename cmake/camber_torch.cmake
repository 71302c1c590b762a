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
include(${CMAKE_CURRENT_LIST_DIR}/camber_libtorch.cmake)
camber_before_libtorch()
find_package(Torch REQUIRED)
# CAMBER_TORCH_LIBRARIES is where what is installed finds LibTorch. CMake leaves folders inside the source tree, such as .venv, out
# of the paths that it takes over itself.
camber_after_libtorch()

# The wheel's headers are not ours to warn about, and its link interface names them with -I.
get_target_property(camber_torch_includes torch INTERFACE_INCLUDE_DIRECTORIES)
set_target_properties(torch PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${camber_torch_includes}")
