#include "protocols/checks/read_atomic.hpp"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "protocols/checks/ramp_transactions.hpp"
#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {
namespace {

using Transaction = RampTransactions::Transaction;

/// Timestamps agree in most of their bits, which the map must not take for its hash.
struct Spread {
  std::size_t operator()(std::uint64_t x) const { return spread(x); }
};
using Numbers = tsl::robin_map<std::uint64_t, std::uint64_t, Spread>;

std::string version(std::uint64_t key, std::uint64_t timestamp) {
  return fmt::format("{}@{}", key, timestamp);
}

/// Who wrote under which timestamp.
class Writers {
 public:
  Writers(const RampTransactions& transactions, Findings& findings) {
    for (std::uint32_t number = 0; number < transactions.count(); ++number) {
      if (transactions[number].reads_only()) continue;
      const std::uint64_t timestamp = transactions[number].timestamp;
      if (timestamp == 0) {
        findings.add("wrote under the timestamp of initial values",
                     [&] { return transactions.name(number); });
        continue;
      }
      const auto entry = writers_.emplace(timestamp, number);
      if (entry.second) continue;
      findings.add("timestamp given twice", [&] {
        return fmt::format("{} and {} wrote under {}", transactions.name(entry.first->second),
                           transactions.name(number), timestamp);
      });
    }
  }

  std::uint32_t of(std::uint64_t timestamp) const {
    const auto found = writers_.find(timestamp);
    return found == writers_.end() ? kNoTransaction : found->second;
  }

 private:
  tsl::robin_map<std::uint64_t, std::uint32_t, Spread> writers_;
};

/// Judges one transaction's reads after the other.
class ReadJudge {
 public:
  ReadJudge(const RampTransactions& transactions, const Writers& known_writers,
            const InitialKeyDigest& initial_digest, Findings& findings)
      : transactions_(transactions),
        known_writers_(known_writers),
        initial_digest_(initial_digest),
        findings_(findings) {}

  void judge(std::uint32_t number) {
    reader_ = number;
    writers_.clear();
    for (const RampRead& read : transactions_[number].reads) {
      if (read.timestamp == 0) {
        judge_initial(read);
      } else {
        judge_written(read);
      }
    }
    judge_fractures();
  }

 private:
  std::string reader() const { return transactions_.name(reader_); }
  void judge_initial(const RampRead& read);
  void judge_written(const RampRead& read);
  void judge_fractures();

