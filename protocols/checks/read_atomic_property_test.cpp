// Properties of the read-atomic check on histories that a model of RAMP-Fast makes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "protocols/checks/ramp_histories_for_test.hpp"
#include "protocols/checks/read_atomic.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::uint64_t kKeys = 5;
constexpr std::size_t kClients = 4;

/// Uniform, whatever rapidcheck's current size.
std::uint64_t below(std::uint64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(0, bound));
}

struct TestTransaction {
  std::size_t client = 0;
  std::uint64_t timestamp = 0;
  std::vector<RampRead> reads;
  std::vector<RampWrite> writes;
  bool committed = true;
};
using TestRun = std::vector<TestTransaction>;

/// Clients that take turns step by step: one message to one key's server at a time.
class RampModel {
 public:
  explicit RampModel(bool second_round) : second_round_(second_round) {}

  TestRun run(std::uint64_t transactions) {
    std::vector<Client> clients(kClients);
    for (std::uint64_t begun = 0; begun < transactions || std::ranges::any_of(clients, &Client::busy);) {
      const std::size_t number = below(kClients);
      Client& client = clients[number];
      if (client.busy()) {
        step(client);
      } else if (begun < transactions) {
        begin(client, number);
        ++begun;
      }
    }
    return std::move(done_);
  }

 private:
  struct Key {
    std::map<std::uint64_t, std::set<std::uint64_t>> versions = {{0, {}}};  // timestamp: keys written with it
    std::uint64_t last_commit = 0;
  };
  struct Client {
    TestTransaction transaction;
    std::vector<std::uint64_t> keys;  // of the transaction
    std::size_t steps = 0, steps_done = 0;
    bool busy() const { return steps_done < steps; }
  };

  void begin(Client& client, std::size_t number) {
    client.transaction = {number, 0, {}, {}, true};
    client.keys.clear();
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      if (below(2) == 0) client.keys.push_back(key);
    }
    if (below(2) == 0 && !client.keys.empty()) client.transaction.timestamp = ++sequence_ * kClients + number;
    client.steps = 2 * client.keys.size();
    client.steps_done = 0;
  }

  void step(Client& client) {
    const std::uint64_t place = client.steps_done % client.keys.size(), key = client.keys[place];
    const bool first_round = client.steps_done++ < client.keys.size();
    TestTransaction& transaction = client.transaction;
    const std::uint64_t timestamp = transaction.timestamp;
    if (timestamp == 0) {
      read(transaction, key, first_round ? nullptr : &transaction.reads[place]);
    } else if (first_round) {
      transaction.writes.push_back({key, ramp_digest(key, timestamp)});
      keys_[key].versions[timestamp] = {client.keys.begin(), client.keys.end()};
    } else {
      keys_[key].last_commit = std::max(keys_[key].last_commit, timestamp);
    }
    if (!client.busy()) done_.push_back(transaction);
  }

  void read(TestTransaction& transaction, std::uint64_t key, RampRead* again) {
    if (again == nullptr) {
      const std::uint64_t last_commit = keys_[key].last_commit;
      transaction.reads.push_back(at_ramp(key, last_commit));
      return;
    }
    if (!second_round_) return;
    std::uint64_t needed = again->timestamp;
    for (const RampRead& other : transaction.reads) {
      const std::uint64_t first = other.last_commit;  // what the first round returned
      if (keys_[other.key].versions[first].contains(key)) needed = std::max(needed, first);
    }
    *again = at_ramp(key, needed, again->last_commit);
  }

  bool second_round_;
  std::map<std::uint64_t, Key> keys_;
  std::uint64_t sequence_ = 0;
  TestRun done_;
};

TestRun ramp_run(std::uint64_t transactions) {
  return RampModel(true).run(transactions);
}

CheckReport check(const TestRun& run) {
  TestRampHistories histories(kClients);
  for (const TestTransaction& one : run) {
    histories.add(one.timestamp, one.reads, one.writes, one.committed, one.client);
  }
  return check_read_atomic(histories.view(), initial_ramp_digest);
}

bool reports(const CheckReport& report, const std::string& kind) {
  return std::ranges::any_of(report.examples,
                             [&](const std::string& example) { return example.starts_with(kind); });
}

std::vector<TestTransaction*> that(TestRun& run, bool (*wanted)(const TestTransaction&)) {
  std::vector<TestTransaction*> found;
  for (TestTransaction& one : run) {
    if (wanted(one)) found.push_back(&one);
  }
  return found;
}

template <typename Item>
Item& any_of(std::vector<Item>& items) {
  RC_PRE(!items.empty());
  return items[below(items.size())];
}

/// Some read of a version that somebody wrote.
RampRead& any_written_read(TestRun& run) {
  std::vector<RampRead*> found;
  for (TestTransaction& one : run) {
    for (RampRead& read : one.reads) {
      if (read.timestamp != 0) found.push_back(&read);
    }
  }
  return *any_of(found);
}

TestTransaction& writer_of(TestRun& run, std::uint64_t timestamp) {
  return *std::ranges::find(run, timestamp, &TestTransaction::timestamp);
}

RC_GTEST_PROP(ReadAtomicProperty, AcceptsWhatRampFastDoes, ()) {
  const TestRun run = ramp_run(below(60));
  const CheckReport report = check(run);
  RC_ASSERT(report.violations == 0u);
  RC_ASSERT(report.transactions == run.size());
}

