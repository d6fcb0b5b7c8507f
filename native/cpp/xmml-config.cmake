# find_package(xmml) defines the targets xmml::xmml (shared library) and xmml::static; both carry the include folder, for C and C++.
# In a project with Fortran there is also xmml::fortran: the module xmml, compiled by the project's compiler.
get_filename_component(_xmml_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET xmml::xmml)
  add_library(xmml::xmml SHARED IMPORTED)
  set_target_properties(xmml::xmml PROPERTIES
    IMPORTED_LOCATION "${_xmml_prefix}/lib/libxmml.so.0"
    IMPORTED_SONAME "libxmml.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_xmml_prefix}/include")
  add_library(xmml::static STATIC IMPORTED)
  set_target_properties(xmml::static PROPERTIES
    IMPORTED_LOCATION "${_xmml_prefix}/lib/libxmml.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_xmml_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

get_property(_xmml_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("Fortran" IN_LIST _xmml_languages AND NOT TARGET xmml::fortran)
  add_library(xmml_fortran STATIC EXCLUDE_FROM_ALL "${_xmml_prefix}/fortran/xmml.f90")
  set(_xmml_modules "${CMAKE_CURRENT_BINARY_DIR}/xmml-modules")
  set_target_properties(xmml_fortran PROPERTIES
    Fortran_MODULE_DIRECTORY "${_xmml_modules}"
    POSITION_INDEPENDENT_CODE ON)
  target_include_directories(xmml_fortran INTERFACE "${_xmml_modules}")
  target_link_libraries(xmml_fortran PUBLIC xmml::xmml)
  add_library(xmml::fortran ALIAS xmml_fortran)
  unset(_xmml_modules)
endif()

unset(_xmml_languages)
unset(_xmml_prefix)
