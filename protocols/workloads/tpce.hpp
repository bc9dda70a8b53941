// TPC-E's customer-position (TPC Benchmark E, clause 3.3.2), as the OSDI 2018 and FaRM-like comparisons run
// it: read-only; a customer's accounts and their holdings, and the last prices of what they hold, which live
// on many partitions. Other transactions of TPC-E are not here: nothing writes.
//
// A customer's rows live together; securities are dealt to partitions in turn. Who has how many accounts,
// which securities and how many of each follows from the key.
//
// Who makes it and which thread calls what: workload.hpp.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry tpce_entry();
std::unique_ptr<Workload> make_tpce(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
