// Whole systems on the fake backend, their workers stepped in random order: far more interleavings of the
// protocol's steps than a simulated clock gives, under every combination of options.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <pcg_random.hpp>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/fake_backend_for_test.hpp"
#include "protocols/system.hpp"

namespace verbtwin::protocols {
namespace {

struct Outcomes {
  std::uint64_t committed = 0, aborted = 0, violations = 0;
  std::size_t unfinished = 0;
  std::string findings;
};

struct Plan {
  ClusterShape shape{.nodes = 3, .threads = 2, .nics_per_node = 2};
  int coroutines = 3;
  int replicas = 3;
  std::uint64_t accounts_per_thread = 5;
  std::int64_t end_ps = 40'000;  // a fake picosecond is one thing done by anybody
  std::uint64_t seed = 1;
  OccOptions options;
  nlohmann::json workload = {};  // instead of SmallBank
  bool leave_locks = false;      // on every record of node 0, for the checks to find
};

/// A random worker does a random number of steps, again and again.
class Interleaved {
 public:
  explicit Interleaved(const Plan& plan)
      : plan_(plan),
        system_(parameters(plan), workload(plan)),
        cluster_(plan.shape, system_.node_memory_bytes()) {
    for (int node = 0; node < plan.shape.nodes; ++node) {
      std::vector<WorkerPort*> ports;
      for (int thread = 0; thread < plan.shape.threads; ++thread) {
        ports.push_back(&cluster_.port(node, thread));
        auto& cpu = static_cast<FakeCpu&>(ports.back()->cpu());
        cpu.share_clock(clock_ps_);
        cpu.per_look_ps = 1;  // who backs off waits for it
      }
      nodes_.push_back(std::make_unique<NodeProgram>(system_, node, cluster_.memory(node), ports));
    }
    for (auto& node : nodes_) {
      node->start(window_, stop_);
      for (int thread = 0; thread < plan.shape.threads; ++thread) workers_.push_back(&node->worker(thread));
    }
  }

  Outcomes run() {
    pcg32 random(plan_.seed, 99);
    const auto workers = static_cast<std::uint32_t>(workers_.size());
    for (int rounds = 0; unfinished() > 0 && rounds < 1'000'000; ++rounds) {
      Steppable& worker = *workers_[random(workers)];
      for (std::uint32_t steps = 1 + random(4); steps > 0; --steps) worker.step();
    }
    for (int rounds = 0; rounds < 500; ++rounds) {  // passive requests are still on their way
      for (Steppable* worker : workers_) worker->step();
    }
    Outcomes outcomes;
    outcomes.unfinished = unfinished();
    for (auto& node : nodes_) {
      outcomes.committed += node->finished_ever();
      for (int thread = 0; thread < plan_.shape.threads; ++thread) {
        const auto& aborts = node->statistics(thread).aborts;
        outcomes.aborted = std::accumulate(aborts.begin(), aborts.end(), outcomes.aborted);
      }
    }
    for (std::uint64_t slot = 0; plan_.leave_locks && slot < system_.layout().table(0).spec.records; ++slot) {
      atomic_word(nodes_[0]->store().primary_record(0, slot)).store(owner_word(1, 0, 0));
    }
    for (const CheckReport& check : run_checks(system_, nodes_)) {
      outcomes.violations += check.violations;
      for (const std::string& example : check.examples)
        outcomes.findings += check.name + ": " + example + "\n";
    }
    EXPECT_EQ(cluster_.fabric().dropped, 0U);
    EXPECT_EQ(cluster_.fabric().refused, 0U);
    return outcomes;
  }

 private:
  static SystemParameters parameters(const Plan& plan) {
    SystemParameters p;
    p.shape = plan.shape;
    p.coroutines = plan.coroutines;
    p.replicas = plan.replicas;
    p.seed = plan.seed;
    p.options = plan.options;
    return p;
  }
  static nlohmann::json workload(const Plan& plan) {
    if (!plan.workload.is_null()) return plan.workload;
    return {{"name", "smallbank"},
            {"accounts_per_thread", plan.accounts_per_thread},
            {"hot_fraction", 1},
            {"hot_probability", 1}};
  }
  std::size_t unfinished() const {
    std::size_t sum = 0;
    for (const auto& node : nodes_) sum += node->unfinished();
    return sum;
  }

