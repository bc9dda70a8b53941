// multi-object: groups of reads or writes of random records on other machines, one-sided or by RPC, with the
// optimisations of transaction systems switched one after another (Wei et al., OSDI 2018, figures 6, 16, 20):
// coroutines (cluster.coroutines), the operations of a group outstanding together, doorbell batching, passive
// acknowledgement. An operation of the result is a whole group.
//
// See the entry's schema for the parameters, README.md for what passive means here.
#pragma once

#include <memory>

#include "protocols/micro/benchmark.hpp"

namespace verbtwin::protocols {

RegistryEntry multi_object_entry();
std::unique_ptr<Benchmark> make_multi_object(const nlohmann::json& workload,
                                             const BenchmarkParameters& parameters);

}  // namespace verbtwin::protocols
