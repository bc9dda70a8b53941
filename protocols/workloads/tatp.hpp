// TATP (Telecommunication Application Transaction Processing, version 1.0), as FaSST and FaRM run it: seven
// short transactions, 80 % of them read-only, on four tables and a secondary index.
//
// Subscribers are numbered over the whole cluster and dealt to partitions in turn; all of a subscriber's rows
// live together, its entry in the index of subscriber numbers anywhere. Rows that the benchmark draws at
// loading (which access types, facilities and forwardings a subscriber has) follow from the key. Rows are
// inserted and deleted by InsertCallForwarding and DeleteCallForwarding.
//
// A transaction that does not find its row has done its work: it is validated, commits, and counts among
// those that ended by their own rules (user aborts). The rules of the population give these shares of
// success: get-access-data and update-subscriber-data .625, insert- and delete-call-forwarding .3125, as the
// text says; get-new-destination .148, where the text says .201: with its own rules (start times 0, 8, 16, an
// end 1 to 8 hours later, a uniform end of 24 hours asked for, 85 % of facilities active) we do not get
// there. Shares of few subscribers scatter: NURand makes some popular.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry tatp_entry();
std::unique_ptr<Workload> make_tatp(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
