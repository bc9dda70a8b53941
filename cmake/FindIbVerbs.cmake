# rdma-core's libibverbs, which ships no CMake package: the target IbVerbs::IbVerbs.
find_path(IbVerbs_INCLUDE_DIR infiniband/verbs.h)
find_library(IbVerbs_LIBRARY ibverbs)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(IbVerbs REQUIRED_VARS IbVerbs_LIBRARY IbVerbs_INCLUDE_DIR)
if(IbVerbs_FOUND AND NOT TARGET IbVerbs::IbVerbs)
  add_library(IbVerbs::IbVerbs UNKNOWN IMPORTED)
  set_target_properties(IbVerbs::IbVerbs PROPERTIES IMPORTED_LOCATION ${IbVerbs_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${IbVerbs_INCLUDE_DIR})
endif()
