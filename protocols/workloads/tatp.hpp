// TATP (Telecommunication Application Transaction Processing, version 1.0), as FaSST and FaRM run it: seven
// short transactions, 80 % of them read-only, on four tables and a secondary index.
//
// Subscribers are numbered over the whole cluster and dealt to partitions in an order like chance: the draws
// (NURand) favour numbers with many ones in their low bits, which in turn would be few partitions'. All of a
// subscriber's rows live together, its entry in the index of subscriber numbers anywhere. Rows that the
// benchmark draws at loading (which access types, facilities and forwardings a subscriber has) follow from
// the key. Rows are inserted and deleted by InsertCallForwarding and DeleteCallForwarding.
//
// A transaction that does not find its row has done its work and counts among those that ended by their own
// rules (user aborts): one that only reads is validated like any other, one that writes is rolled back behind
// Execution. The rules of the population give these shares of success: get-access-data and
// update-subscriber-data .625, insert- and delete-call-forwarding .3125, as the text says;
// get-new-destination .204, where the text says .201. For the forwardings there are at first are those that
// inserts and deletes lead to: each of the three starts is there or not with the same probability, ends
// at any of 24 hours, and shares stay what they are however long a run is. (The text loads none to three of
// them, each number as likely, that end 1 to 8 hours later: .148 at first, with a uniform end of 24 hours
// asked for.) Shares of few subscribers scatter: NURand makes some popular.
//
// Who makes it and which thread calls what: workload.hpp.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry tatp_entry();
std::unique_ptr<Workload> make_tatp(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
