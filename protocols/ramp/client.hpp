// RampClient: one coroutine's transactions: GET_ALL over the keys it reads, then PUT_ALL over those it writes
// (Bailis et al., SIGMOD 2014, algorithms 1 to 3), or locks, prepares and commits (S2PL).
//
// Belongs to a coroutine of its worker and that worker's thread. run() is one attempt; where it fails, the
// same group is run again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "protocols/attempts.hpp"
#include "protocols/checks/ramp_history.hpp"
#include "protocols/ramp/address_cache.hpp"
#include "protocols/ramp/messages.hpp"
#include "protocols/ramp/options.hpp"
#include "protocols/ramp/statistics.hpp"
#include "protocols/rpc/local_rpc.hpp"
#include "protocols/runtime/task.hpp"
#include "protocols/whole_lines.hpp"
#include "protocols/workloads/key_groups.hpp"

namespace verbtwin::protocols {

/// What the clients of one worker share. Owned by the node's program.
struct RampEngine {
  const RampLayout& layout;
  const RampOptions& options;
  Worker& worker;
  Rpc& gets;  // to other nodes
  Rpc& puts;
  LocalRpc& local;
  AddressCache* addresses;  // GET*
  std::uint32_t lkey;       // of the clients' registered memory
  bool record = false;      // histories
};

class RampClient {
 public:
  /// `number`: unique in the cluster, below 2^30. `landing`: registered memory for READs, landing_bytes().
  RampClient(RampEngine& engine, std::uint64_t number, std::uint32_t group_max, std::span<std::byte> landing);

  static std::size_t landing_bytes(const RampLayout& layout, std::uint32_t group_max) {
    return group_max * whole_lines(layout.image_b(layout.metadata_max_b));
  }
  /// The longest message there can be.
  static std::uint32_t message_max_b(const RampLayout& layout, std::uint32_t group_max);

  /// One attempt; false: why says abort_reason(). `since_ps`: when the first one began.
  Task<bool> run(const KeyGroup& group, std::int64_t since_ps);

  RampAbort abort_reason() const { return reason_; }
  std::int64_t phase_ps(RampPhase phase) const { return phase_ps_[static_cast<std::size_t>(phase)]; }
  /// How often the attempt's reads waited for servers; 0: there were none.
  std::size_t read_rounds() const { return rounds_; }
  /// READs of keys' places, and how many of them found a current version.
  std::uint64_t in_place() const { return in_place_; }
  std::uint64_t in_place_accepted() const { return in_place_accepted_; }
  const RampHistory& history() const { return history_; }

 private:
  struct Item {
    std::uint64_t key = 0;
    std::int32_t node = 0;
    bool writes = false;  // S2PL, of a key that is locked: it is written
    bool is_read = true;  // likewise
    bool asked = false;   // in this round
    RampStatus status = RampStatus::kFound;
    std::uint64_t timestamp = 0;
    std::uint64_t last_commit = 0;
    std::uint64_t needed = 0;  // kFast: the timestamp that a sibling names
    std::uint64_t written_digest = 0;
    std::span<const std::byte> metadata, value;
    std::byte* landing = nullptr;       // of a READ
    std::uint32_t landing_b = 0;        // as much of it as was asked for
    std::span<std::byte> reply_buffer;  // of a message
    Reply reply;
  };

  // get_all.cpp
  Task<bool> get_all();
  void read_in_place(Item& item, WaitGroup& group);
  bool accept_in_place(Item& item);
  void get_last(Item& item, WaitGroup& group);
  void get_newest_of(Item& item, std::span<const std::uint64_t> timestamps, WaitGroup& group);
  bool take_reply(Item& item, bool first_round);
  Task<bool> first_round();
  std::size_t ask_again(WaitGroup& group);
  void find_needed_by_siblings();
  void needed_by_filters(const Item& item);

  // put_all.cpp
  Task<bool> put_all();
  void choose_timestamp();
  std::uint32_t metadata_bytes() const;
  void fill_metadata(const Item& item, std::span<std::byte> metadata) const;
  void make_filter();
  void prepare(Item& item, WaitGroup& group);
  Task<bool> prepare_all();
  Task<void> commit_all();
  void send_commits(RampMessage message, std::span<const Item> written, std::span<const Item> locked,
                    WaitGroup& group);

  // two_phase_locking.cpp
  Task<bool> run_locked(std::int64_t since_ps);
  Task<bool> lock_all(std::int64_t since_ps);

  void begin(const KeyGroup& group);
  Item& add_item(std::vector<Item>& items, std::size_t& count, std::uint64_t key);
  std::span<Item> reads() { return std::span(reads_).first(read_count_); }
  std::span<Item> writes() { return std::span(writes_).first(write_count_); }
  bool fail(RampAbort reason) {
    reason_ = reason;
    return false;
  }
  Rpc& to(int node, Rpc& remote) {
    if (node == engine_.worker.port().node()) return engine_.local;
    return remote;
  }
  void observe(std::uint64_t timestamp) {
    if (timestamp >> kClientBits > sequence_) sequence_ = timestamp >> kClientBits;
  }
  void end_phase(RampPhase phase);
  void record();

  static constexpr int kClientBits = 30;
  static constexpr std::uint64_t kNotRead = ~std::uint64_t{0};

  RampEngine& engine_;
  Worker& worker_;
  Cpu& cpu_;
  std::uint64_t number_;
  std::uint64_t sequence_ = 0;   // of the newest timestamp that this client knows of
  std::uint64_t timestamp_ = 0;  // of what this transaction writes
  std::size_t rounds_ = 0;       // that this attempt's reads have waited for
  std::uint64_t in_place_ = 0, in_place_accepted_ = 0;
  RampAbort reason_ = RampAbort::kNone;
  std::int64_t phase_start_ps_ = 0, memory_begin_ps_ = 0;
  std::array<std::int64_t, kRampPhases> phase_ps_{};
  std::vector<Item> reads_, writes_;  // made once, used again
  std::size_t read_count_ = 0, write_count_ = 0;
  std::vector<std::byte> reply_bytes_;
  std::vector<std::byte> filter_;      // kHybrid: of what this transaction writes
  std::vector<std::uint64_t> wanted_;  // timestamps, while they are gathered
  std::vector<Reply> acknowledgements_;
  RampHistory history_;
  std::vector<RampRead> history_reads_;
  std::vector<RampWrite> history_writes_;
};

}  // namespace verbtwin::protocols
