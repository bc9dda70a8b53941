// StoreLayout: where everything lies in a node's registered memory. The same on every node, so that a record,
// a bucket or a log is addressed by node and offset alone.
//
// A value, built once before the run and shared read-only by all workers. Offsets and sizes in bytes.
//
// Replication: the records of partition p live at node p (primary) and at the next replicas-1 nodes of the
// ring (backups). A node therefore holds one copy of each table per replica rank: rank 0 its own partition,
// rank r that of node (node - r).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocols/remainder.hpp"
#include "protocols/store/cluster_hash.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

struct TableSpec {
  std::string name;
  std::uint32_t value_b = 8;
  /// Keys 0 .. records-1 of each partition have a place; whether they exist says initial_value().
  std::uint64_t records = 0;
  /// Only workers of a record's own node use it: its lock may be a CPU's whatever the protocol locks with.
  bool local_only = false;
  /// Fetched by RPC, whatever Execution fetches with.
  bool by_rpc = false;
};

struct LogSpec {
  std::uint32_t ring_b = 16384;      // one sender's log at one backup
  std::uint32_t entry_max_b = 1024;  // no entry is longer
  /// FaRM: words behind a ring for what its owner's LOCK records are answered; 0: it writes none.
  std::uint32_t answers = 0;
  /// Of more than so many the backup is asked to reclaim some; or when the ring is half full. 0: each
  /// transaction tells the backups itself (Reclaim::kEach).
  std::uint32_t reclaim_entries = 8;
  /// Rings lie in segments of so much, the first ones of all rings together, then the second ones: a large
  /// cluster's first entries fill pages, not one of their own each. Divides ring_b. 0: rings lie whole.
  std::uint32_t segment_b = 0;

  /// A log begins as one of a cluster long in use: as though it held so many entries more, in some logs few,
  /// in others as many as are reclaimed at a time. 0 where logs are emptied as they fill: with LOCK records,
  /// and where each transaction sees to its own entries.
  std::uint32_t held_at_start(int sender_node, int sender_thread, int node) const;

  /// No entry reaches from one into the next.
  std::uint32_t part_b() const { return segment_b == 0 ? ring_b : segment_b; }
  /// From a ring's first part to that of the next ring.
  std::uint64_t stride_b() const { return part_b() + whole_lines(answers * 8ULL); }
};

/// A log ring in its node's memory.
struct LogRing {
  std::byte* first;
  std::uint32_t part_b;  // LogSpec::part_b
  std::uint64_t step_b;  // from part to part

  /// Behind `first`: where `position` of such a ring is.
  static std::uint64_t offset(std::uint64_t position, std::uint32_t part_b, std::uint64_t step_b) {
    return quotient_of<std::uint64_t>(position, part_b) * step_b +
           remainder_of<std::uint64_t>(position, part_b);
  }
  std::byte* at(std::uint64_t position) const { return first + offset(position, part_b, step_b); }
};

class StoreLayout {
 public:
  struct Table {
    TableSpec spec;
    RecordLayout record;
    std::uint64_t bucket_count;
    std::vector<std::uint64_t> records_at;  // by replica rank
    std::uint64_t buckets_at;
  };

  StoreLayout(std::vector<TableSpec> tables, LogSpec log, int nodes, int threads, int replicas,
              std::size_t worker_b);

  const Table& table(std::uint32_t id) const { return tables_[id]; }
  std::size_t tables() const { return tables_.size(); }
  const LogSpec& log() const { return log_; }
  int nodes() const { return nodes_; }
  int replicas() const { return replicas_; }

  std::uint64_t record_offset(std::uint32_t table, int rank, std::uint64_t slot) const {
    const Table& t = tables_[table];
    return t.records_at[static_cast<std::size_t>(rank)] + slot * t.record.stride_b;
  }
  /// The bucket that a key's place is in.
  std::uint64_t bucket_offset(std::uint32_t table, std::uint64_t key) const {
    return tables_[table].buckets_at + ClusterHash::bucket_of(key) * ClusterHash::kBucketBytes;
  }
  /// A key's record among its neighbours in the table, which have their places side by side.
  struct Neighbourhood {
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint32_t record_at;  // behind `offset`
  };
  static constexpr std::uint32_t kNeighbours = 8;
  Neighbourhood neighbourhood(std::uint32_t table, std::uint64_t key) const {
    const std::uint64_t first = key / kNeighbours * kNeighbours;
    const std::uint64_t last = std::min(first + kNeighbours, tables_[table].spec.records) - 1;
    const RecordLayout& record = tables_[table].record;
    return {record_offset(table, 0, first),
            static_cast<std::uint32_t>((last - first) * record.stride_b + record.image_b),
            static_cast<std::uint32_t>((key - first) * record.stride_b)};
  }
  /// The beginning of the log ring that worker (node, thread) fills at any other node.
  std::uint64_t ring_offset(int sender_node, int sender_thread) const {
    // Those that one worker polls lie together.
    const int number =
        log_.answers > 0 ? sender_thread * nodes_ + sender_node : sender_node * threads_ + sender_thread;
    return rings_at_ + static_cast<std::uint64_t>(number) * log_.stride_b();
  }
  /// From part to part of a ring.
  std::uint64_t ring_step_b() const {
    return static_cast<std::uint64_t>(nodes_) * static_cast<std::uint64_t>(threads_) * log_.stride_b();
  }
  /// Where `position` of that ring is.
  std::uint64_t log_offset(int sender_node, int sender_thread, std::uint64_t position) const {
    return ring_offset(sender_node, sender_thread) + LogRing::offset(position, log_.part_b(), ring_step_b());
  }
  /// Where worker (`node`, `thread`) answers the LOCK records that its peer here, of the same index, wrote
  /// into its log.
  std::uint64_t answers_offset(int node, int thread) const { return ring_offset(node, thread) + log_.ring_b; }
  /// FaRM: the rings of all workers of one index, and the answers to the one here.
  std::uint64_t rings_bytes() const { return static_cast<std::uint64_t>(nodes_) * log_.stride_b(); }
  std::uint64_t worker_offset(int thread) const {
    return workers_at_ + static_cast<std::uint64_t>(thread) * worker_b_;
  }
  std::size_t worker_bytes() const { return worker_b_; }
  std::size_t total_bytes() const { return total_b_; }

  struct Part {
    std::uint64_t offset, bytes;
  };
  /// All log rings.
  Part rings() const { return {rings_at_, workers_at_ - rings_at_}; }

  int backup_node(int partition, int rank) const {
    const int node = partition + rank;
    return node < nodes_ ? node : node - nodes_;
  }
  /// The rank that `node` has for `partition`; 0 is the primary; -1: it holds no copy.
  int rank_of(int node, int partition) const {
    const int ahead = node - partition;
    const int rank = ahead < 0 ? ahead + nodes_ : ahead;
    return rank < replicas_ ? rank : -1;
  }

 private:
  std::vector<Table> tables_;
  LogSpec log_;
  int nodes_, threads_, replicas_;
  std::size_t worker_b_;
  std::uint64_t rings_at_ = 0, workers_at_ = 0;
  std::size_t total_b_ = 0;
};

}  // namespace verbtwin::protocols
