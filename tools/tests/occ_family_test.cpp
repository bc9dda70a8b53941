// Every OCC protocol on workloads of every kind, end to end and heavily contended: right with every seed, and each
// deliberate fault caught by the checks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "backend/user_error.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;

std::vector<std::string> family() {
  std::vector<std::string> names;
  for (const protocols::RegistryEntry& entry : protocols::occ_entries()) names.push_back(entry.name);
  return names;
}

/// What a protocol has for an option of a phase where a scenario says nothing.
std::string preset_of(const std::string& protocol, const std::string& phase, const std::string& option) {
  const auto entries = protocols::occ_entries();
  const auto entry = std::ranges::find(entries, protocol, &protocols::RegistryEntry::name);
  const json::json_pointer place("/properties/phases/properties/" + phase + "/properties/" + option +
                                 "/default");
  return entry->schema.at(place);
}

/// Those that fetch records by READ.
std::vector<std::string> readers() {
  std::vector<std::string> names = family();
  std::erase_if(names, [](const auto& name) { return preset_of(name, "execution", "primitive") == "rpc"; });
  return names;
}

/// Those that install values and free locks by WRITE.
std::vector<std::string> installers() {
  std::vector<std::string> names = family();
  std::erase_if(names,
                [](const auto& name) { return preset_of(name, "commit", "primitive") != "one_sided"; });
  return names;
}

/// 3 nodes x 2 threads x 4 coroutines on little data.
constexpr const char* kContended = R"({
  "name": "contended",
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "replicas": 3, "nics_per_node": 2},
  "protocol": {"name": "drtmh", "log": {"ring_kib": 16}},
  "workload": {"name": "object_store"},
  "run": {"warmup_us": 10, "measure_us": 300}
})";

struct Load {
  const char* name;
  Overrides overrides;
  bool only_reads = false;
};

/// Written out in full, since parameters of different workloads do not go together.
const std::vector<Load>& loads() {
  static const std::vector<Load> all = {
      {"object_store",
       {R"(workload={"name":"object_store","reads":6,"updates":3,"objects_per_thread":20,"value_b":40})",
        "run.measure_us=500"}},
      {"skewed_objects",
       {R"(workload={"name":"object_store","reads":6,"updates":3,"objects_per_thread":200,"theta":0.8})",
        "run.measure_us=500"}},
      {"own_mix",
       {R"(workload={"name":"smallbank","accounts_per_thread":100,)"
        R"("mix_percent":{"amalgamate":40,"balance":20,"send_payment":40}})"}},
      {"shared_queue_pairs",
       {R"(workload={"name":"object_store","reads":6,"updates":3,"objects_per_thread":20,"value_b":40})",
        "cluster.threads=4", "cluster.threads_per_queue_pair=2"}},
      {"one_completion_queue",
       {R"(workload={"name":"object_store","reads":6,"updates":3,"objects_per_thread":20,"value_b":40})",
        "run.measure_us=500", "cluster.completion_queues=worker"}},
      {"large_objects",  // torn READs
       {R"(workload={"name":"object_store","reads":4,"updates":2,"objects_per_thread":20,"value_b":400})",
        "protocol.log.ring_kib=64", "cluster.tear_ns=500"}},
      {"tpcc_new_order",
       {R"(workload={"name":"tpcc","warehouses_per_node":2,"items":100,"remote_share":0.3})",
        "run.measure_us=1600"}},
      {"tpcc_full",
       {R"(workload={"name":"tpcc","mix":"full","warehouses_per_node":2,"items":100,"remote_share":0.1})",
        "protocol.log.ring_kib=64", "run.measure_us=3000"}},
      {"tatp", {R"(workload={"name":"tatp","subscribers_per_node":10})"}},
      {"ycsb_a", {R"(workload={"name":"ycsb","mix":"A","records_per_node":20,"value_b":100})"}},
      {"tpce",
       {R"(workload={"name":"tpce_customer_position","customers_per_node":20})", "protocol.log.ring_kib=64",
        "run.measure_us=600"},
       true},
      {"ycsb_b", {R"(workload={"name":"ycsb","mix":"B","records_per_node":20,"value_b":100})"}},
      {"ycsb_c", {R"(workload={"name":"ycsb","mix":"C","records_per_node":20,"value_b":100})"}, true},
      {"ycsb_d", {R"(workload={"name":"ycsb","mix":"D","records_per_node":10,"value_b":100})"}},
      {"ycsb_e",
       {R"(workload={"name":"ycsb","mix":"E","records_per_node":20,"value_b":100})", "run.measure_us=3000",
        "protocol.location_cache.start=full"}},
      {"ycsb_f", {R"(workload={"name":"ycsb","mix":"F","records_per_node":20,"value_b":100})"}},
  };
  return all;
}

