// RemoteFetch: RF-RPC (TPDS 2019): a request is WRITTEN into a ring that the server's CPU polls, its result
// stays in the server's memory, and the client READs it: a server's NIC serves READs at a higher rate than it
// issues WRITEs. Where the server takes long the client would READ in vain; it asks for replies then.
//
// A result is framed by the request's number at both ends, and counts when both are there: a READ may meet
// the CPU writing it. (The bytes between are an echo's, which nobody looks at; where they matter they need a
// digest as well: nothing promises that a READ takes lines in order.) The first READ takes `fetch_b` bytes,
// since the client does not know the result's length; what is longer takes a second one.
//
// Chosen: a request says whether its caller will fetch, and a client changes its mind from its next request
// on. Rejected: a mode flag of its own that the client WRITEs at the server while a call is under way, which
// saves READs of one call in each change, and has the server look at the flag and the client at the result
// once more, each behind its own store, lest each waits for the other; giving RF-RPC up for good once the
// server was slow.
//
// Belongs to one Worker and its thread; created after it and destroyed before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocols/micro/connected_echo.hpp"
#include "protocols/micro/fetched_places.hpp"

namespace verbtwin::protocols {

/// How a client gets the results of one server: two calls in a row of which each fetched in vain more than
/// `tries` times change it to replies; a reply whose server took less time than in either of those calls, by
/// the microsecond, changes it back.
class FetchMode {
 public:
  explicit FetchMode(std::uint32_t tries) : tries_(tries) {}

  bool fetches() const { return fetches_; }

  void fetched(std::uint32_t in_vain, std::uint16_t server_time_us) {
    if (in_vain <= tries_) {
      slow_calls_ = 0;
      return;
    }
    slow_us_ = slow_calls_ == 0 ? server_time_us : std::min(slow_us_, server_time_us);
    if (++slow_calls_ < 2) return;
    fetches_ = false;
    slow_calls_ = 0;
  }
  void replied(std::uint16_t server_time_us) { fetches_ = fetches_ || server_time_us < slow_us_; }

 private:
  std::uint32_t tries_;
  std::uint32_t slow_calls_ = 0;
  std::uint16_t slow_us_ = 0;
  bool fetches_ = true;
};

class RemoteFetch final : public ConnectedEcho {
 public:
  RemoteFetch(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory);

  static std::size_t memory_bytes(const EchoOptions& options, const ClusterShape& shape, int coroutines);

  Task<WcStatus> call(int node, int coroutine) override;

 private:
  Task<WcStatus> call_and_fetch(int node, int coroutine);
  void answer(int node, std::uint32_t number, std::uint32_t what, std::uint16_t took_us) override;
  FetchMode& mode(int node) { return modes_[static_cast<std::size_t>(node)]; }

  FetchedPlaces results_;
  std::vector<FetchMode> modes_;  // by server
};

}  // namespace verbtwin::protocols
