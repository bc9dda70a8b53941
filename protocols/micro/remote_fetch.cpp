#include "protocols/micro/remote_fetch.hpp"

#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::size_t kFrame_b = 8;  // at either end of a result

std::size_t result_bytes(const EchoOptions& options) {
  return kFrame_b + whole_words(options.reply_b) + kFrame_b;
}

/// The first READ takes `fetch_b` of it, whatever the result's length.
std::size_t place_bytes(const EchoOptions& options) {
  return std::max<std::size_t>(result_bytes(options), options.fetch_b);
}

std::size_t echo_bytes(const EchoOptions& options, const ClusterShape& shape, int coroutines) {
  return ConnectedEchoLayout(options, shape, coroutines).total_b;
}

/// Of the result of request `number`; never 0, as memory without one is.
std::uint64_t frame(std::uint32_t number, std::uint16_t server_time_us) {
  return (std::uint64_t{number} + 1) << 16 | server_time_us;
}
bool is_frame_of(std::uint64_t word, std::uint32_t number) {
  return word >> 16 == std::uint64_t{number} + 1;
}

}  // namespace

RemoteFetch::RemoteFetch(const EchoOptions& options, int coroutines, Worker& worker,
                         std::span<std::byte> memory)
    : ConnectedEcho(options, coroutines, worker, memory),
      results_(worker, memory.subspan(echo_bytes(options, worker.port().shape(), coroutines)),
               place_bytes(options), coroutines),
      modes_(static_cast<std::size_t>(worker.port().shape().nodes), FetchMode(options.fetch_tries)) {}

std::size_t RemoteFetch::memory_bytes(const EchoOptions& options, const ClusterShape& shape, int coroutines) {
  return echo_bytes(options, shape, coroutines) +
         FetchedPlaces::memory_bytes(place_bytes(options), shape, coroutines);
}

Task<WcStatus> RemoteFetch::call(int node, int coroutine) {
  if (mode(node).fetches()) {
    auto fetching = call_and_fetch(node, coroutine);
    co_return co_await fetching;
  }
  auto replying = ConnectedEcho::call(node, coroutine);
  const WcStatus status = co_await replying;
  mode(node).replied(server_time_us(coroutine));
  co_return status;
}

Task<WcStatus> RemoteFetch::call_and_fetch(int node, int coroutine) {
  WaitGroup sent(worker_);
  const std::uint32_t number = request(node, kNoReplyBit | static_cast<std::uint32_t>(coroutine), &sent);
  co_await sent;
  if (sent.status() != WcStatus::kSuccess) co_return sent.status();

  const std::size_t result_b = result_bytes(options_);
  std::byte* landing = results_.landing(coroutine);
  for (std::uint32_t in_vain = 0;; ++in_vain) {
    auto first = results_.fetch(*peer(node).channel, coroutine, 0, options_.fetch_b);
    const WcStatus first_status = co_await first;
    if (first_status != WcStatus::kSuccess) co_return first_status;
    cpu_.charge(Cost::kPollSlot);
    const std::uint64_t head = atomic_word(landing).load(std::memory_order_acquire);
    if (!is_frame_of(head, number)) continue;
    if (result_b > options_.fetch_b) {
      auto rest =
          results_.fetch(*peer(node).channel, coroutine, options_.fetch_b, result_b - options_.fetch_b);
      const WcStatus rest_status = co_await rest;
      if (rest_status != WcStatus::kSuccess) co_return rest_status;
    }
    const std::uint64_t tail = atomic_word(landing + result_b - kFrame_b).load(std::memory_order_acquire);
    if (tail != head) continue;
    cpu_.charge(Cost::kRpcReceive);
    cpu_.charge(Cost::kCopyBlock, options_.reply_b / kCacheLineBytes);
    mode(node).fetched(in_vain, static_cast<std::uint16_t>(head));
    co_return WcStatus::kSuccess;
  }
}

void RemoteFetch::answer(int node, std::uint32_t number, std::uint32_t what, std::uint16_t took_us) {
  if ((what & kNoReplyBit) == 0) {
    ConnectedEcho::answer(node, number, what, took_us);
    return;
  }
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, options_.reply_b / kCacheLineBytes);
  std::byte* result = results_.at_server(node, static_cast<int>(what % kCoroutines));
  cpu_.publish_word(result + result_bytes(options_) - kFrame_b, frame(number, took_us));
  cpu_.publish_word(result, frame(number, took_us));
}

}  // namespace verbtwin::protocols
