// The fixture that every test of the conformance suite runs in: three endpoints a, b, c on the binding under
// test, queue pairs that live as long as the test, and ways to wait for completions.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/conformance/binding.hpp"
#include "backend/conformance/endpoint.hpp"

namespace verbtwin::conformance {

inline std::string case_name(const testing::TestParamInfo<BindingCase>& info) {
  return info.param.name;
}

/// wr_ids, in order.
inline std::vector<std::uint64_t> ids_of(const std::vector<WorkCompletion>& completions) {
  std::vector<std::uint64_t> ids;
  for (const WorkCompletion& wc : completions) ids.push_back(wc.wr_id);
  return ids;
}
inline std::vector<std::string> statuses_of(const std::vector<WorkCompletion>& completions) {
  std::vector<std::string> words;
  for (const WorkCompletion& wc : completions) words.emplace_back(to_string(wc.status));
  return words;
}
inline std::vector<std::string> statuses(std::initializer_list<WcStatus> expected) {
  std::vector<std::string> words;
  for (const WcStatus status : expected) words.emplace_back(to_string(status));
  return words;
}
inline std::vector<std::uint64_t> range(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < count; ++i) ids.push_back(first + i);
  return ids;
}

class VerbsConformance : public testing::TestWithParam<BindingCase> {
 protected:
  void SetUp() override {
    binding = GetParam().make();
    for (int i = 0; i < ConformanceBinding::kEndpoints; ++i) endpoints_.emplace_back(binding->device(i));
  }

  Endpoint& a() { return endpoints_[0]; }
  Endpoint& b() { return endpoints_[1]; }
  Endpoint& c() { return endpoints_[2]; }

  static QpInitAttributes attributes(QpType type = QpType::kRc) {
    QpInitAttributes attributes;
    attributes.type = type;
    return attributes;
  }

  /// A queue pair in RESET that completes on its endpoint's queues; the test owns it.
  QueuePair& make(Endpoint& endpoint, QpInitAttributes attributes) {
    attributes.send_cq = endpoint.send_cq.get();
    attributes.recv_cq = endpoint.recv_cq.get();
    queue_pairs_.push_back(endpoint.device.create_qp(attributes));
    return *queue_pairs_.back();
  }
  QueuePair& make_ud(Endpoint& endpoint) {
    QueuePair& qp = make(endpoint, attributes(QpType::kUd));
    qp.connect({});
    return qp;
  }
  void destroy(QueuePair& qp) {
    std::erase_if(queue_pairs_, [&](const auto& owned) { return owned.get() == &qp; });
  }

  struct Ends {
    QueuePair& near;
    QueuePair& far;
  };
  Ends connect(Endpoint& near, Endpoint& far, const QpInitAttributes& attributes) {
    const Ends ends{make(near, attributes), make(far, attributes)};
    join(ends);
    return ends;
  }
  Ends connect(const QpInitAttributes& attributes) { return connect(a(), b(), attributes); }
  Ends connect(QpType type = QpType::kRc) { return connect(attributes(type)); }
  static void join(const Ends& ends) {
    ends.near.connect(ends.far.address());
    ends.far.connect(ends.near.address());
  }

  static void post(QueuePair& qp, std::vector<SendWr> list) {
    const PostResult result = qp.post_send(list);
    EXPECT_EQ(result.posted, list.size());
    EXPECT_EQ(result.error, PostError::kNone);
  }
  static void post(QueuePair& qp, const SendWr& wr) { post(qp, std::vector{wr}); }
  static void post(QueuePair& qp, const RecvWr& wr) {
    const PostResult result = qp.post_recv({&wr, 1});
    EXPECT_EQ(result.posted, 1U);
    EXPECT_EQ(result.error, PostError::kNone);
  }
  static void expect_refused(QueuePair& qp, const SendWr& wr, const char* why) {
    const PostResult result = qp.post_send({&wr, 1});
    EXPECT_EQ(result.posted, 0U) << why;
    EXPECT_EQ(result.error, PostError::kInvalid) << why;
  }

  /// The next `count` completions; fewer if no more come.
  std::vector<WorkCompletion> take(CompletionQueue& cq, std::size_t count) {
    std::vector<WorkCompletion> taken(count);
    std::size_t have = 0;
    const auto enough = [&] {
      have += cq.poll(std::span(taken).subspan(have));
      return have == count;
    };
    EXPECT_TRUE(count == 0 || binding->run_until(enough)) << have << " of " << count << " completions came";
    taken.resize(have);
    return taken;
  }
  std::vector<WorkCompletion> sent(Endpoint& endpoint, std::size_t count) {
    return take(*endpoint.send_cq, count);
  }
  std::vector<WorkCompletion> received(Endpoint& endpoint, std::size_t count) {
    return take(*endpoint.recv_cq, count);
  }
  void expect_success(Endpoint& endpoint, std::size_t count) {
    for (const WorkCompletion& wc : sent(endpoint, count)) {
      EXPECT_EQ(to_string(wc.status), to_string(WcStatus::kSuccess)) << "wr_id " << wc.wr_id;
    }
  }

  /// Everything that is there now.
  static std::vector<WorkCompletion> drain(CompletionQueue& cq) {
    std::vector<WorkCompletion> all;
    std::array<WorkCompletion, 32> some;
    while (const std::size_t count = cq.poll(some)) all.insert(all.end(), some.begin(), some.begin() + count);
    return all;
  }
  /// Once everything has come to its end, nothing is left to be polled.
  void expect_silence() {
    binding->settle();
    for (Endpoint& endpoint : endpoints_) {
      EXPECT_THAT(ids_of(drain(*endpoint.send_cq)), testing::IsEmpty());
      EXPECT_THAT(ids_of(drain(*endpoint.recv_cq)), testing::IsEmpty());
    }
  }
  /// The status of a local failure, or of its consequence for the peer, where devices tell them apart.
  WcStatus local(WcStatus specified) {
    return binding->deviations().tells_local_errors_apart ? specified : WcStatus::kLocQpOpErr;
  }
  WcStatus at_peer(WcStatus specified) {
    return binding->deviations().tells_local_errors_apart ? specified : WcStatus::kRemOpErr;
  }
  bool eventually(const std::function<bool()>& holds) { return binding->run_until(holds); }

  std::unique_ptr<ConformanceBinding> binding;

 private:
  std::deque<Endpoint> endpoints_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;
};

}  // namespace verbtwin::conformance
