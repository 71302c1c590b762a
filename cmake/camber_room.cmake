# One CMake target a room, so that the linker and the include path enforce who may know whom.
# GCC 12 sees overlapping copies in `"text" + std::string` that are not there (GCC bug 105651).
add_library(camber_flags INTERFACE)
add_library(camber::flags ALIAS camber_flags)
target_compile_options(camber_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<BOOL:${CAMBER_WARNINGS_AS_ERRORS}>:-Werror>)
include(camber_sanitizers)

if(CAMBER_BUILD_FUZZERS)
  # Coverage of all rooms guides libFuzzer; its main comes with -fsanitize=fuzzer where a program is linked. Comparisons are not
  # traced, which takes a fifth of the time: the mutations know the words and the structure that they would find.
  target_compile_options(camber_flags INTERFACE -fsanitize-coverage=inline-8bit-counters,pc-table)
endif()

find_program(CAMBER_CCACHE ccache)
if(CAMBER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The base directory makes a fresh clone hit the cache; the sloppiness is what precompiled headers need.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CAMBER_CCACHE})
endif()

# Code that runs once a step costs nothing at -O1, and compiles in two thirds of -O3's time.
function(camber_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# The public rooms, whose headers are installed, and the rooms that these link.
set(camber_public_rooms ops nn geometry detection train nuscenes sensors episodes eval config storage)
set(camber_installed_rooms ${camber_public_rooms} distributed weights health drawing random kernels json threads)

# camber_add_room(<room> SOURCES <files> [NEEDS <rooms and libraries, public>] [USES <libraries, private>] [HOT])
# makes the static library camber_<room> with the alias camber::<room>, under which public rooms are installed. HOT rooms have
# loops over numbers of their own, and are optimised in full.
function(camber_add_room room)
  cmake_parse_arguments(ROOM "HOT" "" "SOURCES;NEEDS;USES" ${ARGN})
  add_library(camber_${room} STATIC ${ROOM_SOURCES})
  add_library(camber::${room} ALIAS camber_${room})
  target_include_directories(camber_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(camber_${room} PUBLIC ${ROOM_NEEDS} PRIVATE $<BUILD_INTERFACE:camber::flags> ${ROOM_USES})
  target_compile_features(camber_${room} PUBLIC cxx_std_20)
  if(NOT ROOM_HOT)
    camber_compile_quickly(camber_${room})
  endif()
  set_target_properties(camber_${room} PROPERTIES EXPORT_NAME ${room} CAMBER_NEEDS "${ROOM_NEEDS}")
  if(room IN_LIST camber_installed_rooms)
    install(TARGETS camber_${room} EXPORT camber_targets)
  endif()
endfunction()

# camber_add_hot_sources(<room> <files>): those with loops over numbers in a room that is otherwise compiled quickly.
function(camber_add_hot_sources room)
  add_library(camber_${room}_hot OBJECT ${ARGN})
  target_include_directories(camber_${room}_hot PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  get_target_property(needs camber_${room} CAMBER_NEEDS)
  target_link_libraries(camber_${room}_hot PRIVATE ${needs} camber::flags)
  target_compile_features(camber_${room}_hot PRIVATE cxx_std_20)
  target_sources(camber_${room} PRIVATE $<TARGET_OBJECTS:camber_${room}_hot>)
endfunction()
