// YCSB (Cooper et al., SoCC 2010), core workloads A to F, one operation a transaction: A 50 % updates, B 5 %,
// C none, D 5 % inserts and reads of the latest, E 95 % scans and 5 % inserts, F 50 % read-modify-writes.
//
// Keys are dealt to partitions in turn; which of them is popular, or inserted when, is scattered over them,
// as YCSB's hashing does. An update reads the record it replaces, since OCC validates its version. The first
// word of a value counts its updates, which is what the invariant adds up.
//
// Inserts: a worker cannot know what others insert, so each takes the next key of a stripe of its own of the
// half of the key space that is empty at first. "Latest" (D) counts back from the newest key that the worker
// has inserted, and behind its first one from the last one that was loaded. A read that finds no record (its
// worker's commits may overtake each other) counts as ended by its own rules. A stripe that is used up is
// gone through again. E scans an ordered index, whose leaves are reached by RPC: the next keys that exist,
// and then their records; its inserts enter their key there, between two that were loaded.
//
// Who makes it and which thread calls what: workload.hpp.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry ycsb_entry();
std::unique_ptr<Workload> make_ycsb(const nlohmann::json& parameters, int nodes, int threads);

}  // namespace verbtwin::protocols
