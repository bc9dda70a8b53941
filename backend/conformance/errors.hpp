// Conformance of failure: the right status, in order, the queue pair in the error state, the rest flushed.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

/// Requests of a connected pair that the target must refuse, each with why.
class RefusedRequests {
 public:
  explicit RefusedRequests(Endpoint& near, Endpoint& far) : near_(near), far_(far) {
    static_memory_ = std::make_unique<std::array<std::uint64_t, 512>>();
    const auto bytes = std::as_writable_bytes(std::span(*static_memory_));
    write_only_ = far.device.register_memory(bytes, kAccessLocalWrite | kAccessRemoteWrite);
    read_only_ = far.device.register_memory(bytes, kAccessLocalWrite | kAccessRemoteRead);
  }

  struct Case {
    const char* why;
    SendWr wr;
  };
  std::vector<Case> all() {
    const Sge eight = near_.sge(0, 8);
    const std::uint64_t memory = reinterpret_cast<std::uint64_t>(static_memory_->data());
    std::vector<Case> cases;
    const auto add = [&](const char* why, SendWr wr) { cases.push_back({why, wr}); };
    for (const auto& [why, wr] :
         {Case{"READ, bad rkey", read(1, eight, far_, 0)}, Case{"WRITE, bad rkey", write(1, eight, far_, 0)},
          Case{"CAS, bad rkey", compare_swap(1, eight, far_, 0, 0, 1)},
          Case{"FAA, bad rkey", fetch_add(1, eight, far_, 0, 1)}}) {
      SendWr bad = wr;
      bad.rkey += 1000;
      add(why, bad);
    }
    add("READ past the end", read(1, near_.sge(0, 16), far_, Endpoint::kBytes - 8));
    add("WRITE past the end", write(1, near_.sge(0, 16), far_, Endpoint::kBytes - 8));
    add("CAS past the end", compare_swap(1, eight, far_, Endpoint::kBytes, 0, 1));
    add("READ before the start", read(1, near_.sge(0, 16), far_, static_cast<std::size_t>(-8)));
    SendWr wraps = write(1, near_.sge(0, 4096), far_, 0);
    wraps.remote_addr = ~0ULL - 8;
    add("WRITE that wraps the address space", wraps);
    add("READ, write-only", at(read(1, eight, far_, 0), memory, write_only_->rkey()));
    add("WRITE, read-only", at(write(1, eight, far_, 0), memory, read_only_->rkey()));
    add("CAS, no atomics", at(compare_swap(1, eight, far_, 0, 0, 1), memory, write_only_->rkey()));
    return cases;
  }
  bool untouched() const {
    return std::all_of(static_memory_->begin(), static_memory_->end(),
                       [](std::uint64_t word) { return word == 0; });
  }

 private:
  static SendWr at(SendWr wr, std::uint64_t addr, std::uint32_t rkey) {
    wr.remote_addr = addr;
    wr.rkey = rkey;
    return wr;
  }
  Endpoint& near_;
  Endpoint& far_;
  std::unique_ptr<std::array<std::uint64_t, 512>> static_memory_;
  std::unique_ptr<MemoryRegion> write_only_, read_only_;
};

TEST_P(VerbsConformance, WhatTheTargetDoesNotGrantIsARemoteAccessError) {
  RefusedRequests requests(a(), b());
  a().fill(0, 64, 1);
  for (auto& [why, wr] : requests.all()) {
    SCOPED_TRACE(why);
    const Ends ends = connect();
    post(ends.near, wr);
    EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemAccessErr}));
    EXPECT_EQ(ends.near.state(), QpState::kError);
    EXPECT_TRUE(eventually([&] { return ends.far.state() == QpState::kError; }))
        << "a responder that refuses fails too";
  }
  EXPECT_TRUE(requests.untouched());
  EXPECT_TRUE(a().holds(0, 64, 1)) << "nothing was read";
  EXPECT_TRUE(b().zero(0, Endpoint::kBytes));
}

TEST_P(VerbsConformance, ADeregisteredRegionGrantsNothing) {
  auto memory = std::make_unique<std::array<std::byte, 4096>>();
  auto region = b().device.register_memory(*memory, kAccessAll);
  SendWr wr = read(1, a().sge(0, 8), b(), 0);
  wr.rkey = region->rkey();
  wr.remote_addr = reinterpret_cast<std::uint64_t>(memory->data());
  const Ends first = connect();
  post(first.near, wr);
  expect_success(a(), 1);
  region.reset();
  const Ends second = connect();
  post(second.near, wr);
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemAccessErr}));
}

TEST_P(VerbsConformance, AMisalignedAtomicIsAnInvalidRequest) {
  for (const SendWr& wr :
       {compare_swap(1, a().sge(0, 8), b(), 4, 0, 1), fetch_add(1, a().sge(0, 8), b(), 1, 1)}) {
    const Ends ends = connect();
    if (!binding->deviations().posts_misaligned_atomics) {
      expect_refused(ends.near, wr, "misaligned");
      continue;
    }
    post(ends.near, wr);
    EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemInvReqErr}));
    EXPECT_EQ(ends.near.state(), QpState::kError);
  }
  EXPECT_TRUE(b().zero(0, 64));
}

