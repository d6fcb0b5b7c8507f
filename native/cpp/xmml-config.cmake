# find_package(xmml) defines the targets xmml::xmml (shared library) and xmml::static; both carry the include folder, for C and C++.
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

unset(_xmml_prefix)
