# The libraries of Debian 12 that ship no CMake package of their own, as targets.

if(NOT TARGET Boost::headers)
  add_library(Boost::headers INTERFACE IMPORTED)
endif()

function(verbtwin_header_library name header)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  add_library(${name} INTERFACE IMPORTED)
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIR})
endfunction()

verbtwin_header_library(valijson valijson/validator.hpp)
verbtwin_header_library(pcg pcg_random.hpp)
verbtwin_header_library(robin_map tsl/robin_map.h)

find_path(xxhash_INCLUDE_DIR xxhash.h REQUIRED)
find_library(xxhash_LIBRARY xxhash REQUIRED)
add_library(xxhash INTERFACE IMPORTED)
target_include_directories(xxhash SYSTEM INTERFACE ${xxhash_INCLUDE_DIR})
target_link_libraries(xxhash INTERFACE ${xxhash_LIBRARY})

find_path(rapidcheck_INCLUDE_DIR rapidcheck.h REQUIRED)
find_library(rapidcheck_LIBRARY rapidcheck REQUIRED)
add_library(rapidcheck INTERFACE IMPORTED)
target_include_directories(rapidcheck SYSTEM INTERFACE ${rapidcheck_INCLUDE_DIR})
target_link_libraries(rapidcheck INTERFACE ${rapidcheck_LIBRARY})

