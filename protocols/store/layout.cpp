#include "protocols/store/layout.hpp"

#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

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
  for (TableSpec& spec : tables) {
    Table table{spec, RecordLayout(spec.value_b), ClusterHash::buckets_for(spec.records), {}, 0};
    for (int rank = 0; rank < replicas; ++rank)
      table.records_at.push_back(take(spec.records * table.record.stride_b));
    table.buckets_at = take(table.bucket_count * ClusterHash::kBucketBytes);
    tables_.push_back(std::move(table));
  }
  rings_at_ = take(static_cast<std::uint64_t>(nodes) * static_cast<std::uint64_t>(threads) * log_.stride_b());
  workers_at_ = take(static_cast<std::uint64_t>(threads) * worker_b_);
  total_b_ = at;
}

}  // namespace verbtwin::protocols