RC_GTEST_PROP(ReadAtomicProperty, CountsTheFracturesThatTheDefinitionHas, ()) {
  const TestRun run = RampModel(false).run(below(60));
  std::uint64_t fractures = 0;
  for (const TestTransaction& reader : run) {
    for (const TestTransaction& writer : run) {
      const auto wrote = [&](std::uint64_t key) {
        return std::ranges::count(writer.writes, key, &RampWrite::key) > 0;
      };
      const bool seen = std::ranges::any_of(
          reader.reads, [&](const RampRead& r) { return r.timestamp == writer.timestamp && wrote(r.key); });
      if (!seen) continue;
      fractures += static_cast<std::uint64_t>(std::ranges::count_if(
          reader.reads, [&](const RampRead& r) { return r.timestamp < writer.timestamp && wrote(r.key); }));
    }
  }
  RC_CLASSIFY(fractures > 0);
  RC_ASSERT(check(run).violations == fractures);
}

/// All but one of the versions that a transaction read of another: the one left is the version before it.
RC_GTEST_PROP(ReadAtomicProperty, ReportsAReadPutBackBehindItsSibling, ()) {
  TestRun run = ramp_run(20 + below(40));
  std::vector<std::pair<RampRead*, std::uint64_t>> older;  // a read, the version before the one it has
  for (TestTransaction& reader : run) {
    for (RampRead& read : reader.reads) {
      for (const RampRead& sibling : reader.reads) {
        if (sibling.key == read.key || sibling.timestamp != read.timestamp || read.timestamp == 0) continue;
        older.emplace_back(&read, 0);
      }
    }
  }
  auto& [read, before] = any_of(older);
  for (const TestTransaction& writer : run) {
    const bool wrote = std::ranges::count(writer.writes, read->key, &RampWrite::key) > 0;
    if (wrote && writer.timestamp < read->timestamp) before = std::max(before, writer.timestamp);
  }
  *read = at_ramp(read->key, before, std::min(read->last_commit, before));
  RC_ASSERT(reports(check(run), "fractured read"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAVersionThatNobodyCommitted, ()) {
  TestRun run = ramp_run(1 + below(60));
  RampRead& read = any_written_read(run);
  read.timestamp += 1'000'000;
  RC_ASSERT(reports(check(run), "read of a version nobody committed"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAnAbortedVersion, ()) {
  TestRun run = ramp_run(1 + below(60));
  writer_of(run, any_written_read(run).timestamp).committed = false;
  RC_ASSERT(reports(check(run), "read of an aborted version"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAVersionThatItsTransactionDidNotWrite, ()) {
  TestRun run = ramp_run(1 + below(60));
  const RampRead read = any_written_read(run);
  std::erase_if(writer_of(run, read.timestamp).writes, [&](const RampWrite& w) { return w.key == read.key; });
  // The whole transaction may be gone by this: then nobody wrote under its timestamp.
  RC_ASSERT(check(run).violations > 0u);
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAFlippedDigestOfARead, ()) {
  TestRun run = ramp_run(1 + below(60));
  std::vector<TestTransaction*> readers =
      that(run, [](const TestTransaction& t) { return !t.reads.empty(); });
  any_of(any_of(readers)->reads).digest ^= 1ULL << below(64);
  RC_ASSERT(check(run).violations == 1u);
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAFlippedDigestOfAWriteThatWasRead, ()) {
  TestRun run = ramp_run(1 + below(60));
  const RampRead read = any_written_read(run);
  std::vector<RampWrite>& writes = writer_of(run, read.timestamp).writes;
  std::ranges::find(writes, read.key, &RampWrite::key)->digest ^= 1ULL << below(64);
  RC_ASSERT(reports(check(run), "read differs from what was written"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsATimestampGivenTwice, ()) {
  TestRun run = ramp_run(2 + below(60));
  std::vector<TestTransaction*> writers =
      that(run, [](const TestTransaction& t) { return !t.writes.empty(); });
  TestTransaction& one = *any_of(writers);
  const TestTransaction& other = *any_of(writers);
  RC_PRE(one.timestamp != other.timestamp);
  one.timestamp = other.timestamp;
  RC_ASSERT(reports(check(run), "timestamp given twice"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAClientThatGoesBack, ()) {
  TestRun run = ramp_run(20 + below(40));
  std::vector<std::pair<RampRead*, RampRead*>> grown;
  for (auto later = run.begin(); later != run.end(); ++later) {
    for (auto earlier = run.begin(); earlier != later; ++earlier) {
      if (earlier->client != later->client) continue;
      for (RampRead& before : earlier->reads) {
        for (RampRead& after : later->reads) {
          if (before.key == after.key && before.last_commit < after.last_commit)
            grown.emplace_back(&before, &after);
        }
      }
    }
  }
  const auto [before, after] = any_of(grown);
  std::swap(*before, *after);
  RC_ASSERT(reports(check(run), "client went back"));
}

RC_GTEST_PROP(ReadAtomicProperty, ReportsAWriteThatItsClientDoesNotSee, ()) {
  TestRun run = ramp_run(20 + below(40));
  std::vector<RampRead*> own;  // a read behind a write of its client
  for (auto reader = run.begin(); reader != run.end(); ++reader) {
    for (RampRead& read : reader->reads) {
      const bool wrote = std::any_of(run.begin(), reader, [&](const TestTransaction& writer) {
        return writer.client == reader->client &&
               std::ranges::count(writer.writes, read.key, &RampWrite::key) > 0;
      });
      if (wrote) own.push_back(&read);
    }
  }
  RampRead& read = *any_of(own);
  read = at_ramp(read.key, 0);
  RC_ASSERT(reports(check(run), "client went back"));
}

}  // namespace
}  // namespace verbtwin::protocols
