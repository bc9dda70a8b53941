#include "protocols/ramp/client.hpp"

#include <algorithm>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

std::uint32_t RampClient::message_max_b(const RampLayout& layout, std::uint32_t group_max) {
  const std::size_t version_b = layout.metadata_max_b + std::size_t{layout.value_b};
  const std::size_t head_b = std::max(sizeof(VersionReply), sizeof(PrepareArguments));
  const std::size_t keys_b = group_max * sizeof(std::uint64_t);
  return static_cast<std::uint32_t>(
      std::max({head_b + version_b, sizeof(CommitArguments) + 2 * keys_b, sizeof(GetArguments) + keys_b}));
}

RampClient::RampClient(RampEngine& engine, std::uint64_t number, std::uint32_t group_max,
                       std::span<std::byte> landing)
    : engine_(engine),
      worker_(engine.worker),
      cpu_(engine.worker.cpu()),
      number_(number),
      reads_(2 * group_max),
      writes_(group_max) {
  const std::size_t reply_b = message_max_b(engine.layout, group_max);
  const std::size_t landing_b = landing_bytes(engine.layout, 1);
  reply_bytes_.resize((reads_.size() + writes_.size()) * reply_b);
  std::span<std::byte> replies(reply_bytes_);
  for (auto* items : {&reads_, &writes_}) {
    for (Item& item : *items) {
      item.reply_buffer = replies.first(reply_b);
      replies = replies.subspan(reply_b);
    }
  }
  for (std::size_t i = 0; i < group_max; ++i) reads_[i].landing = landing.data() + i * landing_b;
}

RampClient::Item& RampClient::add_item(std::vector<Item>& items, std::size_t& count, std::uint64_t key) {
  Item& item = items[count++];
  item.key = key;
  item.node = engine_.layout.server_of(key);
  item.writes = false;
  item.is_read = true;
  item.status = RampStatus::kFound;
  item.timestamp = item.last_commit = 0;
  item.metadata = item.value = {};
  return item;
}

void RampClient::begin(const KeyGroup& group) {
  reason_ = RampAbort::kNone;
  phase_ps_.fill(kNoPhase);
  phase_start_ps_ = cpu_.now_ps();
  memory_begin_ps_ = cpu_.memory_now_ps();
  read_count_ = write_count_ = 0;
  timestamp_ = 0;
  rounds_ = 0;
  in_place_ = in_place_accepted_ = 0;
  for (const std::uint64_t key : group.reads) add_item(reads_, read_count_, key);
  for (const std::uint64_t key : group.writes) add_item(writes_, write_count_, key);
}

Task<bool> RampClient::run(const KeyGroup& group, std::int64_t since_ps) {
  begin(group);
  bool committed = true;
  if (engine_.options.algorithm == RampAlgorithm::kS2pl) {
    auto running = run_locked(since_ps);
    committed = co_await running;
  } else {
    if (read_count_ > 0) {
      auto getting = get_all();
      committed = co_await getting;
      end_phase(RampPhase::kGet);
    }
    if (committed && write_count_ > 0) {
      auto putting = put_all();
      committed = co_await putting;
    }
  }
  if (engine_.record && committed) record();
  co_return committed;
}

void RampClient::end_phase(RampPhase phase) {
  const std::int64_t now_ps = cpu_.now_ps();
  std::int64_t& phase_ps = phase_ps_[static_cast<std::size_t>(phase)];
  phase_ps = std::max<std::int64_t>(phase_ps, 0) + now_ps - phase_start_ps_;
  phase_start_ps_ = now_ps;
}

void RampClient::record() {
  history_reads_.clear();
  history_writes_.clear();
  for (const Item& item : reads()) {
    if (!item.is_read) continue;
    history_reads_.push_back({item.key, item.timestamp, item.last_commit, value_digest(item.value)});
  }
  for (const Item& item : writes()) history_writes_.push_back({item.key, item.written_digest});
  history_.add(timestamp_, true, history_reads_, history_writes_, {memory_begin_ps_, cpu_.now_ps()});
}

}  // namespace verbtwin::protocols
