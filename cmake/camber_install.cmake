# cmake --install build --prefix DIR: headers, libraries, the program and its configurations; find_package(camber) then knows camber::<room>.
include(CMakePackageConfigHelpers)
set(camber_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/camber)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/camber DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/camber)
install(EXPORT camber_targets NAMESPACE camber:: FILE camber_targets.cmake DESTINATION ${camber_package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/camberConfig.cmake.in ${PROJECT_BINARY_DIR}/camberConfig.cmake
                              INSTALL_DESTINATION ${camber_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/camberConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/camberConfig.cmake ${PROJECT_BINARY_DIR}/camberConfigVersion.cmake
        DESTINATION ${camber_package_folder})