Overrides with(Overrides overrides, const std::string& protocol, int seed) {
  overrides.push_back("protocol.name=" + protocol);
  overrides.push_back(fmt::format("run.seed={}", seed));
  return overrides;
}

class Family : public testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  const std::string& protocol() const { return std::get<0>(GetParam()); }
  const Load& load() const { return loads()[std::get<1>(GetParam())]; }
  void expect_sound_for(int seeds) const {
    for (int seed = 1; seed <= seeds; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      expect_sound(try_run(kContended, with(load().overrides, protocol(), seed)), load().only_reads);
    }
  }
};

std::string identifier(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

TEST_P(Family, IsSoundUnderContention) {
  expect_sound_for(20);
}

/// ctest -L nightly.
TEST_P(Family, DISABLED_NightlyIsSoundUnderContention) {
  expect_sound_for(300);
}

INSTANTIATE_TEST_SUITE_P(All, Family,
                         testing::Combine(testing::ValuesIn(family()),
                                          testing::Range<std::size_t>(0, loads().size())),
                         [](const auto& test) {
                           return identifier(std::get<0>(test.param)) + "_" +
                                  loads()[std::get<1>(test.param)].name;
                         });

class FamilyFaults : public testing::TestWithParam<std::string> {
 protected:
  /// True if some seed's run is found wrong by the check called `check`.
  bool caught(bool protocols::OccOptions::Sabotage::*fault, const std::string& check,
              Overrides overrides = loads()[0].overrides, int seeds = 10) const {
    RunControl control;
    control.sabotage.*fault = true;
    for (int seed = 1; seed <= seeds; ++seed) {
      const json result = run(kContended, with(overrides, GetParam(), seed), control);
      for (const json& one : result.at("checks")) {
        if (one.at("name") == check && one.at("violations") > 0) return true;
      }
    }
    return false;
  }
};

using Sabotage = protocols::OccOptions::Sabotage;

TEST_P(FamilyFaults, LocksLeftOutAreCaught) {
  EXPECT_TRUE(caught(&Sabotage::skip_lock, "serializable"));
}

TEST_P(FamilyFaults, ChecksLeftOutAreCaught) {
  const Overrides reads_much = {
      R"(workload={"name":"object_store","reads":12,"updates":2,"objects_per_thread":10})",
      "run.measure_us=1000"};
  EXPECT_TRUE(caught(&Sabotage::skip_validation, "serializable", reads_much));
}

TEST_P(FamilyFaults, VersionsNotBumpedAreCaught) {
  EXPECT_TRUE(caught(&Sabotage::skip_version_bump, "final_state"));
}

TEST_P(FamilyFaults, LogsLeftOutAreCaught) {
  EXPECT_TRUE(caught(&Sabotage::skip_log, "backup_logs"));
}

/// Of records that the log's node does not back up: no backup's copy shows it.
TEST_P(FamilyFaults, WrongValuesInLogsAreCaught) {
  EXPECT_TRUE(caught(&Sabotage::garble_log, "backup_logs"));
}

/// A log is applied, or passed, while another has not got its entry yet: one log after another leaves time,
/// and long entries have logs reclaimed often.
TEST_P(FamilyFaults, LogsAppliedBeforeTheCommitIsCertainAreCaught) {
  const Overrides in_turn = {
      R"(workload={"name":"object_store","reads":6,"updates":3,"objects_per_thread":20,"value_b":400})",
      "cluster.threads=6", "cluster.coroutines=8", "run.measure_us=500",
      "protocol.phases.logging.outstanding=false"};
  EXPECT_TRUE(caught(&Sabotage::truncate_before_commit, "backup_logs", in_turn, 100));
}

TEST_P(FamilyFaults, CommitsBeforeTheyAreLoggedAreCaught) {
  EXPECT_TRUE(caught(&Sabotage::commit_before_logged, "backup_logs"));
}

/// Only those that log at the coordinator's replicas update backups themselves.
TEST_P(FamilyFaults, BackupUpdatesLeftOutAreCaught) {
  const bool at_coordinator = preset_of(GetParam(), "logging", "placement") == "coordinator";
  EXPECT_EQ(caught(&Sabotage::skip_backup_update, "backups"), at_coordinator);
}

class ReaderFaults : public FamilyFaults {};

TEST_P(ReaderFaults, AcceptedTornReadsAreCaught) {
  const Overrides two_lines = {
      R"(workload={"name":"object_store","reads":4,"updates":2,"objects_per_thread":4,"value_b":100})",
      "cluster.tear_ns=1000", "protocol.location_cache.start=full", "run.measure_us=1000"};
  EXPECT_TRUE(caught(&Sabotage::accept_torn, "serializable", two_lines, 200));
}

/// Backups learn of a commit after the primary has let go of it. A serial order may put whoever read such a
/// copy before it, but not where the commit had ended when the reader began.
TEST_P(ReaderFaults, StaleReadsAreCaught) {
  const Overrides one_record_each = {
      R"(workload={"name":"ycsb","mix":"A","records_per_node":20,"value_b":40})",
      "protocol.location_cache.start=full"};
  EXPECT_TRUE(caught(&Sabotage::read_backup, "serializable", one_record_each));
}

class InstallerFaults : public FamilyFaults {};

/// Between the two a lock, which is free, may be taken. A value of 800 B is long enough on its way for that.
TEST_P(InstallerFaults, LocksFreedBeforeTheValueAreCaught) {
  const Overrides long_values = {
      R"(workload={"name":"object_store","reads":4,"updates":2,"objects_per_thread":2,"value_b":800})",
      "cluster.replicas=1", "protocol.log.ring_kib=64", "protocol.phases.validation.lock=cas"};
  EXPECT_TRUE(caught(&Sabotage::unlock_first, "serializable", long_values, 50));
}

INSTANTIATE_TEST_SUITE_P(All, InstallerFaults, testing::ValuesIn(installers()),
                         [](const auto& test) { return identifier(test.param); });

INSTANTIATE_TEST_SUITE_P(All, ReaderFaults, testing::ValuesIn(readers()),
                         [](const auto& test) { return identifier(test.param); });

INSTANTIATE_TEST_SUITE_P(All, FamilyFaults, testing::ValuesIn(family()),
                         [](const auto& test) { return identifier(test.param); });

// --- Options ---

/// Values that the NIC reads from the transaction's buffers after its end do not hold up the next one.
/// A backup that stores an entry for an RPC fills a gap before a LOCK record that a WRITE has brought: it has
/// to look at its log again. With these seeds it slept, and the record stayed locked.
TEST(PolledLogs, AnEntryThatCameByRpcIsReadAtOnce) {
  constexpr const char* kFarm = R"({
    "name": "farm",
    "cluster": {"nodes": 4, "threads": 4, "coroutines": 20, "replicas": 2, "nics_per_node": 1, "nic": "connectx-5"},
    "protocol": {"name": "farm", "phases": {"logging": {"primitive": "rpc"}}},
    "workload": {"name": "tatp", "subscribers_per_node": 3000},
    "run": {"warmup_us": 10, "measure_us": 200}
  })";
  for (const char* seed : {"15", "25", "127"})
    EXPECT_EQ(violations(run(kFarm, {std::string("run.seed=") + seed})), 0U) << "seed " << seed;
}

