// SmallBank (Alomari et al., ICDE 2008, as H-Store and DrTM run it): six transactions on two tables, savings
// and checking, 8 B balances in cents. Amalgamate, SendPayment touch two accounts; Balance only reads.
//
// Accounts are numbered over the whole cluster and dealt to partitions in turn. hot_fraction of them, the
// lowest numbers, get hot_probability of the picks; the other picks go over the rest.
//
// Who makes it and which thread calls what: workload.hpp.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry smallbank_entry();
std::unique_ptr<Workload> make_smallbank(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