  const RampTransactions& transactions_;
  const Writers& known_writers_;
  const InitialKeyDigest& initial_digest_;
  Findings& findings_;
  Numbers initial_;  // key: what its first reader saw
  std::uint32_t reader_ = 0;
  std::vector<std::uint32_t> writers_;  // of what the transaction read
};

void ReadJudge::judge_initial(const RampRead& read) {
  const std::uint64_t expected =
      initial_digest_ ? initial_digest_(read.key) : initial_.emplace(read.key, read.digest).first->second;
  if (read.digest == expected) return;
  findings_.add("read differs from the initial value", [&] {
    return fmt::format("{} read {} as {:016x}, not {:016x}", reader(), version(read.key, 0), read.digest,
                       expected);
  });
}

void ReadJudge::judge_written(const RampRead& read) {
  const std::uint32_t number = known_writers_.of(read.timestamp);
  const auto says = [&](std::string_view what) {
    return fmt::format("{} read {}{}", reader(), version(read.key, read.timestamp), what);
  };
  if (number == kNoTransaction) {
    findings_.add("read of a version nobody committed", [&] { return says(""); });
    return;
  }
  const Transaction& writer = transactions_[number];
  if (!writer.committed) {
    findings_.add("read of an aborted version",
                  [&] { return says(", written by " + transactions_.name(number)); });
    return;
  }
  const auto written = of_key(writer.writes, read.key);
  if (written.empty()) {
    findings_.add("read of a version its transaction did not write",
                  [&] { return says(", the timestamp of " + transactions_.name(number)); });
    return;
  }
  writers_.push_back(number);
  if (written.front().digest == read.digest) return;
  findings_.add("read differs from what was written", [&] {
    return says(fmt::format(" as {:016x}, {} wrote {:016x}", read.digest, transactions_.name(number),
                            written.front().digest));
  });
}

void ReadJudge::judge_fractures() {
  const std::span<const RampRead> reads = transactions_[reader_].reads;
  if (reads.size() < 2) return;
  std::ranges::sort(writers_);
  writers_.erase(std::unique(writers_.begin(), writers_.end()), writers_.end());
  for (const std::uint32_t number : writers_) {
    const Transaction& writer = transactions_[number];
    for (const RampWrite& write : writer.writes) {
      for (const RampRead& read : of_key(reads, write.key)) {
        if (read.timestamp >= writer.timestamp) continue;
        findings_.add("fractured read", [&] {
          return fmt::format("{} read what {} wrote under {}, but {}", reader(), transactions_.name(number),
                             writer.timestamp, version(read.key, read.timestamp));
        });
      }
    }
  }
}

/// One client's transactions in its order: lastCommit never goes down.
void judge_client(const RampTransactions& transactions, std::uint32_t begin, std::uint32_t end,
                  Findings& findings) {
  Numbers known;  // key: the newest version known to be committed
  for (std::uint32_t number = begin; number < end; ++number) {
    const Transaction& transaction = transactions[number];
    if (!transaction.committed) continue;
    for (const RampRead& read : transaction.reads) {
      if (read.timestamp < read.last_commit) {
        findings.add("read older than what is committed", [&] {
          return fmt::format("{} read {}, its server named {}", transactions.name(number),
                             version(read.key, read.timestamp), version(read.key, read.last_commit));
        });
      }
      std::uint64_t& newest = known[read.key];
      if (read.last_commit < newest) {
        findings.add("client went back", [&] {
          return fmt::format("{} found {}, having seen or written {}", transactions.name(number),
                             version(read.key, read.last_commit), version(read.key, newest));
        });
      }
      newest = std::max(newest, read.last_commit);
    }
    for (const RampWrite& write : transaction.writes) {
      std::uint64_t& newest = known[write.key];
      newest = std::max(newest, transaction.timestamp);
    }
  }
}

}  // namespace

CheckReport check_read_atomic(RampHistories histories, const InitialKeyDigest& initial_digest) {
  Findings findings;
  const RampTransactions transactions(histories);
  const Writers writers(transactions, findings);
  ReadJudge judge(transactions, writers, initial_digest, findings);
  std::uint64_t committed = 0;
  for (std::uint32_t number = 0; number < transactions.count(); ++number) {
    if (!transactions[number].committed) continue;
    ++committed;
    judge.judge(number);
  }
  for (std::size_t client = 0; client < histories.size(); ++client) {
    const std::uint32_t begin = transactions.first_of(client);
    judge_client(transactions, begin, begin + static_cast<std::uint32_t>(histories[client]->size()),
                 findings);
  }
  CheckReport report = findings.report("read-atomic", committed);
  report.allowed = {{"lost_updates", count_lost_updates(transactions)},
                    {"write_skews", count_write_skews(transactions)}};
  return report;
}

std::vector<History> number_versions(RampHistories histories) {
  const RampTransactions transactions(histories);
  const VersionOrder order(transactions);
  std::vector<History> numbered(histories.size());
  std::vector<Access> reads, writes;
  for (std::size_t client = 0; client < histories.size(); ++client) {
    for (std::size_t i = 0; i < histories[client]->size(); ++i) {
      const Transaction transaction = (*histories[client])[i];
      if (!transaction.committed) continue;
      reads.clear();
      writes.clear();
      for (const RampRead& read : transaction.reads) {
        reads.push_back({{read.key}, order.rank(read.key, read.timestamp), read.digest});
      }
      for (const RampWrite& write : transaction.writes) {
        writes.push_back({{write.key}, order.rank(write.key, transaction.timestamp), write.digest});
      }
      numbered[client].commit(reads, writes, 0, transaction.when);
    }
  }
  return numbered;
}

}  // namespace verbtwin::protocols
