# Writes version and commit into a header, when they changed:
#   cmake -DSOURCE=... -DVERSION=... -DHEADER=... -P camber_commit.cmake
execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(content "#pragma once\n#define CAMBER_VERSION \"${VERSION}\"\n#define CAMBER_COMMIT \"${commit}\"\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT "${before}" STREQUAL "${content}")
  file(WRITE ${HEADER} "${content}")
endif()
