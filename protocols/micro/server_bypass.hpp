// ServerBypass: a call that the server's CPU has no part in: READs one after another, as a GET of a key-value
// store takes that probes entries of its index, then reads the value (Pilaf: 3.2 of them on the average).
//
// Belongs to one Worker and its thread; created after it and destroyed before it.
#pragma once

#include <algorithm>
#include <span>

#include "protocols/micro/echo.hpp"
#include "protocols/micro/fetched_places.hpp"

namespace verbtwin::protocols {

class ServerBypass final : public EchoTransport {
 public:
  ServerBypass(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory)
      : options_(options), worker_(worker), places_(worker, memory, place_b(options), coroutines) {}

  /// Of memory for a coroutine of a peer.
  static std::size_t place_b(const EchoOptions& options) {
    return std::max(options.probe_b, options.reply_b);
  }

  Task<WcStatus> call(int node, int coroutine) override {
    Channel& channel = worker_.channel(node, worker_.nic());
    reads_due_ += options_.reads_per_call;
    const auto reads = static_cast<int>(reads_due_);
    reads_due_ -= reads;
    for (int i = 0; i < reads; ++i) {
      const std::uint32_t bytes = i + 1 < reads ? options_.probe_b : options_.reply_b;
      auto read = places_.fetch(channel, coroutine, 0, bytes);
      const WcStatus status = co_await read;
      if (status != WcStatus::kSuccess) co_return status;
    }
    co_return WcStatus::kSuccess;
  }

 private:
  const EchoOptions& options_;
  Worker& worker_;
  FetchedPlaces places_;
  double reads_due_ = 0;  // what calls so far were short of, less than one
};

}  // namespace verbtwin::protocols
