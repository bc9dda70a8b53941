#include "protocols/store/layout.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/spread_bits.hpp"
#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

namespace {

/// A log names a record's slot by 32 bits, and a simulated node numbers its blocks of 128 B so.
constexpr std::uint64_t kSlotsMax = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kRecordsMax_b = std::uint64_t{128} << 32;

void refuse_above(std::uint64_t most, std::uint64_t wanted, const char* what) {
  if (wanted <= most) return;
  throw UserError("/workload", "too large: " + std::to_string(wanted) + " " + what + "; allowed: up to " +
                                   std::to_string(most));
}

}  // namespace

std::uint32_t LogSpec::held_at_start(int sender_node, int sender_thread, int node) const {
  constexpr std::uint32_t kMost = 8;  // however rarely a test has its logs reclaimed
  if (answers > 0 || reclaim_entries == 0) return 0;
  const auto number = static_cast<std::uint64_t>(sender_node) << 40 |
                      static_cast<std::uint64_t>(sender_thread) << 20 | static_cast<std::uint64_t>(node);
  return 1 + static_cast<std::uint32_t>(spread_bits(number + 1) % std::min(kMost, reclaim_entries));
}

StoreLayout::StoreLayout(std::vector<TableSpec> tables, LogSpec log, int nodes, int threads, int replicas,
                         std::size_t worker_b)
    : log_(log),
      nodes_(nodes),
      threads_(threads),
      replicas_(replicas),
      worker_b_((worker_b + 4095) & ~std::size_t{4095}) {
  std::uint64_t at = 4096;  // offset 0 stays free: a location of 0 means none
  const auto take = [&at](std::uint64_t bytes) {
    const std::uint64_t start = at;
    at += (bytes + 4095) & ~std::uint64_t{4095};
    return start;
  };
  std::uint64_t records_b = 0;
  for (const TableSpec& spec : tables) {
    refuse_above(kSlotsMax, spec.records, "records of a table on each node");
    records_b += spec.records * RecordLayout(spec.value_b).stride_b * static_cast<std::uint64_t>(replicas);
  }
  refuse_above(kRecordsMax_b, records_b, "B of records on each node");
  for (TableSpec& spec : tables) {
    Table table{spec, RecordLayout(spec.value_b), ClusterHash::buckets_for(spec.records), {}, 0};
    for (int rank = 0; rank < replicas; ++rank)
      table.records_at.push_back(take(spec.records * table.record.stride_b));
    table.buckets_at = take(table.bucket_count * ClusterHash::kBucketBytes);
    tables_.push_back(std::move(table));
  }
  assert(log_.ring_b % log_.part_b() == 0 && (log_.answers == 0 || log_.segment_b == 0));
  rings_at_ = take(ring_step_b() * (log_.ring_b / log_.part_b()));
  workers_at_ = take(static_cast<std::uint64_t>(threads) * worker_b_);
  total_b_ = at;
}

}  // namespace verbtwin::protocols
