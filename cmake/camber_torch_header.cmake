# One precompiled header for every target with torch modules or optimisers in it (src/nn/precompiled.h): 34 s once, then
# 7 s instead of 17 s a file. g++ takes a precompiled header only where the flags agree to the letter, hence one function.
#   camber_use_torch_header(camber_nn OWNER)    compiles it
#   camber_use_torch_header(camber_train)       borrows it; the target needs the same warnings and build type
# Files without torch: set_source_files_properties(<file> PROPERTIES SKIP_PRECOMPILE_HEADERS ON), they build in a second.
function(camber_use_torch_header target)
  if(ARGV1 STREQUAL "OWNER")
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/nn/precompiled.h)
  else()
    target_precompile_headers(${target} REUSE_FROM camber_nn)
  endif()
  # Programs are compiled with -fPIE by default, which is another header than -fPIC's; they link as well with -fPIC.
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  # ccache sees into a precompiled header only with this flag.
  target_compile_options(${target} PRIVATE -fpch-preprocess)
endfunction()