TEST(PassiveAcknowledgement, PaysForLongValuesAsForThoseThatGoInline) {
  const auto committed = [](const char* value_b, const char* passive) {
    return run(R"({
      "cluster": {"nodes": 4, "threads": 2, "coroutines": 1},
      "protocol": {"name": "drtmh", "location_cache": {"start": "full"}},
      "workload": {"name": "ycsb", "mix": "F", "theta": 0},
      "run": {"warmup_us": 50, "measure_us": 300}
    })",
               {std::string("workload.value_b=") + value_b,
                std::string("protocol.phases.commit.passive_ack=") + passive})
        .at("committed")
        .get<double>();
  };
  for (const char* value_b : {"160", "1000"})
    EXPECT_GT(committed(value_b, "true"), 1.12 * committed(value_b, "false")) << value_b;
}

TEST(Truncation, EndsTransactionsWhereItSays) {
  for (const std::string& protocol : family()) {
    SCOPED_TRACE(protocol);
    const auto truncated = [&](const char* after) {
      return run(kContended, {"protocol.name=" + protocol, fmt::format("protocol.truncate_after={}", after),
                              R"(workload={"name":"object_store","reads":3,"updates":2})"});
    };
    const json execution = truncated("execution"), validation = truncated("validation"),
               unlogged = truncated("commit_without_logging"), whole = truncated("none");
    EXPECT_GT(execution.at("committed"), validation.at("committed"));
    // An ABORT costs what a COMMIT does: they come out alike, but for which transactions happen to meet.
    EXPECT_GE(1.05 * validation.at("committed").get<double>(), unlogged.at("committed").get<double>());
    EXPECT_GT(unlogged.at("committed"), whole.at("committed"));
    EXPECT_EQ(execution.at("phases").at("validation").at("mean_us"), 0);
    EXPECT_EQ(validation.at("phases").at("commit").at("mean_us"), 0);
    EXPECT_EQ(execution.at("checks").size(), 0U) << "nothing was committed that could be judged";
    EXPECT_EQ(unlogged.at("checks").size(), 3U) << "there are no logs to judge";
    EXPECT_EQ(violations(unlogged), 0U) << findings(unlogged);
  }
}

