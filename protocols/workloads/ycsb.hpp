// YCSB (Cooper et al., SoCC 2010), core workloads A to F, one operation a transaction: A 50 % updates, B 5 %,
// C none, D 5 % inserts and reads of the latest, E 95 % scans and 5 % inserts, F 50 % read-modify-writes.
//
// Records are numbered in key order and dealt to partitions in turn; YCSB's scrambling makes the popular ones
// fall anywhere. An update reads the record it replaces, since OCC validates its version. The first word of
// a value counts its updates, which is what the invariant adds up.
//
// Inserts: a worker cannot know what others insert, so each insert takes a random key of the half of the key
// space that is empty at first; "latest" (D) reads that half's keys by popularity, and those that are not
// there yet as absent. E scans an ordered index, whose leaves are reached by RPC: the next keys that exist,
// and then their records; its inserts enter their key there.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry ycsb_entry();
std::unique_ptr<Workload> make_ycsb(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
