// Properties of the serializability check on generated histories.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "protocols/checks/histories_for_test.hpp"
#include "protocols/checks/serializability.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::uint64_t kRecords = 6;

RecordId record(std::uint64_t i) {
  return RecordId::make(static_cast<std::uint32_t>(i % 2), static_cast<std::uint32_t>(i / 2), i * 1000);
}

/// Uniform, whatever rapidcheck's current size: histories are small anyhow, and mutations need something to
/// mutate.
int below(int bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, bound));
}

/// Random transactions executed one after another.
std::vector<TestTransaction> execute_serially(int count) {
  std::map<std::uint64_t, std::uint64_t> version;
  std::vector<TestTransaction> transactions(static_cast<std::size_t>(count));
  for (TestTransaction& transaction : transactions) {
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      const int what = below(6);  // read, blind write, update, or (more often) nothing
      if (what == 0 || what == 2) transaction.reads.push_back(at(record(i), version[i]));
      if (what == 1 || what == 2) transaction.writes.push_back(at(record(i), ++version[i]));
    }
  }
  return transactions;
}

CheckReport check(const std::vector<TestTransaction>& transactions) {
  TestHistories histories;
  for (const TestTransaction& transaction : transactions) histories.add(transaction);
  return check_serializable(histories.view(), initial_digest_of);
}

/// Every access that `wanted(transaction, access)` accepts.
template <typename Wanted>
std::vector<Access*> all(std::vector<TestTransaction>& transactions,
                         std::vector<Access> TestTransaction::*side, const Wanted& wanted) {
  std::vector<Access*> found;
  for (TestTransaction& transaction : transactions) {
    for (Access& access : transaction.*side) {
      if (wanted(transaction, access)) found.push_back(&access);
    }
  }
  return found;
}

Access* any_of(const std::vector<Access*>& accesses) {
  RC_PRE(!accesses.empty());
  return accesses[static_cast<std::size_t>(below(static_cast<int>(accesses.size())))];
}

constexpr auto kAny = [](const TestTransaction&, const Access&) { return true; };

RC_GTEST_PROP(SerializableProperty, AcceptsSerialExecutionsHoweverDealt, ()) {
  const std::vector<TestTransaction> transactions = execute_serially(below(40));
  const std::size_t workers = static_cast<std::size_t>(1 + below(5));
  std::vector<std::size_t> order(transactions.size());
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }
  TestHistories histories(workers);
  for (const std::size_t i : order) {
    histories.add(transactions[i], static_cast<std::size_t>(below(static_cast<int>(workers))));
  }
  const CheckReport report = check_serializable(histories.view(), initial_digest_of);
  RC_ASSERT(report.violations == 0u);
  RC_ASSERT(report.transactions == transactions.size());
}

RC_GTEST_PROP(SerializableProperty, ReportsASkippedBump, ()) {
  std::vector<TestTransaction> transactions = execute_serially(1 + below(30));
  --any_of(all(transactions, &TestTransaction::writes, kAny))->version;
  RC_ASSERT(check(transactions).violations > 0u);
}

RC_GTEST_PROP(SerializableProperty, ReportsAReadOfAnotherVersion, ()) {
  std::vector<TestTransaction> transactions = execute_serially(1 + below(30));
  Access& read = *any_of(all(transactions, &TestTransaction::reads, kAny));
  const auto version = static_cast<std::uint64_t>(below(35));
  RC_PRE(version != read.version);
  read.version = version;  // the value stays that of the version it had
  RC_ASSERT(check(transactions).violations > 0u);
}

RC_GTEST_PROP(SerializableProperty, ReportsAFlippedDigestOfARead, ()) {
  std::vector<TestTransaction> transactions = execute_serially(1 + below(30));
  any_of(all(transactions, &TestTransaction::reads, kAny))->digest ^= 1ULL << below(64);
  RC_ASSERT(check(transactions).violations > 0u);
}

RC_GTEST_PROP(SerializableProperty, ReportsAFlippedDigestOfAWriteThatWasRead, ()) {
  std::vector<TestTransaction> transactions = execute_serially(1 + below(30));
  std::set<std::pair<RecordId, std::uint64_t>> seen;
  for (const TestTransaction& transaction : transactions) {
    for (const Access& read : transaction.reads) seen.emplace(read.record, read.version);
  }
  const auto was_read = [&](const TestTransaction&, const Access& write) {
    return seen.contains({write.record, write.version});
  };
  any_of(all(transactions, &TestTransaction::writes, was_read))->digest ^= 1ULL << below(64);
  RC_ASSERT(check(transactions).violations > 0u);
}