TEST(Truncation, LeavesNoLockBehind) {
  for (const std::string& protocol : family()) {
    // Of 120 objects each transaction would keep three.
    Overrides overrides = with(loads()[0].overrides, protocol, 1);
    overrides.insert(overrides.end(), {"protocol.truncate_after=validation", "run.measure_us=1500"});
    EXPECT_GT(run(kContended, overrides).at("committed"), 200) << protocol;
  }
}

/// What is set aside in logs and not used is given back, in logs that are small.
TEST(Truncation, FillsNoLog) {
  for (const std::string& protocol : family()) {
    for (const char* after : {"none", "execution", "validation", "commit_without_logging"}) {
      for (const bool conflicts_commit : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", protocol, after, conflicts_commit));
        Overrides overrides = with(loads()[0].overrides, protocol, 1);
        overrides.insert(overrides.end(),
                         {fmt::format("protocol.truncate_after={}", after),
                          fmt::format("protocol.artifact.conflicts_commit={}", conflicts_commit),
                          "protocol.log.ring_kib=4", "run.measure_us=1500"});
        const json result = try_run(kContended, overrides);
        ASSERT_FALSE(result.is_null());
        EXPECT_GT(result.at("committed"), 200);
      }
    }
  }
}

/// Logs as the program behind OSDI 2018 keeps them, and FaRM as it emulates it.
Overrides as_their_program(const std::string& protocol, int seed, bool passive_ack, std::size_t load = 0) {
  Overrides overrides = with(loads()[load].overrides, protocol, seed);
  overrides.insert(overrides.end(),
                   {"protocol.log.reclaim=each", "protocol.phases.logging.placement=backups_and_own",
                    fmt::format("protocol.phases.commit.passive_ack={}", passive_ack), "cluster.nodes=4",
                    "cluster.replicas=2"});
  if (protocol == "farm") {
    overrides.insert(overrides.end(),
                     {"protocol.phases.validation.lock=rpc", "protocol.phases.commit.primitive=rpc"});
  }
  return overrides;
}

