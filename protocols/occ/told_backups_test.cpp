// Logs as the program of Wei et al. (OSDI 2018) keeps them: each transaction tells the backups that its entry
// may be applied, and its entry also goes to the backups of the coordinator's own partition.
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "protocols/occ/database_for_test.hpp"
#include "protocols/occ/preset_for_test.hpp"

namespace verbtwin::protocols {
namespace {

OccOptions telling(const char* protocol, bool passive_ack, LogPlacement placement = LogPlacement::kBackups) {
  OccOptions options = preset(protocol);
  options.reclaim = Reclaim::kEach;
  options.commit.passive_ack = passive_ack;
  options.logging.placement = placement;
  return options;
}

struct Posted {
  std::array<int, kPhases> writes{}, packets{};
};

/// What any node posts, by the coordinator's phase.
Posted posted_by(Database& db, Attempt a) {
  Posted posted;
  const Transaction& tx = db.transaction(0);
  db.fabric().on_post = [&](const SendWr& wr) {
    const auto phase = static_cast<std::size_t>(tx.phase());
    posted.writes[phase] += wr.opcode == Opcode::kRdmaWrite;
    posted.packets[phase] += wr.opcode == Opcode::kSend;
  };
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  EXPECT_TRUE(a.committed);
  return posted;
}

int packets_of_commit(OccOptions options) {
  Database db(options);
  return posted_by(db, writing({small(2, 5)})).packets[static_cast<std::size_t>(Phase::kCommit)];
}

TEST(ToldBackups, AreCalledByEachTransactionAndAnswerWhereItsCommitIsWaitedFor) {
  EXPECT_EQ(packets_of_commit(preset("drtmh")), 0);
  EXPECT_EQ(packets_of_commit(telling("drtmh", true)), 1);
  EXPECT_EQ(packets_of_commit(telling("drtmh", false)), 2);
}

TEST(ToldBackups, ApplyTheEntryAtOnce) {
  const RecordId written = small(2, 5);
  const auto version_at_backup = [&](const OccOptions& options) {
    Database db(options);
    posted_by(db, writing({written}));
    return load_word(db.record(written, 1) + 8);
  };
  EXPECT_EQ(version_at_backup(preset("drtmh")), 0U) << "a log with one entry is left alone";
  for (const bool passive_ack : {false, true}) {
    EXPECT_EQ(version_at_backup(telling("drtmh", passive_ack)), 1U);
    EXPECT_EQ(version_at_backup(telling("fasst-occ", passive_ack)), 1U);
  }
}

/// The backup's answer is on the way of who waits for it, before the primary lets go of the lock.
TEST(ToldBackups, AreWaitedForBeforeTheCommitUnlessItIsPassive) {
  const auto is_over = [](bool passive_ack) {
    Database db(telling("drtmh", passive_ack));
    const RecordId written = small(2, 5);
    Attempt a = writing({written});
    db.node(0).worker.spawn(attempt(db.transaction(0), a));
    for (int round = 0; round < 2000; ++round) {
      for (const int node : {0, 1, 2})
        db.node(node).worker.step();  // its NIC alone takes the entry at node 3
    }
    const bool unlocked = load_word(db.record(written)) == 0;
    EXPECT_EQ(a.committed, unlocked);
    db.run();
    EXPECT_TRUE(a.committed);
    EXPECT_EQ(load_word(db.record(written)), 0U);
    return unlocked;
  };
  EXPECT_TRUE(is_over(true));
  EXPECT_FALSE(is_over(false));
}

/// Whoever waits for no answer asks now and then how far a log is.
TEST(ToldBackups, GiveTheRoomInTheirLogsBack) {
  for (const bool passive_ack : {false, true}) {
    Database db(telling("drtmh", passive_ack));
    const RecordId written = small(2, 5);
    constexpr std::uint64_t kTimes = 400;  // of 64 B: many laps of a ring of 2 KiB
    for (std::uint64_t i = 0; i < kTimes; ++i) {
      Attempt a = writing({written});
      db.node(0).worker.spawn(attempt(db.transaction(0), a));
      db.run();
      ASSERT_TRUE(a.committed);
    }
    EXPECT_EQ(load_word(db.record(written, 1) + 8), kTimes);
  }
}

TEST(ToldBackups, TakeAnEntryApartOnce) {
  Database db(telling("drtmh", true));
  CpuPrices prices;
  prices.cost_ps[static_cast<std::size_t>(Cost::kRpcReceive)] = 1;
  db.cpu(3).prices() = prices;
  const std::int64_t begin_ps = db.cpu(3).now_ps();
  posted_by(db, writing({small(2, 5)}));
  EXPECT_EQ(db.cpu(3).now_ps() - begin_ps, 1) << "with the call that brings it";
}

/// Replicas are two: each partition has one backup, and so has the coordinator's.
TEST(OwnBackups, GetTheEntriesOfTransactionsThatWriteElsewhere) {
  const auto logged = [](LogPlacement placement, std::vector<RecordId> records) {
    OccOptions options = preset("drtmh");
    options.logging.placement = placement;
    Database db(options);
    return posted_by(db, writing(std::move(records))).writes[static_cast<std::size_t>(Phase::kLogging)];
  };
  EXPECT_EQ(logged(LogPlacement::kBackups, {small(2, 5)}), 1);
  EXPECT_EQ(logged(LogPlacement::kBackupsAndOwn, {small(2, 5)}), 2);
  EXPECT_EQ(logged(LogPlacement::kBackupsAndOwn, {small(0, 5)}), 1) << "the same one";
  Database db(telling("drtmh", true, LogPlacement::kBackupsAndOwn));
  Attempt reader{.reads = {small(1, 4), small(2, 5)}, .writes = {}, .seen = {}};
  EXPECT_EQ(posted_by(db, reader).packets[static_cast<std::size_t>(Phase::kCommit)], 0) << "nothing to log";
}

TEST(ToldBackups, AreRefusedWhereOthersTellThem) {
  const auto refused = [](OccOptions options) {
    options.reclaim = Reclaim::kEach;
    try {
      refuse_wrong_combinations(options);
    } catch (const UserError& error) {
      return error.pointer();
    }
    return std::string();
  };
  EXPECT_EQ(refused(preset("drtmh")), "");
  EXPECT_EQ(refused(preset("farm")), "/protocol/log/reclaim");
  EXPECT_EQ(refused(preset("fasst")), "/protocol/log/reclaim");
  EXPECT_EQ(refused(preset("fasst-hybrid")), "/protocol/log/reclaim");
}

}  // namespace
}  // namespace verbtwin::protocols
