// Object store O(r, w) (FaSST, OSDI 2016, section 6.2): a transaction reads r random objects and updates w of
// them; 8 B keys, 40 B values, 1 M objects a thread. With r = 1, w = 0 it is a stream of GETs.
//
// Objects are numbered over the whole cluster and dealt to partitions in turn. The first word of a value
// counts its updates, which is what the invariant adds up.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry object_store_entry();
std::unique_ptr<Workload> make_object_store(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
