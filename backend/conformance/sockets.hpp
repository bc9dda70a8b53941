// The conformance suite of backend/sockets.hpp: what protocols rely on of byte streams, through the interface
// alone. To be included by one file of a test program, which names the bindings to run it on:
//
//   INSTANTIATE_TEST_SUITE_P(Loopback, SocketsConformance, testing::Values(SocketCase{"tcp", make_tcp}),
//   socket_case_name);
//
// Each test makes a binding of its own and owns it; everything runs in the test's thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/sockets.hpp"

namespace verbtwin::conformance {

class SocketBinding {
 public:
  static constexpr int kEndpoints = 3;
  virtual ~SocketBinding() = default;
  virtual Sockets& sockets(int endpoint) = 0;
  /// Lets time pass until `done`; false if it never is.
  virtual bool run_until(const std::function<bool()>& done) = 0;
  /// Lets what is under way arrive.
  virtual void settle() = 0;
};

struct SocketCase {
  std::string name;
  std::function<std::unique_ptr<SocketBinding>()> make;
};
inline void PrintTo(const SocketCase& binding, std::ostream* out) {
  *out << binding.name;
}
inline std::string socket_case_name(const testing::TestParamInfo<SocketCase>& info) {
  return info.param.name;
}

class SocketsConformance : public testing::TestWithParam<SocketCase> {
 protected:
  void SetUp() override { binding = GetParam().make(); }

  /// Bytes that tell where in the stream they are.
  static std::vector<std::byte> stream(std::size_t length, unsigned seed) {
    std::vector<std::byte> bytes(length);
    for (std::size_t i = 0; i < length; ++i) {
      bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 17 + (i >> 16) * 5 + seed) & 0xFF);
    }
    return bytes;
  }

  Sockets& at(int endpoint) { return binding->sockets(endpoint); }

  struct Told {
    std::vector<int> readable, writable;
  };
  Told poll(int endpoint) {
    std::array<SocketReady, 8> ready;
    Told told;
    const std::size_t count = at(endpoint).poll(ready);
    for (std::size_t i = 0; i < count; ++i) {
      if (ready[i].readable) told.readable.push_back(ready[i].node);
      if (ready[i].writable) told.writable.push_back(ready[i].node);
    }
    return told;
  }
  bool becomes_readable(int endpoint) {
    return binding->run_until([&] { return !poll(endpoint).readable.empty(); });
  }

  /// Reads what is there in pieces of `piece`.
  void drain(int endpoint, int from, std::size_t piece, std::vector<std::byte>& into) {
    std::vector<std::byte> buffer(piece);
    while (const std::size_t length = at(endpoint).receive(from, buffer)) {
      into.insert(into.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(length));
    }
  }
  /// Sends until the connection takes no more; how much that was.
  std::size_t fill(int endpoint, int to, std::span<const std::byte> bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const std::size_t taken = at(endpoint).send(to, bytes.subspan(sent));
      if (taken == 0) break;
      sent += taken;
    }
    return sent;
  }

  std::unique_ptr<SocketBinding> binding;
};

TEST_P(SocketsConformance, NothingIsThereAtFirst) {
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(at(0).receive(1, buffer), 0U);
  EXPECT_TRUE(poll(0).readable.empty());
  EXPECT_TRUE(poll(0).writable.empty()) << "nobody has asked for room";
}

TEST_P(SocketsConformance, BytesArriveInOrderWhateverThePieces) {
  const std::vector<std::byte> bytes = stream(200'000, 1);
  std::vector<std::byte> received;
  std::size_t sent = 0, step = 0;
  ASSERT_TRUE(binding->run_until([&] {
    const std::size_t piece = std::min<std::size_t>(1 + (step++ * 37) % 3001, bytes.size() - sent);
    sent += at(0).send(1, std::span(bytes).subspan(sent, piece));
    drain(1, 0, 1 + step % 997, received);
    return received.size() == bytes.size();
  }));
  EXPECT_EQ(received, bytes);
}

TEST_P(SocketsConformance, PollTellsAsLongAsThereIsSomething) {
  const std::vector<std::byte> bytes = stream(100, 2);
  ASSERT_EQ(at(0).send(1, bytes), 100U);
  ASSERT_TRUE(becomes_readable(1));
  binding->settle();
  EXPECT_THAT(poll(1).readable, testing::ElementsAre(0));
  std::array<std::byte, 60> buffer;
  EXPECT_EQ(at(1).receive(0, buffer), 60U);
  EXPECT_THAT(poll(1).readable, testing::ElementsAre(0)) << "40 bytes are left";
  EXPECT_EQ(at(1).receive(0, buffer), 40U);
  EXPECT_TRUE(poll(1).readable.empty());
}

TEST_P(SocketsConformance, ConnectionsAreApart) {
  at(0).send(2, stream(1000, 3));
  at(1).send(2, stream(1000, 4));
  at(2).send(0, stream(1000, 5));
  std::vector<std::byte> from_0, from_1, back;
  ASSERT_TRUE(binding->run_until([&] {
    drain(2, 0, 512, from_0);
    drain(2, 1, 512, from_1);
    drain(0, 2, 512, back);
    return from_0.size() + from_1.size() + back.size() == 3000;
  }));
  EXPECT_EQ(from_0, stream(1000, 3));
  EXPECT_EQ(from_1, stream(1000, 4));
  EXPECT_EQ(back, stream(1000, 5));
}

TEST_P(SocketsConformance, APeerThatDoesNotReadHoldsBackTheSender) {
  const std::vector<std::byte> bytes = stream(64'000'000, 6);
  std::size_t sent = 0, last = 1;
  while (sent != last) {  // until it takes no more, also after what is under way has arrived
    last = sent;
    sent += fill(0, 1, std::span(bytes).subspan(sent));
    binding->settle();
  }
  ASSERT_GT(sent, 1000U);
  ASSERT_LT(sent, bytes.size()) << "what is in flight is bounded";
  at(0).want_room(1, true);
  EXPECT_TRUE(poll(0).writable.empty());

  std::vector<std::byte> received;
  ASSERT_TRUE(binding->run_until([&] {
    drain(1, 0, 65'536, received);
    return !poll(0).writable.empty();
  })) << "what was read makes room";
  EXPECT_THAT(poll(0).writable, testing::ElementsAre(1));
  EXPECT_GT(at(0).send(1, std::span(bytes).subspan(sent, 10)), 0U);
  at(0).want_room(1, false);
  EXPECT_TRUE(poll(0).writable.empty());
  ASSERT_TRUE(binding->run_until([&] {
    drain(1, 0, 65'536, received);
    return received.size() >= sent;
  }));
  EXPECT_TRUE(std::equal(received.begin(), received.end(), bytes.begin()));
}

TEST_P(SocketsConformance, BothDirectionsAtOnce) {
  const std::vector<std::byte> there = stream(3'000'000, 7), back = stream(3'000'000, 8);
  std::vector<std::byte> got_there, got_back;
  std::size_t sent_there = 0, sent_back = 0;
  ASSERT_TRUE(binding->run_until([&] {
    sent_there += fill(0, 1, std::span(there).subspan(sent_there));
    sent_back += fill(1, 0, std::span(back).subspan(sent_back));
    drain(1, 0, 65'536, got_there);
    drain(0, 1, 65'536, got_back);
    return got_there.size() == there.size() && got_back.size() == back.size();
  }));
  EXPECT_EQ(got_there, there);
  EXPECT_EQ(got_back, back);
}

}  // namespace verbtwin::conformance
