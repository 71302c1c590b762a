# What LibTorch's wheel needs before and after find_package(Torch), in this build and in projects that find an installed Camber.
macro(camber_before_libtorch)
  # The profiler is inside of libtorch_cpu.so; TorchConfig.cmake looks for a library of its own and warns without it.
  if(NOT kineto_LIBRARY)
    set(kineto_LIBRARY torch CACHE STRING "Where LibTorch's profiler is" FORCE)
  endif()
endmacro()

# It brings its own OpenMP runtime; the compiler's would be a second one of the same name on the search path.
macro(camber_after_libtorch)
  get_filename_component(CAMBER_TORCH_LIBRARIES "${TORCH_LIBRARY}" DIRECTORY)
  file(GLOB camber_torch_openmp ${CAMBER_TORCH_LIBRARIES}/libgomp*.so*)
  if(camber_torch_openmp)
    list(GET camber_torch_openmp 0 camber_torch_first_openmp)
    set(OpenMP_gomp_LIBRARY "${camber_torch_first_openmp}" CACHE FILEPATH "The OpenMP runtime of LibTorch" FORCE)
  endif()
endmacro()