RC_GTEST_PROP(SerializableProperty, ReportsTwoSwappedUpdates, ()) {
  std::vector<TestTransaction> transactions = execute_serially(1 + below(30));
  const auto updates = [](const TestTransaction& transaction, const Access& write) {
    return std::ranges::count(transaction.reads, write.record, &Access::record) > 0;
  };
  Access& one = *any_of(all(transactions, &TestTransaction::writes, updates));
  const auto other_of_same = [&](const TestTransaction&, const Access& write) {
    return write.record == one.record && write.version != one.version;
  };
  std::swap(one, *any_of(all(transactions, &TestTransaction::writes, other_of_same)));
  RC_ASSERT(check(transactions).violations > 0u);
}

RC_GTEST_PROP(SerializableProperty, ReportsALostWriteThatWasFollowed, ()) {
  std::vector<TestTransaction> transactions = execute_serially(2 + below(30));
  const auto followed = [&](const TestTransaction&, const Access& write) {
    const auto later = [&](const TestTransaction&, const Access& other) {
      return other.record == write.record && other.version > write.version;
    };
    return !all(transactions, &TestTransaction::writes, later).empty();
  };
  const Access lost = *any_of(all(transactions, &TestTransaction::writes, followed));
  for (TestTransaction& transaction : transactions) {
    std::erase_if(transaction.writes,
                  [&](const Access& w) { return w.record == lost.record && w.version == lost.version; });
  }
  RC_ASSERT(check(transactions).violations > 0u);
}

/// Whether executing the transactions in this order reads and installs exactly the recorded versions.
bool replays(const std::vector<TestTransaction>& transactions, const std::vector<std::size_t>& order) {
  std::map<RecordId, std::uint64_t> version;
  for (const std::size_t i : order) {
    for (const Access& read : transactions[i].reads) {
      if (version[read.record] != read.version) return false;
    }
    for (const Access& write : transactions[i].writes) {
      if (++version[write.record] != write.version) return false;
    }
  }
  return true;
}

/// Whether none comes behind one that began after it had ended, where both are on one of the clocks that so
/// many transactions in a row share.
bool agrees_with_clocks(const std::vector<TestTransaction>& transactions,
                        const std::vector<std::size_t>& order, std::size_t per_clock) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (order[i] / per_clock != order[j] / per_clock) continue;
      if (transactions[order[j]].when.end_ps < transactions[order[i]].when.begin_ps) return false;
    }
  }
  return true;
}

bool some_order_replays(const std::vector<TestTransaction>& transactions, std::size_t per_clock = 100) {
  std::vector<std::size_t> order(transactions.size());
  std::iota(order.begin(), order.end(), 0u);
  do {
    if (replays(transactions, order) && agrees_with_clocks(transactions, order, per_clock)) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

/// Transactions that read any version there is and install versions in any order: about half are
/// serializable.
std::vector<TestTransaction> execute_anyhow() {
  std::vector<TestTransaction> transactions(static_cast<std::size_t>(2 + below(4)));
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::vector<TestTransaction*> writers;
    for (TestTransaction& transaction : transactions) {
      if (below(3) == 0)
        writers.insert(writers.begin() + below(static_cast<int>(writers.size()) + 1), &transaction);
    }
    for (std::size_t v = 0; v < writers.size(); ++v) writers[v]->writes.push_back(at(record(i), v + 1));
    for (TestTransaction& transaction : transactions) {
      if (below(3) > 0) continue;
      const auto version = static_cast<std::uint64_t>(below(static_cast<int>(writers.size()) + 1));
      transaction.reads.push_back(at(record(i), version));
    }
  }
  return transactions;
}

RC_GTEST_PROP(SerializableProperty, AgreesWithTryingAllOrders, ()) {
  for (int i = 0; i < 20; ++i) {
    const std::vector<TestTransaction> transactions = execute_anyhow();
    const bool serializable = some_order_replays(transactions);
    RC_ASSERT((check(transactions).violations == 0u) == serializable);
  }
}

RC_GTEST_PROP(SerializableProperty, AgreesWithTryingAllOrdersInTime, ()) {
  for (int i = 0; i < 20; ++i) {
    std::vector<TestTransaction> transactions = execute_anyhow();
    for (TestTransaction& transaction : transactions) {
      transaction.when.begin_ps = below(10);
      transaction.when.end_ps = transaction.when.begin_ps + below(5);
    }
    TestHistories histories(transactions.size());
    for (std::size_t t = 0; t < transactions.size(); ++t) histories.add(transactions[t], t);
    const CheckReport one_clock = check_serializable(histories.view(), initial_digest_of);
    RC_ASSERT((one_clock.violations == 0u) == some_order_replays(transactions));

    const std::size_t half = (transactions.size() + 1) / 2;
    const CheckReport two_clocks = check_serializable(histories.view(), initial_digest_of, half);
    RC_ASSERT((two_clocks.violations == 0u) == some_order_replays(transactions, half));
  }
}

}  // namespace
}  // namespace verbtwin::protocols