  Plan plan_;
  System system_;
  FakeCluster cluster_;
  std::int64_t clock_ps_ = 0;
  Window window_{0, plan_.end_ps};
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<NodeProgram>> nodes_;
  std::vector<Steppable*> workers_;
};

void expect_sound(const Outcomes& outcomes) {
  EXPECT_EQ(outcomes.unfinished, 0U);
  EXPECT_EQ(outcomes.violations, 0U) << outcomes.findings;
  EXPECT_GT(outcomes.committed, 50U);
}

/// Takes the options number 0 .. kCombinations-1 apart.
constexpr int kCombinations = 3 * 2 * 2 * 2 * 2 * 2 * 2 * 3;

OccOptions combination(int number) {
  const auto take = [&number](int choices) {
    const int choice = number % choices;
    number /= choices;
    return choice;
  };
  OccOptions o;
  const int execution = take(3);
  o.execution.primitive = execution == 0   ? Primitive::kOneSided
                          : execution == 1 ? Primitive::kRpc
                                           : Primitive::kHybrid;
  o.validation.lock = take(2) == 0 ? LockKind::kCas : LockKind::kRpc;
  o.validation.check = take(2) == 0 ? Primitive::kOneSided : Primitive::kRpc;
  o.logging.primitive = take(2) == 0 ? Primitive::kOneSided : Primitive::kRpc;
  o.commit.primitive = take(2) == 0 ? Primitive::kOneSided : Primitive::kRpc;
  o.commit.passive_ack = take(2) == 0;
  const bool outstanding = take(2) == 0;
  o.execution.outstanding = o.validation.outstanding = o.logging.outstanding = o.commit.outstanding =
      outstanding;
  const auto sharing = static_cast<Shared>(take(3));
  const bool shared = sharing != Shared::kByNone;
  o.execution.doorbell_batching = o.validation.doorbell_batching = o.logging.doorbell_batching =
      o.commit.doorbell_batching = shared;
  o.rpc.coalescing = o.rpc.request_batching = sharing;
  o.rpc.response_batching = shared;
  o.location_cache_start = CacheStart::kCold;
  return o;
}

std::string to_string(const OccOptions& o) {
  const char* execution = o.execution.primitive == Primitive::kOneSided ? "READ"
                          : o.execution.primitive == Primitive::kRpc    ? "RPC"
                                                                        : "hybrid";
  const auto primitive = [](Primitive p) { return p == Primitive::kRpc ? "RPC" : "one-sided"; };
  return std::string("execution ") + execution + ", lock " +
         (o.validation.lock == LockKind::kCas   ? "CAS"
          : o.validation.lock == LockKind::kRpc ? "RPC"
                                                : "LOCK records") +
         ", check " + primitive(o.validation.check) + ", log " + primitive(o.logging.primitive) +
         ", commit " + primitive(o.commit.primitive) + (o.commit.passive_ack ? " passive" : "") +
         (o.execution.outstanding ? ", outstanding" : "") + (o.rpc.response_batching ? ", batched" : "");
}

TEST(Interleaving, EveryCombinationOfOptionsIsSound) {
  std::uint64_t aborted = 0;
  for (int number = 0; number < kCombinations; ++number) {
    Plan plan;
    plan.options = combination(number);
    plan.seed = static_cast<std::uint64_t>(number);
    SCOPED_TRACE(to_string(plan.options));
    const Outcomes outcomes = Interleaved(plan).run();
    expect_sound(outcomes);
    aborted += outcomes.aborted;
  }
  EXPECT_GT(aborted, 50U * kCombinations);
}

OccOptions farm() {
  OccOptions o;
  o.execution.primitive = Primitive::kOneSided;
  o.validation.lock = LockKind::kLogRecord;
  o.validation.check_rpc_above = 4;
  o.commit.primitive = Primitive::kLogRecord;
  o.commit.passive_ack = false;
  return o;
}

TEST(Interleaving, ManySeedsOfNamedProtocolsAreSound) {
  OccOptions drtmh, fasst_occ;
  fasst_occ.execution.primitive = fasst_occ.validation.check = fasst_occ.logging.primitive =
      fasst_occ.commit.primitive = Primitive::kRpc;
  fasst_occ.validation.lock = LockKind::kRpc;
  OccOptions fasst = fasst_occ;
  fasst.execution.lock = true;
  fasst.logging.placement = LogPlacement::kCoordinator;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const OccOptions& options : {drtmh, fasst_occ, fasst, farm()}) {
      Plan plan;
      plan.options = options;
      plan.seed = seed;
      plan.options.location_cache_start = seed % 2 == 0 ? CacheStart::kWarm : CacheStart::kCold;
      plan.accounts_per_thread = 2 + seed % 7;
      plan.shape.nodes = 2 + static_cast<int>(seed % 3);
      plan.replicas = 1 + static_cast<int>(seed % 2);
      SCOPED_TRACE(to_string(options) + ", seed " + std::to_string(seed));
      expect_sound(Interleaved(plan).run());
    }
  }
}

