# One CMake target a room, so that the linker and the include path enforce who may know whom.
# GCC 12 sees overlapping copies in `"text" + std::string` that are not there (GCC bug 105651).
add_library(camber_flags INTERFACE)
target_compile_options(camber_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<BOOL:${CAMBER_WARNINGS_AS_ERRORS}>:-Werror>)
if(CAMBER_SANITIZE)
  # GCC 12 takes the sanitizers' own code in <regex> and <functional> for uninitialised reads.
  target_compile_options(camber_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(camber_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(camber_flags INTERFACE -fsanitize=address,undefined)
endif()

if(CAMBER_BUILD_FUZZERS)
  # Coverage of all rooms guides libFuzzer; its main comes with -fsanitize=fuzzer where a program is linked.
  target_compile_options(camber_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(camber_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CAMBER_CCACHE ccache)
if(CAMBER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The base directory makes a fresh clone hit the cache; the sloppiness is what precompiled headers need.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CAMBER_CCACHE})
endif()

# camber_add_room(<room> SOURCES <files> [NEEDS <rooms and libraries, public>] [USES <libraries, private>])
# makes the static library camber_<room> with the alias camber::<room>, under which it is installed too.
function(camber_add_room room)
  cmake_parse_arguments(ROOM "" "" "SOURCES;NEEDS;USES" ${ARGN})
  add_library(camber_${room} STATIC ${ROOM_SOURCES})
  add_library(camber::${room} ALIAS camber_${room})
  target_include_directories(camber_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(camber_${room} PUBLIC ${ROOM_NEEDS} PRIVATE $<BUILD_INTERFACE:camber_flags> ${ROOM_USES})
  target_compile_features(camber_${room} PUBLIC cxx_std_20)
  set_target_properties(camber_${room} PROPERTIES EXPORT_NAME ${room})
  install(TARGETS camber_${room} EXPORT camber_targets)
endfunction()