TEST(ToldBackups, AreSoundUnderContention) {
  const auto whole = static_cast<std::size_t>(
      std::ranges::find(loads(), std::string("tpcc_full"), &Load::name) - loads().begin());
  for (const char* protocol : {"drtmh", "drtmr", "farm", "fasst-occ"}) {
    for (int seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", protocol, seed));
      expect_sound(try_run(kContended, as_their_program(protocol, seed, seed % 2 == 0)), false);
      if (seed <= 4)
        expect_sound(try_run(kContended, as_their_program(protocol, seed, seed % 2 == 0, whole)), false);
    }
  }
}

TEST(ToldBackups, FaultsOfLogsAreCaught) {
  for (const char* protocol : {"drtmh", "fasst-occ"}) {
    for (const auto fault : {&Sabotage::skip_log, &Sabotage::garble_log, &Sabotage::commit_before_logged}) {
      RunControl control;
      control.sabotage.*fault = true;
      std::uint64_t found = 0;
      for (int seed = 1; seed <= 10; ++seed) {
        const json result = run(kContended, as_their_program(protocol, seed, seed % 2 == 0), control);
        for (const json& check : result.at("checks")) {
          if (check.at("name") == "backup_logs") found += check.at("violations").get<std::uint64_t>();
        }
      }
      EXPECT_GT(found, 0U) << protocol;
    }
  }
}

TEST(Artifact, ConflictsThatCommitAreFoundWrong) {
  for (const std::string& protocol : family()) {
    Overrides overrides = with(loads()[0].overrides, protocol, 1);
    overrides.push_back("protocol.artifact.conflicts_commit=true");
    const json result = run(kContended, overrides);
    EXPECT_EQ(result.at("aborted_attempts"), 0) << protocol;
    EXPECT_GT(violations(result), 0U) << protocol;
  }
}

/// Their program has it where commits are WRITTEN.
TEST(Artifact, VersionsThatStayAreFoundWrong) {
  for (const std::string& protocol : family()) {
    Overrides overrides = with(loads()[0].overrides, protocol, 1);
    overrides.push_back("protocol.artifact.versions_stay=true");
    const json result = run(kContended, overrides);
    const json& commit = result.at("scenario").at("protocol").at("phases").at("commit");
    EXPECT_EQ(violations(result) > 0, commit.at("primitive") == "one_sided") << protocol;
  }
}

TEST(Combinations, ThatCannotBeRightAreRefusedWithTheReason) {
  struct Wrong {
    Overrides overrides;
    const char* pointer;
    const char* says;
  };
  const Wrong all[] = {
      {{"protocol.name=fasst", "protocol.phases.validation.lock=cas"},
       "/protocol/phases/validation/lock",
       "not atomic with each other"},
      {{"protocol.name=fasst", "protocol.phases.execution.primitive=one_sided"},
       "/protocol/phases/execution/lock",
       "a READ cannot lock"},
      {{"protocol.name=farm", "protocol.phases.commit.primitive=one_sided"},
       "/protocol/phases/commit/primitive",
       "until these are told to install them"},
      {{"protocol.name=drtmh", "protocol.phases.commit.primitive=log_record"},
       "/protocol/phases/commit/primitive",
       "with this validation.lock there are none"},
      {{"workload.reads=2", "workload.updates=3"}, "/workload/updates", "0 to 2"},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.pointer);
    try {
      run(kContended, wrong.overrides);
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.pointer(), wrong.pointer);
      EXPECT_THAT(error.what(), HasSubstr(wrong.says));
    }
  }
}

