# Installs Camber into an empty folder, builds the detector's example against it in a project of its own, and runs it
# on a model that the installed program trained.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE code OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} answered ${code}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/installed -B ${FOLDER}/project -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE} -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
run(${CMAKE_COMMAND} --build ${FOLDER}/project)

set(camber ${FOLDER}/prefix/bin/camber)
run(${camber} simulate --out world --scenes 5 --world.frames=1 --seed 7 --threads 1)
run(${camber} train --out run --data.root=world --data.batch_size=1 --loop.steps=1 --threads 1)
run(${FOLDER}/project/detects_objects run/model.safetensors)

execute_process(COMMAND ${FOLDER}/project/detects_objects ${FOLDER}/world/nowhere.safetensors RESULT_VARIABLE code
                ERROR_VARIABLE sentence)
if(NOT code EQUAL 1 OR NOT sentence MATCHES "nowhere.safetensors")
  message(FATAL_ERROR "a model that is not there must be named, got ${code}: ${sentence}")
endif()
file(REMOVE_RECURSE ${FOLDER})