TEST_P(VerbsConformance, WhatIsBehindAFailedRequestIsFlushed) {
  const Ends ends = connect();
  SendWr bad = write(2, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  a().set_word(0, 9);
  post(ends.near, {write(1, a().sge(0, 8), b(), 64), bad, write(3, a().sge(0, 8), b(), 128),
                   read(4, a().sge(8, 8), b(), 0), compare_swap(5, a().sge(8, 8), b(), 256, 0, 1)});
  const auto at_a = sent(a(), 5);
  EXPECT_EQ(ids_of(at_a), range(1, 5));
  EXPECT_EQ(statuses_of(at_a), statuses({WcStatus::kSuccess, WcStatus::kRemAccessErr, WcStatus::kWrFlushErr,
                                         WcStatus::kWrFlushErr, WcStatus::kWrFlushErr}));
  EXPECT_EQ(b().word(64), 9U);
  EXPECT_EQ(b().word(128), 0U);
  EXPECT_EQ(b().word(256), 0U);
  expect_silence();
}

TEST_P(VerbsConformance, AnUnsignalledRequestThatFailsOrIsFlushedSaysSo) {
  const Ends ends = connect();
  SendWr bad = write(1, a().sge(0, 8), b(), 0, 0);
  bad.rkey += 1000;
  post(ends.near, {bad, write(2, a().sge(0, 8), b(), 0, 0)});
  const auto at_a = sent(a(), 2);
  EXPECT_EQ(ids_of(at_a), range(1, 2));
  EXPECT_EQ(statuses_of(at_a), statuses({WcStatus::kRemAccessErr, WcStatus::kWrFlushErr}));
}

TEST_P(VerbsConformance, RequestsPostedInTheErrorStateAreFlushedInOrder) {
  const Ends ends = connect();
  SendWr bad = write(1, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  post(ends.near, {bad, write(2, a().sge(0, 8), b(), 0), write(3, a().sge(0, 8), b(), 0)});
  std::vector<WorkCompletion> all = sent(a(), 1);
  EXPECT_EQ(ends.near.state(), QpState::kError);
  post(ends.near, {write(4, a().sge(0, 8), b(), 0, 0), send(5, a().sge(0, 8))});
  for (const WorkCompletion& wc : sent(a(), 4)) all.push_back(wc);
  EXPECT_EQ(ids_of(all), range(1, 5));
  EXPECT_EQ(statuses_of(all), statuses({WcStatus::kRemAccessErr, WcStatus::kWrFlushErr, WcStatus::kWrFlushErr,
                                        WcStatus::kWrFlushErr, WcStatus::kWrFlushErr}));
  expect_silence();
}

TEST_P(VerbsConformance, RecvsAreFlushedAtBothEnds) {
  const Ends ends = connect();
  for (unsigned i = 0; i < 3; ++i) {
    post(ends.near, recv(10 + i, a().sge(1024, 64)));
    post(ends.far, recv(20 + i, b().sge(1024, 64)));
  }
  SendWr bad = read(1, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  post(ends.near, bad);
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemAccessErr}));
  const std::vector flushed(3, std::string(to_string(WcStatus::kWrFlushErr)));
  const auto at_a = received(a(), 3);
  EXPECT_EQ(ids_of(at_a), range(10, 3));
  EXPECT_EQ(statuses_of(at_a), flushed);
  const auto at_b = received(b(), 3);
  EXPECT_EQ(ids_of(at_b), range(20, 3));
  EXPECT_EQ(statuses_of(at_b), flushed);
}

TEST_P(VerbsConformance, ARecvPostedInTheErrorStateIsFlushed) {
  const Ends ends = connect();
  SendWr bad = read(1, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  post(ends.near, bad);
  sent(a(), 1);
  const RecvWr wr = recv(5, a().sge(1024, 64));
  EXPECT_EQ(ends.near.post_recv({&wr, 1}).posted, 1U);
  if (binding->deviations().flushes_late_recvs) {
    EXPECT_EQ(statuses_of(received(a(), 1)), statuses({WcStatus::kWrFlushErr}));
  } else {
    expect_silence();
  }
}

TEST_P(VerbsConformance, ARefusedWriteWithImmUsesUpNoRecv) {
  const Ends ends = connect();
  post(ends.far, recv(5, b().sge(0, 64)));
  SendWr bad = write_with_imm(1, a().sge(0, 8), b(), 0, 3);
  bad.rkey += 1000;
  post(ends.near, bad);
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemAccessErr}));
  const auto at_b = received(b(), 1);
  EXPECT_EQ(ids_of(at_b), range(5, 1));
  const bool flushed = binding->deviations().flushes_recv_of_refused_imm;
  EXPECT_EQ(statuses_of(at_b), statuses({flushed ? WcStatus::kWrFlushErr : WcStatus::kRemAccessErr}))
      << "every RECV is accounted for";
}

