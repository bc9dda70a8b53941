#include "sim/core.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kNs = 1000;

models::HostProfile priced_host() {
  models::HostProfile host = models::free_host();
  host.clock_ghz = 2;
  host.poll_cqe_ns = 25;
  host.rpc_send_ns = 40;
  host.memory_miss_ns = 100;
  return host;
}

/// A worker whose steps the test writes; it notes when each began.
struct Scripted final : Steppable {
  bool step() override {
    starts_ps.push_back(cpu->now_ps());
    return script(static_cast<int>(starts_ps.size()));
  }
  bool looks_next() const override { return looks; }
  Cpu* cpu = nullptr;
  bool looks = true;
  std::function<bool(int)> script;  // given the number of the step, from 1
  std::vector<std::int64_t> starts_ps;
};

/// A core on a calendar of its own.
struct Rig final : private EventHandler {
  explicit Rig(std::function<bool(int)> script) {
    worker.cpu = &core;
    worker.script = std::move(script);
  }
  void handle(std::uint32_t) override { core.run(); }
  void run_until(std::int64_t at_ps) { calendar.run_until(at_ps); }
  void wake(std::int64_t at_ps) { core.wake(at_ps, 0); }

  Calendar calendar;
  CpuPrices prices = prices_of(priced_host(), 1);
  Core core{prices, calendar, calendar.add_handler(*this), 0};
  Scripted worker;
};

TEST(Core, ChargesAdvanceItsClock) {
  std::vector<std::int64_t> clock;
  Rig rig([&](int) {
    const auto look = [&] { clock.push_back(rig.core.now_ps()); };
    look();
    rig.core.charge(Cost::kPollCqe);
    look();
    rig.core.charge(Cost::kRpcSend, 3);
    look();
    rig.core.charge_cycles(100);
    look();
    rig.core.charge(Cost::kPoll);
    look();
    return false;
  });
  rig.core.drive(rig.worker);
  rig.run_until(0);
  EXPECT_THAT(clock, ElementsAre(0, 25 * kNs, 145 * kNs, 195 * kNs, 195 * kNs));
  EXPECT_EQ(rig.core.busy_ps(), 195 * kNs);
}

TEST(Core, StoresToColdMemoryAreWaitedForOneBehindAnotherByWhatLeavesTheCoreBehindThem) {
  std::vector<std::int64_t> clock;
  Rig rig([&](int) {
    const auto look = [&] { clock.push_back(rig.core.now_ps()); };
    rig.core.store_cold(3);
    look();
    rig.core.charge_cycles(100);
    rig.core.store_cold(1);
    look();
    rig.core.wait_for_stores();
    look();
    rig.core.wait_for_stores();
    look();
    rig.core.charge_cycles(100);
    rig.core.store_cold(1);  // nothing is in front of it
    rig.core.wait_for_stores();
    look();
    return false;
  });
  rig.core.drive(rig.worker);
  rig.run_until(0);
  EXPECT_THAT(clock, ElementsAre(0, 50 * kNs, 400 * kNs, 400 * kNs, 550 * kNs));
  EXPECT_EQ(rig.core.busy_ps(), 550 * kNs);
}

TEST(Core, StoresGoOnBetweenSteps) {
  std::vector<std::int64_t> clock;
  Rig rig([&](int step) {
    if (step == 1) {
      rig.core.store_cold(3);
      rig.core.charge_cycles(100);
      return true;
    }
    rig.core.wait_for_stores();
    clock.push_back(rig.core.now_ps());
    return false;
  });
  rig.core.drive(rig.worker);
  rig.run_until(1000 * kNs);
  EXPECT_THAT(clock, ElementsAre(300 * kNs));
}

TEST(Core, WhatAStepPublishesIsSeenWhenItHasComeSoFar) {
  alignas(8) std::uint64_t first = 0, second = 0;
  const auto bytes = [](std::uint64_t& word) { return reinterpret_cast<std::byte*>(&word); };
  Cpu* cpu = nullptr;
  Rig rig([&](int step) {
    if (step > 1) return false;
    cpu->publish_word(bytes(first), 1);  // nothing is charged before it
    EXPECT_EQ(first, 1U);
    cpu->charge_ps(10 * kNs);
    cpu->publish_word(bytes(second), 1);
    cpu->publish_word(bytes(first), 2);
    cpu->charge_ps(10 * kNs);
    cpu->publish_word(bytes(second), 2);
    return true;  // whose next step begins at the instant of the last one
  });
  cpu = &rig.core;
  rig.run_until(5 * kNs);
  rig.core.drive(rig.worker);
  rig.run_until(14 * kNs);
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 0U);
  rig.run_until(15 * kNs);
  EXPECT_EQ(first, 2U);
  EXPECT_EQ(second, 1U);
  rig.run_until(24 * kNs);
  EXPECT_EQ(second, 1U);
  rig.run_until(25 * kNs);
  EXPECT_EQ(second, 2U);
  EXPECT_EQ(rig.worker.starts_ps.size(), 2U);
}

