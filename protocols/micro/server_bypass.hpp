// ServerBypass: a call that the server's CPU has no part in: READs one after another, as a GET of a key-value
// store takes that probes the index, then reads the value, then checks (Pilaf: 3.2 of them on the average).
//
// Belongs to one Worker and its thread; created after it and destroyed before it.
#pragma once

#include <span>

#include "protocols/micro/echo.hpp"
#include "protocols/micro/fetched_places.hpp"

namespace verbtwin::protocols {

class ServerBypass final : public EchoTransport {
 public:
  ServerBypass(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory)
      : options_(options), worker_(worker), values_(worker, memory, options.reply_b, coroutines) {}

  Task<WcStatus> call(int node, int coroutine) override {
    Channel& channel = worker_.channel(node, worker_.nic());
    reads_due_ += options_.reads_per_call;
    const auto reads = static_cast<int>(reads_due_);
    reads_due_ -= reads;
    for (int i = 0; i < reads; ++i) {
      auto read = values_.fetch(channel, coroutine, 0, options_.reply_b);
      const WcStatus status = co_await read;
      if (status != WcStatus::kSuccess) co_return status;
    }
    co_return WcStatus::kSuccess;
  }

 private:
  const EchoOptions& options_;
  Worker& worker_;
  FetchedPlaces values_;
  double reads_due_ = 0;  // what calls so far were short of, less than one
};

}  // namespace verbtwin::protocols