TEST(Interleaving, ManyLapsOfSmallLogsAreSound) {
  OccOptions one_sided, rpc;
  rpc.logging.primitive = Primitive::kRpc;
  for (const OccOptions& options : {one_sided, rpc, farm()}) {
    SCOPED_TRACE(to_string(options));
    Plan plan;
    plan.options = options;
    plan.options.log_ring_b = 1024;
    plan.accounts_per_thread = 200;
    plan.end_ps = 600'000;
    const Outcomes outcomes = Interleaved(plan).run();
    expect_sound(outcomes);
    EXPECT_GT(outcomes.committed, 3'000U) << "some dozen entries fill a log";
  }
}

/// A primary that is a backup too gets LOCK records and all that the transaction writes.
TEST(Interleaving, TheSmallestLogHoldsAllOfATransaction) {
  for (const std::uint32_t value_b : {8U, 512U, 1024U}) {
    Plan plan;
    plan.options = farm();
    plan.shape = {.nodes = 2, .threads = 1};
    plan.coroutines = 1;
    plan.replicas = 2;
    plan.end_ps = 100'000;
    plan.workload = {{"name", "object_store"},
                     {"reads", 64},
                     {"updates", 64},
                     {"objects_per_thread", 100},
                     {"value_b", value_b}};
    for (plan.options.log_ring_b = 1024;; plan.options.log_ring_b += 1024) {
      try {
        const Interleaved fits(plan);
        break;
      } catch (const UserError&) {
      }
    }
    SCOPED_TRACE(std::to_string(value_b) + " B, a log of " + std::to_string(plan.options.log_ring_b));
    const Outcomes outcomes = Interleaved(plan).run();
    EXPECT_EQ(outcomes.unfinished, 0U);
    EXPECT_EQ(outcomes.violations, 0U) << outcomes.findings;
    EXPECT_GT(outcomes.committed, 5U);
  }
}

/// One schedule may be lucky; eight are not.
bool caught(Plan plan) {
  for (plan.seed = 1; plan.seed <= 8; ++plan.seed) {
    if (Interleaved(plan).run().violations > 0) return true;
  }
  return false;
}

TEST(Interleaving, EachDeliberateFaultIsCaught) {
  using Sabotage = OccOptions::Sabotage;
  for (bool Sabotage::*fault : {&Sabotage::skip_lock, &Sabotage::skip_validation,
                                &Sabotage::skip_version_bump, &Sabotage::skip_log}) {
    for (int number = 0; number < kCombinations; number += 17) {
      Plan plan;
      plan.options = combination(number);
      plan.options.sabotage.*fault = true;
      SCOPED_TRACE(to_string(plan.options));
      EXPECT_TRUE(caught(plan));
    }
    Plan plan;
    plan.options = farm();
    plan.options.sabotage.*fault = true;
    EXPECT_TRUE(caught(plan)) << "farm";
  }
}

TEST(Interleaving, ALockThatIsLeftBehindIsCaught) {
  Plan plan;
  plan.leave_locks = true;
  const Outcomes outcomes = Interleaved(plan).run();
  EXPECT_GT(outcomes.violations, 0U);
  EXPECT_NE(outcomes.findings.find("final_state: left locked"), std::string::npos) << outcomes.findings;
}

}  // namespace
}  // namespace verbtwin::protocols