/// A delivery writes a cursor, a new-order, an order, a customer and 5 to 15 lines in each of ten districts:
/// more than an entry of a log holds.
TEST(Tpcc, ADeliveryTakesTheOldestOrderOfAllTenDistricts) {
  const json result =
      run(kContended, {R"(workload={"name":"tpcc","mix":"full","warehouses_per_node":2,"items":100})",
                       "protocol.log.ring_kib=64", "run.measure_us=3000", "cluster.coroutines=1"});
  EXPECT_EQ(violations(result), 0U) << findings(result);
  const json& deliveries = result.at("transactions").at("delivery");
  EXPECT_GT(deliveries.at("committed"), 3);
  EXPECT_GT(
      deliveries.at("phases").at("logging").at("mean_us"),
      1.4 * result.at("transactions").at("payment").at("phases").at("logging").at("mean_us").get<double>());
}

/// Over enough subscribers, each transaction finds its rows as often as the population rules say. For
/// GET_NEW_DESTINATION they say 20.4 %: a facility exists (.625) and is active (.85), and a forwarding that
/// began by one of three start times, each there with probability .5, ends behind a uniform hour of 24
/// (.385).
TEST(Tatp, TransactionsSucceedAsOftenAsItsRulesSay) {
  const json result = run(kContended, {R"(workload={"name":"tatp","subscribers_per_node":100000})",
                                       "protocol.location_cache.start=full", "run.measure_us=8000"});
  const auto share = [&](const char* name) {
    const json& type = result.at("transactions").at(name);
    const double committed = type.at("committed").get<double>();
    return committed / (committed + type.at("user_aborts").get<double>());
  };
  EXPECT_EQ(share("get_subscriber_data"), 1);
  EXPECT_EQ(share("update_location"), 1);
  EXPECT_NEAR(share("get_access_data"), 0.625, 0.02);
  EXPECT_NEAR(share("update_subscriber_data"), 0.625, 0.06);
  EXPECT_NEAR(share("get_new_destination"), 0.20, 0.015);
  EXPECT_NEAR(share("insert_call_forwarding"), 0.3125, 0.06);
  EXPECT_NEAR(share("delete_call_forwarding"), 0.3125, 0.06);
}

/// Five accounts of ten holdings, two thirds of whose prices are another node's: a READ each, and one to
/// check.
TEST(Tpce, ReadsAndChecksThePricesOfOtherNodes) {
  const json result =
      run(kContended,
          {R"(workload={"name":"tpce_customer_position","customers_per_node":5000})", "protocol.name=drtmr",
           "protocol.location_cache.start=full", "protocol.log.ring_kib=64", "run.measure_us=2000"});
  const double reads = result.at("verbs").at("read").at("count").get<double>();
  EXPECT_NEAR(reads / result.at("committed").get<double>(), 2 * 50 * 2.0 / 3, 4);
}

/// Of the latest that its worker has inserted: some of these are still on their way.
TEST(Ycsb, ReadsOfTheLatestFindIt) {
  for (const char* protocol : {"drtmh", "fasst"}) {
    const json result =
        run(kContended, with({R"(workload={"name":"ycsb","mix":"D","records_per_node":10000,"value_b":100})",
                              "protocol.location_cache.start=full", "run.measure_us=3000"},
                             protocol, 1));
    EXPECT_EQ(violations(result), 0U) << findings(result);
    const json& reads = result.at("transactions").at("read");
    EXPECT_GT(reads.at("committed"), 5000) << protocol;
    EXPECT_LT(reads.at("user_aborts").get<double>(), 0.02 * reads.at("committed").get<double>()) << protocol;
  }
}

TEST(Lazy, DataThatIsNotTouchedCostsNothing) {
  // 48 warehouses: 4.8 M stock rows, 7.9 M places for orders, in a fraction of a second.
  const json result = run(kContended, {R"(workload={"name":"tpcc","warehouses_per_node":16})",
                                       "protocol.log.ring_kib=64", "run.measure_us=100"});
  EXPECT_EQ(violations(result), 0U) << findings(result);
  EXPECT_LT(result.at("simulator").at("setup_s"), 3.0);
}

}  // namespace
}  // namespace verbtwin::tools