TEST(Core, WhatIsPublishedComesBehindStoresToColdMemory) {
  alignas(8) std::uint64_t word = 0;
  Cpu* cpu = nullptr;
  Rig rig([&](int) {
    cpu->store_cold(2);
    cpu->publish_word(reinterpret_cast<std::byte*>(&word), 1);
    return false;
  });
  cpu = &rig.core;
  rig.core.drive(rig.worker);
  rig.run_until(199 * kNs);
  EXPECT_EQ(word, 0U);
  rig.run_until(200 * kNs);
  EXPECT_EQ(word, 1U);
}

TEST(Core, TheNextStepBeginsWhenTheWorkOfTheLastIsDone) {
  Rig rig([&](int step) {
    rig.core.charge_cycles(static_cast<std::uint64_t>(200 * step));  // 100 ns, 200 ns, ...
    return step < 4;
  });
  rig.core.drive(rig.worker);
  rig.run_until(10'000 * kNs);
  EXPECT_THAT(rig.worker.starts_ps, ElementsAre(0, 100 * kNs, 300 * kNs, 600 * kNs));
  EXPECT_EQ(rig.core.busy_ps(), 1000 * kNs);
}

TEST(Core, AnIdleWorkerCostsNoEvents) {
  Rig rig([](int) { return false; });
  rig.core.drive(rig.worker);
  rig.run_until(0);
  EXPECT_TRUE(rig.calendar.empty());
  rig.run_until(1'000'000 * kNs);
  EXPECT_EQ(rig.calendar.executed(), 1U);
  EXPECT_EQ(rig.core.busy_ps(), 0);
}

TEST(Core, WorkThatTakesNoTimeMovesTheClockOn) {
  Rig rig([](int step) { return step < 5; });
  rig.core.drive(rig.worker);
  rig.run_until(1000 * kNs);
  ASSERT_EQ(rig.worker.starts_ps.size(), 5U);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(rig.worker.starts_ps[i], rig.worker.starts_ps[i - 1]);
}

/// A worker whose second step ends the round that its first began, each 100 ns long, and who wakes it when.
std::vector<std::int64_t> starts_of_a_round_of_two_steps(std::vector<std::int64_t> wakes_ps) {
  Rig rig([&](int step) {
    rig.core.charge_cycles(200);
    rig.worker.looks = step != 1;
    return step == 1;
  });
  rig.core.drive(rig.worker);
  for (const std::int64_t at_ps : wakes_ps) {
    rig.run_until(at_ps);
    rig.wake(at_ps);
  }
  rig.run_until(10'000 * kNs);
  return rig.worker.starts_ps;
}

TEST(Core, WhatArrivesInTheMiddleOfARoundIsNotSleptOver) {
  EXPECT_THAT(starts_of_a_round_of_two_steps({}), ElementsAre(0, 100 * kNs));
  EXPECT_THAT(starts_of_a_round_of_two_steps({50 * kNs}), ElementsAre(0, 100 * kNs, 200 * kNs));
  EXPECT_THAT(starts_of_a_round_of_two_steps({50 * kNs, 60 * kNs}), ElementsAre(0, 100 * kNs, 200 * kNs))
      << "one look sees both";
  EXPECT_THAT(starts_of_a_round_of_two_steps({150 * kNs}), ElementsAre(0, 100 * kNs, 200 * kNs));
}

TEST(Core, ASleepingWorkerIsWokenOnTime) {
  Rig rig([](int) { return false; });
  rig.core.drive(rig.worker);
  rig.run_until(500 * kNs);
  rig.wake(700 * kNs);
  rig.run_until(699 * kNs);
  EXPECT_EQ(rig.worker.starts_ps.size(), 1U);
  rig.run_until(10'000 * kNs);
  EXPECT_THAT(rig.worker.starts_ps, ElementsAre(0, 700 * kNs));
}

TEST(Core, ABusyWorkerIsWokenAtTheEndOfItsStep) {
  Rig rig([&](int step) {
    if (step == 1) rig.core.charge_cycles(2000);
    return false;
  });
  rig.core.drive(rig.worker);
  rig.run_until(300 * kNs);
  rig.wake(400 * kNs);
  rig.run_until(10'000 * kNs);
  EXPECT_THAT(rig.worker.starts_ps, ElementsAre(0, 1000 * kNs));
}

TEST(Core, AnEarlierWakeReplacesALaterOne) {
  Rig rig([](int) { return false; });
  rig.core.drive(rig.worker);
  rig.run_until(0);
  rig.wake(9000 * kNs);
  rig.wake(3000 * kNs);
  rig.wake(5000 * kNs);
  rig.run_until(20'000 * kNs);
  EXPECT_THAT(rig.worker.starts_ps, ElementsAre(0, 3000 * kNs))
      << "a step looks for itself what else there is";
}

TEST(Core, WakesOfOneInstantAreOneStep) {
  Rig rig([](int) { return false; });
  rig.core.drive(rig.worker);
  rig.run_until(0);
  rig.wake(9000 * kNs);
  rig.wake(3000 * kNs);
  rig.run_until(4000 * kNs);
  rig.wake(9000 * kNs);  // the first wake's event is still in the calendar
  rig.run_until(20'000 * kNs);
  EXPECT_THAT(rig.worker.starts_ps, ElementsAre(0, 3000 * kNs, 9000 * kNs));
}

// ---- with completions

ClusterParameters one_node() {
  ClusterParameters parameters;
  parameters.nic = models::round_nic();
  parameters.host = priced_host();
  return parameters;
}

/// A worker of a cluster of one node, writing to itself.
struct Writer {
  explicit Writer(Cluster& cluster) : port(cluster.port(0, 0)), cq(port.device().create_cq(64)) {
    port.use_queue_pairs({.send_cq = cq.get(), .recv_cq = cq.get()});
    worker.cpu = &port.cpu();
  }
  void write() {
    const RemoteMemory remote = port.memory().remote(0, 0);
    SendWr wr;
    wr.opcode = Opcode::kRdmaWrite;
    wr.flags = kSignaled;
    wr.sge = {port.memory().local().data(), 8, port.memory().lkey()};
    wr.remote_addr = remote.addr + 64;
    wr.rkey = remote.rkey;
    port.connected_queue_pair(0, 0, 0).post_send({&wr, 1});
  }
  bool poll() {
    WorkCompletion wc;
    return cq->poll({&wc, 1}) == 1;
  }
  WorkerPort& port;
  std::unique_ptr<CompletionQueue> cq;
  Scripted worker;
};

TEST(Core, ACompletionWakesItsWorkerWhenItCanBeSeen) {
  Cluster cluster(one_node());
  Writer writer(cluster);
  std::vector<bool> polled;
  writer.worker.script = [&](int step) {
    if (step == 1) {
      writer.write();
    } else {
      polled.push_back(writer.poll());
    }
    return false;
  };
  cluster.drive(0, 0, writer.worker);
  cluster.clock().run_until(100'000 * kNs, [] { return true; });
  EXPECT_THAT(polled, ElementsAre(true)) << "one step, with something to do";
  EXPECT_GT(writer.worker.starts_ps.back(), 500 * kNs) << "behind two PCIe crossings";
}

TEST(Core, ACompletionDuringAStepIsSeenAtItsEnd) {
  Cluster cluster(one_node());
  Writer writer(cluster);
  std::vector<bool> polled;
  writer.worker.script = [&](int step) {
    if (step == 1) {
      writer.write();
      writer.port.cpu().charge_cycles(100'000);  // 50 us, far longer than the WRITE takes
    } else {
      polled.push_back(writer.poll());
    }
    return false;
  };
  cluster.drive(0, 0, writer.worker);
  cluster.clock().run_until(200'000 * kNs, [] { return true; });
  EXPECT_THAT(writer.worker.starts_ps, ElementsAre(0, 50'000 * kNs));
  EXPECT_THAT(polled, ElementsAre(true));
}

TEST(Core, CompletionsThatAreLeftWakeTheWorkerAgain) {
  Cluster cluster(one_node());
  Writer writer(cluster);
  int taken = 0;
  writer.worker.script = [&](int step) {
    if (step == 1) {
      for (int i = 0; i < 5; ++i) writer.write();
    } else {
      taken += writer.poll() ? 1 : 0;  // one a step, though more are there
    }
    return false;
  };
  cluster.drive(0, 0, writer.worker);
  cluster.clock().run_until(100'000 * kNs, [] { return true; });
  EXPECT_EQ(taken, 5);
  EXPECT_EQ(writer.worker.starts_ps.size(), 6U);
}

/// Interrupts that want `share_percent` of a core for 20 ms; the worker's steps in the last 10 of them, each
/// 1 us.
std::size_t late_steps_beside_interrupts(int share_percent) {
  constexpr std::int64_t kUs = 1000 * kNs;
  Rig rig([&](int) {
    rig.core.charge_cycles(2000);
    return true;
  });
  rig.core.drive(rig.worker);
  std::int64_t waiting_ps = 0;
  for (std::int64_t at_ps = 10 * kUs; at_ps <= 20'000 * kUs; at_ps += 10 * kUs) {
    rig.run_until(at_ps);
    waiting_ps += rig.core.take_softirq_delay_ps();
    const std::int64_t ps = 10 * kUs * share_percent / 100;
    rig.core.interrupt(at_ps, ps, share_percent < 100 ? at_ps : at_ps + 10 * kUs + waiting_ps);
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(rig.worker.starts_ps, [](std::int64_t at_ps) { return at_ps >= 10'000 * kUs; }));
}

TEST(Core, InterruptsWithoutEndLeaveTheWorkerHalfOfTheCore) {
  EXPECT_NEAR(static_cast<double>(late_steps_beside_interrupts(0)), 10'000, 10);
  EXPECT_NEAR(static_cast<double>(late_steps_beside_interrupts(80)), 2'000, 20) << "they go first";
  EXPECT_NEAR(static_cast<double>(late_steps_beside_interrupts(100)), 5'000, 20);
}

}  // namespace
}  // namespace verbtwin::sim
