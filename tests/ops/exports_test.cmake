# libcamber_ops.so shows what its headers declare, and nothing of what it is made of:
#   cmake -DNM=nm -DLIBRARY=... -P exports_test.cmake
execute_process(COMMAND ${NM} -DC --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${NM} must read ${LIBRARY}, answered ${code}")
endif()
foreach(wanted biased_attention merge sparse_attention sparse_convolution build_sparse_indices build_windows window_values dense_mask StructuredBias::materialize)
  if(NOT symbols MATCHES "camber::ops::${wanted}\\(")
    message(FATAL_ERROR "camber::ops::${wanted} must be visible")
  endif()
endforeach()
string(REGEX MATCHALL "[^\n]*camber::[^\n]*" own "${symbols}")
foreach(symbol ${own})
  if(symbol MATCHES "camber::(kernels|geometry|random)::" OR
     symbol MATCHES "camber::ops::(check_|AttentionArguments|fused_|streamed_|reference_|sparse_reference|sparse_convolution_reference)")
    message(FATAL_ERROR "what the library is made of must be hidden, got ${symbol}")
  endif()
endforeach()
