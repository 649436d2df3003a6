# For authors of plugins: find_package(hal CONFIG) with hal_DIR = `python -m hal --cmakedir`, then
#   add_library(mychip MODULE mychip.c)
#   target_link_libraries(mychip PRIVATE hal::headers)
if(NOT TARGET hal::headers)
  add_library(hal::headers INTERFACE IMPORTED)
  set_target_properties(hal::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include"
    # What the numerics contract needs of a compiler (docs/numerics.md).
    INTERFACE_COMPILE_OPTIONS "-ffp-contract=off")
endif()
