// Strict two-phase locking (Bernstein, Hadzilacos and Goodman, 1987, chapter 3): every key is locked before
// any is written and stays locked to the end; what is written goes by two-phase commit (Gray, 1978). The
// first phase brings the values, the second installs them and unlocks. Who only read just unlocks.
#include <algorithm>

#include "protocols/ramp/client.hpp"

namespace verbtwin::protocols {

Task<bool> RampClient::run_locked(std::int64_t since_ps) {
  auto locking = lock_all(since_ps);
  const bool locked = co_await locking;
  end_phase(RampPhase::kGet);
  WaitGroup releasing(worker_);
  if (!locked) {
    // Only what was granted: the rest is not this client's to release.
    const std::span<Item> asked = reads();
    const auto refused = std::stable_partition(
        asked.begin(), asked.end(), [](const Item& item) { return item.status == RampStatus::kFound; });
    send_commits(RampMessage::kRelease, {}, {asked.begin(), refused}, releasing);
    co_await releasing;
    co_return false;
  }
  if (write_count_ > 0) {
    choose_timestamp();
    auto preparing = prepare_all();
    if (!co_await preparing) co_return false;
    end_phase(RampPhase::kPrepare);
  }
  const std::span<Item> all = reads();
  const auto only_read =
      std::stable_partition(all.begin(), all.end(), [](const Item& item) { return item.writes; });
  send_commits(RampMessage::kRelease, writes(), {only_read, all.end()}, releasing);
  co_await releasing;
  end_phase(RampPhase::kCommit);
  co_return true;
}

/// One lock for each key that is read or written, with its value if it is read.
Task<bool> RampClient::lock_all(std::int64_t since_ps) {
  WaitGroup group(worker_);
  const std::size_t only_reads = read_count_;
  for (const Item& item : writes()) {
    const auto read = std::ranges::find(reads().first(only_reads), item.key, &Item::key);
    if (read != reads().first(only_reads).end()) {
      read->writes = true;
    } else {
      add_item(reads_, read_count_, item.key).writes = true;
    }
  }
  for (std::size_t i = 0; i < read_count_; ++i) {
    Item& item = reads_[i];
    item.reply = Reply(group, item.reply_buffer);
    item.is_read = i < only_reads;
    const LockArguments arguments{item.key, number_, static_cast<std::uint64_t>(since_ps), item.writes,
                                  item.is_read};
    put_head(
        to(item.node, engine_.gets).call(item.node, id(RampMessage::kLock), sizeof arguments, item.reply),
        arguments);
  }
  co_await group;
  bool locked = true;
  for (Item& item : reads()) {
    take_reply(item, true);
    locked = locked && item.status == RampStatus::kFound;
  }
  rounds_ = only_reads > 0 ? 1 : 0;
  co_return locked || fail(RampAbort::kLockRefused);
}

}  // namespace verbtwin::protocols
