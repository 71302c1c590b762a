# Installs Camber into an empty folder, builds the detector's example and a project that includes every header against it,
# each in a project of its own, and runs them, the first on a model that the installed program trained.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE code OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} answered ${code}:\n${output}")
  endif()
  if(output MATCHES "CMake Warning")
    message(FATAL_ERROR "${ARGN} must not warn somebody else's project:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)

# What the rooms link goes by names, not by where this machine keeps it: the prefix may be moved or packed.
file(GLOB_RECURSE exported ${FOLDER}/prefix/*/camber_targets*.cmake)
if(NOT exported)
  message(FATAL_ERROR "the prefix must hold camber_targets.cmake")
endif()
foreach(file ${exported})
  file(STRINGS ${file} absolute REGEX "[\":;= ]/[A-Za-z0-9_.]")
  if(absolute)
    message(FATAL_ERROR "${file} must hold no absolute path, got:\n${absolute}")
  endif()
endforeach()

function(build_project source folder)
  run(${CMAKE_COMMAND} -S ${source} -B ${folder} -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
      -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE} -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
  run(${CMAKE_COMMAND} --build ${folder})
endfunction()
build_project(${SOURCE}/examples/installed ${FOLDER}/project)
build_project(${SOURCE}/tests/package/headers ${FOLDER}/headers)
run(${FOLDER}/headers/includes_everything)

set(camber ${FOLDER}/prefix/bin/camber)
run(${camber} simulate --out world --scenes 5 --world.frames=1 --seed 7 --threads 1)
run(${camber} train --out run --data.root=world --data.batch_size=1 --loop.steps=1 --threads 1)
run(${FOLDER}/project/detects_objects run/model.safetensors)
run(${camber} train --config ${FOLDER}/prefix/share/camber/configs/demo.toml --out configured --data.root=world --data.batch_size=1
    --loop.steps=1 --evaluation.faults=[] --threads 1)

execute_process(COMMAND ${FOLDER}/project/detects_objects ${FOLDER}/world/nowhere.safetensors RESULT_VARIABLE code
                ERROR_VARIABLE sentence)
if(NOT code EQUAL 1 OR NOT sentence MATCHES "nowhere.safetensors")
  message(FATAL_ERROR "a model that is not there must be named, got ${code}: ${sentence}")
endif()
file(REMOVE_RECURSE ${FOLDER})
