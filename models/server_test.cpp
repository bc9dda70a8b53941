#include "models/server.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

namespace verbtwin::models {
namespace {

std::int64_t done_ps(Server& server, std::int64_t ready_ps, std::int64_t service_ps) {
  return server.serve({ready_ps, 0, 0}, service_ps).at();
}

TEST(Server, ServesAtOnceWhenIdle) {
  Server server;
  EXPECT_EQ(done_ps(server, 1000, 500), 1500);
  EXPECT_EQ(done_ps(server, 1500, 500), 2000);
  EXPECT_EQ(done_ps(server, 90'000, 500), 90'500);
  EXPECT_EQ(server.busy_ps(), 1500);
}

TEST(Server, WhatWaitsIsNotDone) {
  Server server;
  for (int i = 0; i < 3; ++i) server.serve({1000, 0, 0}, 500);
  EXPECT_EQ(server.busy_ps(), 1500);
  EXPECT_EQ(server.done_ps(1000), 0);
  EXPECT_EQ(server.done_ps(1600), 600);
  EXPECT_EQ(server.done_ps(9000), 1500);
}

TEST(Server, JobsThatAreAnnouncedForLaterAreNotDone) {
  Server idle;
  idle.serve({10'000, 0, 0}, 500);
  idle.serve({20'000, 0, 0}, 500);
  EXPECT_EQ(idle.done_ps(0), 0);
  EXPECT_EQ(idle.done_ps(20'000), 500);
  Server full;
  for (int i = 0; i < 100; ++i) full.serve({i * 100, 0, 0}, 150);
  for (const std::int64_t at_ps : {0, 5000, 9900, 12'000}) EXPECT_EQ(full.done_ps(at_ps), at_ps);
  EXPECT_EQ(full.done_ps(99'000), 15'000);
}

TEST(Server, IsFirstComeFirstServed) {
  EXPECT_TRUE(rc::check("jobs in order start when they are ready and the one before is done", [] {
    const auto jobs = *rc::gen::container<std::vector<std::pair<std::uint16_t, std::uint16_t>>>(
        rc::gen::arbitrary<std::pair<std::uint16_t, std::uint16_t>>());
    Server server;
    std::int64_t ready_ps = 0, free_ps = 0, total_ps = 0;
    for (const auto& [later_ps, service_ps] : jobs) {
      ready_ps += later_ps;
      free_ps = std::max(free_ps, ready_ps) + service_ps;
      total_ps += service_ps;
      RC_ASSERT(done_ps(server, ready_ps, service_ps) == free_ps);
    }
    RC_ASSERT(server.busy_ps() == total_ps);
  }));
}

TEST(Server, OutOfOrderJobsKeepCapacity) {
  EXPECT_TRUE(rc::check("a saturated server works off exactly its capacity, whatever the order of calls", [] {
    // Ready times step on by less than a service, each shifted by up to `shift_max`.
    const auto count = *rc::gen::inRange<std::int64_t>(100, 400);
    const auto shift_max = *rc::gen::inRange<std::int64_t>(1, 50'000);
    Server server;
    std::int64_t last_ps = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t ready_ps = i * 900 + *rc::gen::inRange<std::int64_t>(0, shift_max);
      const std::int64_t done = done_ps(server, ready_ps, 1000);
      RC_ASSERT(done >= ready_ps + 1000);
      last_ps = std::max(last_ps, done);
    }
    RC_ASSERT(server.busy_ps() == count * 1000);
    RC_ASSERT(last_ps >= count * 1000);
    RC_ASSERT(last_ps <= count * 1000 + 2 * shift_max);
  }));
}

/// A completion does not wait for a payload that is announced for later.
TEST(Server, AJobAnnouncedLateIsDoneInTheTimeWithoutWorkWhereItFits) {
  Server server;
  server.owe(1100);
  EXPECT_EQ(done_ps(server, 2000, 300), 2300);  // 900 without work before it
  EXPECT_EQ(server.wait_ps({1999, 0, 0}), 0);
  EXPECT_EQ(server.wait_ps({2000, 0, 0}), 300);
  EXPECT_EQ(done_ps(server, 1200, 400), 1600);
  EXPECT_EQ(done_ps(server, 1900, 101), 2301) << "not over in time: behind what is known";
  EXPECT_EQ(done_ps(server, 1900, 100), 2000) << "just";
  EXPECT_EQ(done_ps(server, 1500, 401), 2302) << "more than is left of that time";
  EXPECT_EQ(done_ps(server, 1500, 400), 1900);
  EXPECT_EQ(server.wait_ps({1500, 0, 0}), 802) << "nothing is left of it";
  EXPECT_EQ(done_ps(server, 2000, 0), 2802);
  EXPECT_EQ(server.busy_ps(), 1100 + 300 + 400 + 101 + 100 + 401 + 400);
}

TEST(Server, AJobAnnouncedLateMeetsTheWorkThatIsKnown) {
  Server server;
  server.owe(10'000);  // no time without work
  EXPECT_EQ(done_ps(server, 10'000, 1000), 11'000);
  EXPECT_EQ(done_ps(server, 4000, 500), 5500) << "as if the other's work stood in front of it";
  EXPECT_EQ(done_ps(server, 10'000, 100), 11'600) << "and both in front of the next";
}

TEST(Server, AJobHeldElsewhereDoesNotMeetWhatIsDoneMeanwhile) {
  Server server;
  for (int i = 0; i < 10; ++i) done_ps(server, 0, 1000);
  EXPECT_EQ(server.serve(Moment{0, 0, 0}.not_before(4000), 1000).at(), 11'000);
  EXPECT_EQ(server.serve(Moment{0, 0, 0}.not_before(40'000), 1000).at(), 41'000);
}

/// A message that was held back may pass servers and delays before it meets the queue that worked meanwhile.
TEST(Server, AJobHeldElsewhereIsRememberedThroughServersAndDelays) {
  Server first, behind;
  for (int i = 0; i < 10; ++i) done_ps(behind, 0, 1000);
  const Moment held = Moment{0, 0, 0}.not_before(40'000);
  EXPECT_EQ(behind.serve(first.serve(held, 100).plus_delay(10).whole(), 1000).at(), 40'000 + 100 + 10 + 1000);
}

TEST(Server, APacketIsHandedOnBeforeTheNextIsHere) {
  constexpr Packets kFour{.bytes = 4 * 1024, .mtu_b = 1024};
  Server slow, slower, fast;
  const Moment begun = slow.serve({0, 0, 0}, 1000, kFour);
  EXPECT_EQ(begun.at(), 1000);
  EXPECT_EQ(begun.first().at(), 250);
  const Moment waited = slower.serve(begun.plus_delay(10), 2000, kFour);
  EXPECT_EQ(waited.at(), 250 + 2000 + 10);
  EXPECT_EQ(waited.first().at(), 750 + 10);
  EXPECT_EQ(fast.serve(waited, 400, kFour).at(), 2250 + 100 + 10) << "the last packet comes no earlier";
  EXPECT_EQ(fast.serve({0, 0, 0}, 400, kFour).at(), 400 + 400) << "and the next meets the work, no gaps";
}

/// A completion that is written while a long message comes in waits for the packets that are here.
TEST(Server, AJobOfOnePacketPassesBeforePacketsThatHaveYetToCome) {
  constexpr Packets kFour{.bytes = 4 * 1024, .mtu_b = 1024};
  const Moment arrives{8000, 0, 0, 6000};  // its packets at 2000, 4000, 6000, 8000
  Server fast;                             // 1000 for each
  EXPECT_EQ(fast.serve(arrives, 4000, kFour).at(), 9000);
  EXPECT_EQ(done_ps(fast, 5000, 10), 5010);
  Server slow;  // 3000 for each
  EXPECT_EQ(slow.serve(arrives, 12'000, kFour).at(), 14'000);
  EXPECT_EQ(done_ps(slow, 5000, 10), 5000 + 6000 - 3000 + 10) << "half is here, of which 3000 is done";
  EXPECT_EQ(slow.serve({5000, 0, 0}, 400, kFour).at(), 14'000 + 10 + 400) << "another message has no turn";
  EXPECT_EQ(done_ps(slow, 8000, 10), 14'000 + 10 + 400 + 10) << "all of it is here";
  EXPECT_EQ(slow.busy_ps(), 12'000 + 10 + 400 + 10);
}

/// Its first packet does, and its last comes while it waits.
TEST(Server, AMessageOfSeveralPacketsWaitsForWhatStandsThere) {
  constexpr Packets kFour{.bytes = 4 * 1024, .mtu_b = 1024};
  Server server;
  server.owe(10'000);
  const Moment done = server.serve({8000, 0, 0, 6000}, 4000, kFour);
  EXPECT_EQ(done.at(), 10'000 + 4000);
  EXPECT_EQ(done.first().at(), 10'000 + 1000);
}

TEST(Server, APipelineOfIdleServersIsAsOneOfPackets) {
  EXPECT_TRUE(rc::check("packets follow each other as if each were a job of its own", [] {
    const auto packets = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto packet_ps = *rc::gen::nonEmpty<std::vector<std::uint16_t>>();
    std::vector<std::int64_t> done_ps(packets, 0);  // of each packet, at the server before
    Moment message;
    for (const std::int64_t ps : packet_ps) {
      std::int64_t free_ps = 0;
      for (std::int64_t& done : done_ps) done = free_ps = std::max(done, free_ps) + ps;
      Server server;
      message = server.serve(message, ps * packets, Packets{packets * 1024, 1024});
      RC_ASSERT(message.at() == done_ps.back());
      if (packets > 1) RC_ASSERT(message.first().at() == done_ps.front());
      RC_ASSERT(server.busy_ps() == ps * packets);
    }
  }));
}

TEST(Server, ALongerMessageIsNeverSoonerThrough) {
  EXPECT_TRUE(rc::check("whatever the stages, with one byte more", [] {
    const auto bytes = *rc::gen::inRange<std::uint32_t>(1, 5000);
    const auto ps_per_byte = *rc::gen::nonEmpty<std::vector<std::uint8_t>>();
    constexpr std::uint32_t kMtu_b = 1000;
    const auto through_ps = [&](std::uint32_t length) {
      Moment message;
      for (const std::int64_t ps : ps_per_byte) {
        Server server;
        message = server.serve(message, ps * length, Packets{length, kMtu_b});
      }
      return message.at();
    };
    RC_ASSERT(through_ps(bytes) <= through_ps(bytes + 1));
  }));
}

TEST(Server, WhatItOwesDelaysTheNext) {
  Server server;
  server.owe(700);
  EXPECT_EQ(done_ps(server, 100, 50), 100 + 600 + 50);
  EXPECT_EQ(server.busy_ps(), 750);
}

TEST(Server, KeepsTheDelaysOfAMomentAside) {
  Server server;
  const Moment done = server.serve({1000, 700, 0}, 300);
  EXPECT_EQ(done.queue_ps, 1300);
  EXPECT_EQ(done.delay_ps, 700);
  EXPECT_EQ(done.at(), 2000);
}

TEST(Moment, IsHeldBackToARealTime) {
  const Moment moment{100, 50, 0};
  EXPECT_EQ(moment.at(), 150);
  EXPECT_EQ(moment.not_before(150).delay_ps, 50);
  EXPECT_EQ(moment.not_before(170).at(), 170);
  EXPECT_EQ(moment.not_before(170).held_ps, 20);
  EXPECT_EQ(moment.not_before(170).queue_ps, 100);
  EXPECT_EQ(moment.plus_delay(5).at(), 155);
  EXPECT_EQ(moment.plus_delay(5).held_ps, 0);
  const Moment message{100, 50, 0, 30};
  EXPECT_EQ(message.not_before(170).spread_ps, 30) << "all its packets are";
  EXPECT_EQ(message.not_before(170).first().at(), 140);
}

}  // namespace
}  // namespace verbtwin::models
