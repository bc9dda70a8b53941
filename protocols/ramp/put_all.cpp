// PUT_ALL: PREPARE gives every server its versions, COMMIT, once a server, makes them the last ones. Which
// other keys a version belongs to goes with it.
#include <algorithm>
#include <cstring>

#include "protocols/checks/history.hpp"
#include "protocols/ramp/bloom.hpp"
#include "protocols/ramp/client.hpp"

namespace verbtwin::protocols {

Task<bool> RampClient::put_all() {
  choose_timestamp();
  if (engine_.options.sabotage.commit_before_prepare) {
    auto committing = commit_all();
    co_await committing;
    auto preparing = prepare_all();
    co_return co_await preparing;
  }
  auto preparing = prepare_all();
  if (!co_await preparing) co_return false;
  end_phase(RampPhase::kPrepare);
  auto committing = commit_all();
  co_await committing;
  end_phase(RampPhase::kCommit);
  co_return true;
}

/// Above all that this client has seen, so that what it writes replaces what it read.
void RampClient::choose_timestamp() {
  ++sequence_;
  timestamp_ = sequence_ << kClientBits | number_;
}

std::uint32_t RampClient::metadata_bytes() const {
  const RampOptions& options = engine_.options;
  if (options.algorithm == RampAlgorithm::kFast && options.sabotage.drop_siblings) return 0;
  return options.metadata_b(write_count_);
}

void RampClient::fill_metadata(const Item& item, std::span<std::byte> metadata) const {
  const auto written = std::span(writes_).first(write_count_);
  if (engine_.options.algorithm == RampAlgorithm::kFast) {
    for (const Item& other : written) {
      if (other.key != item.key && metadata.size() >= sizeof(SiblingKey))
        metadata = put_head(metadata, static_cast<SiblingKey>(other.key));
    }
  } else {
    std::ranges::copy(filter_, metadata.begin());
  }
}

/// Of all that is written: every version carries the same.
void RampClient::make_filter() {
  const RampOptions& options = engine_.options;
  filter_.assign(metadata_bytes(), std::byte{0});
  if (options.sabotage.drop_siblings) return;
  for (const Item& item : writes()) bloom_add(filter_, options.bloom_bits, options.bloom_hashes, item.key);
  cpu_.charge_cycles(kBloomBitCycles * options.bloom_hashes * write_count_);
}

void RampClient::prepare(Item& item, WaitGroup& group) {
  const PrepareArguments arguments{item.key, timestamp_, metadata_bytes(), engine_.layout.value_b};
  item.reply = Reply(group, item.reply_buffer);
  const std::span<std::byte> body =
      put_head(to(item.node, engine_.puts)
                   .call(item.node, id(RampMessage::kPrepare),
                         sizeof arguments + arguments.metadata_b + arguments.value_b, item.reply),
               arguments);
  if (arguments.metadata_b > 0) fill_metadata(item, body.first(arguments.metadata_b));
  const std::span<std::byte> value = body.subspan(arguments.metadata_b);
  fill_value(item.key, timestamp_, value);
  if (engine_.record) item.written_digest = value_digest(value);
}

Task<bool> RampClient::prepare_all() {
  WaitGroup group(worker_);
  if (engine_.options.algorithm == RampAlgorithm::kHybrid) make_filter();
  for (Item& item : writes()) prepare(item, group);
  co_await group;
  if (group.status() != WcStatus::kSuccess) co_return fail(RampAbort::kVerbFailed);
  for (const Item& item : writes()) observe(head_of<PrepareReply>(item.reply.bytes()).last_commit);
  co_return true;
}

Task<void> RampClient::commit_all() {
  WaitGroup group(worker_);
  std::span<const Item> written = writes();
  if (engine_.options.sabotage.lose_commit && written.size() > 1) written = written.first(written.size() - 1);
  send_commits(RampMessage::kCommit, written, {}, group);
  co_await group;
}

/// One message to each server that has any of these keys.
void RampClient::send_commits(RampMessage message, std::span<const Item> written,
                              std::span<const Item> locked, WaitGroup& group) {
  acknowledgements_.resize(static_cast<std::size_t>(engine_.layout.servers));
  for (int node = 0; node < engine_.layout.servers; ++node) {
    const auto here = [&](const Item& item) { return item.node == node; };
    const auto written_here = static_cast<std::uint32_t>(std::ranges::count_if(written, here));
    const auto locked_here = static_cast<std::uint32_t>(std::ranges::count_if(locked, here));
    if (written_here + locked_here == 0) continue;
    const CommitArguments arguments{timestamp_, number_, written_here, locked_here};
    Reply& reply = acknowledgements_[static_cast<std::size_t>(node)] = Reply(group, {});
    const std::span<std::byte> keys =
        put_head(to(node, engine_.puts)
                     .call(node, id(message),
                           sizeof arguments + (written_here + locked_here) * sizeof(std::uint64_t), reply),
                 arguments);
    std::size_t next = 0;
    for (const auto& items : {written, locked}) {
      for (const Item& item : items) {
        if (here(item)) put_word(keys, next++, item.key);
      }
    }
  }
}

}  // namespace verbtwin::protocols