TEST_P(VerbsConformance, LocalMemoryThatIsNotOursIsALocalProtectionError) {
  const auto read_only = a().device.register_memory({a().at(0), 4096}, kAccessRemoteRead);
  Sge bad_key = a().sge(0, 8);
  bad_key.lkey += 1000;
  const Sge past_the_end = a().sge(Endpoint::kBytes - 4, 8);
  Sge not_writable = a().sge(0, 8);
  not_writable.lkey = read_only->lkey();
  struct Case {
    const char* why;
    SendWr wr;
  };
  for (const auto& [why, wr] :
       {Case{"SEND, bad lkey", send(1, bad_key)}, Case{"WRITE, bad lkey", write(1, bad_key, b(), 0)},
        Case{"READ, bad lkey", read(1, bad_key, b(), 0)},
        Case{"WRITE from past the end", write(1, past_the_end, b(), 0)},
        Case{"READ into read-only memory", read(1, not_writable, b(), 0)}}) {
    SCOPED_TRACE(why);
    const Ends ends = connect();
    post(ends.near, wr);
    EXPECT_THAT(statuses_of(sent(a(), 1)),
                testing::AnyOf(statuses({WcStatus::kLocProtErr}), statuses({local(WcStatus::kLocProtErr)})));
    EXPECT_EQ(ends.near.state(), QpState::kError);
  }
  EXPECT_TRUE(b().zero(0, 64));
}

TEST_P(VerbsConformance, ALocalErrorWaitsForTheRequestsBeforeIt) {
  const Ends ends = connect();
  Sge bad_key = a().sge(0, 8);
  bad_key.lkey += 1000;
  a().fill(0, 4096, 1);
  post(ends.near, {write(1, a().sge(0, 4096), b(), 0), read(2, a().sge(8192, 4096), b(), 0),
                   write(3, bad_key, b(), 0), write(4, a().sge(0, 8), b(), 8192)});
  const auto at_a = sent(a(), 4);
  EXPECT_EQ(ids_of(at_a), range(1, 4));
  EXPECT_EQ(statuses_of(at_a), statuses({WcStatus::kSuccess, WcStatus::kSuccess, local(WcStatus::kLocProtErr),
                                         WcStatus::kWrFlushErr}));
  EXPECT_TRUE(b().holds(0, 4096, 1));
  EXPECT_EQ(b().word(8192), 0U);
}

TEST_P(VerbsConformance, APeerThatIsGoneIsARetryError) {
  QpInitAttributes impatient = attributes();
  impatient.timeout = 1;  // 8.2 us
  impatient.retry_cnt = 1;
  const Ends ends = connect(impatient);
  destroy(ends.far);
  post(ends.near, {write(1, a().sge(0, 8), b(), 0), write(2, a().sge(0, 8), b(), 0)});
  const auto at_a = sent(a(), 2);
  EXPECT_EQ(ids_of(at_a), range(1, 2));
  EXPECT_EQ(statuses_of(at_a), statuses({WcStatus::kRetryExcErr, WcStatus::kWrFlushErr}));
  EXPECT_EQ(ends.near.state(), QpState::kError);
  EXPECT_EQ(b().word(0), 0U);
}

TEST_P(VerbsConformance, AFailedQueuePairHarmsNoOther) {
  const Ends failing = connect();
  const Ends healthy = connect();
  SendWr bad = write(1, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  post(healthy.far, recv(9, b().sge(0, 64)));
  post(failing.near, bad);
  post(healthy.near, {send(2, a().sge(0, 8)), read(3, a().sge(0, 8), b(), 0)});
  std::size_t succeeded = 0;
  for (const WorkCompletion& wc : sent(a(), 3)) succeeded += wc.status == WcStatus::kSuccess ? 1 : 0;
  EXPECT_EQ(succeeded, 2U);
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_EQ(healthy.near.state(), QpState::kRts);
  EXPECT_EQ(healthy.far.state(), QpState::kRts);
}

TEST_P(VerbsConformance, AFullQueueInTheErrorStateDrains) {
  QpInitAttributes shallow = attributes();
  shallow.max_send_wr = 8;
  const Ends ends = connect(shallow);
  SendWr bad = write(0, a().sge(0, 8), b(), 0, 0);
  bad.rkey += 1000;
  post(ends.near, bad);
  for (unsigned i = 1; i < 8; ++i) post(ends.near, write(i, a().sge(0, 8), b(), 0, 0));
  EXPECT_EQ(ids_of(sent(a(), 8)), range(0, 8));
  for (unsigned i = 0; i < 8; ++i) post(ends.near, write(100 + i, a().sge(0, 8), b(), 0, 0));
  EXPECT_EQ(ids_of(sent(a(), 8)), range(100, 8));
}

}  // namespace verbtwin::conformance
