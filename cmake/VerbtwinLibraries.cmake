# The libraries of Debian 12 that ship no CMake package of their own, as targets.

function(verbtwin_header_library name header)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  add_library(${name} INTERFACE IMPORTED)
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIR})
endfunction()

function(verbtwin_library name header)
  verbtwin_header_library(${name} ${header})
  find_library(${name}_LIBRARY ${name} REQUIRED)
  target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
endfunction()

verbtwin_header_library(valijson valijson/validator.hpp)
verbtwin_header_library(pcg pcg_random.hpp)
verbtwin_header_library(robin_map tsl/robin_map.h)
verbtwin_library(xxhash xxhash.h)
verbtwin_library(rapidcheck rapidcheck.h)

