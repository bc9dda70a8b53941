#include "protocols/store/ring_log.hpp"

#include <algorithm>
#include <atomic>

namespace verbtwin::protocols {

namespace {

std::uint64_t frame_word(std::uint32_t number, std::size_t bytes) {
  return static_cast<std::uint64_t>(number) << 32 | static_cast<std::uint64_t>(bytes);
}

/// Where the entry behind position `at` starts: there, or at the next lap where the longest entry would not fit.
std::uint64_t entry_start(const LogSpec& spec, std::uint64_t at) {
  const std::uint64_t left = spec.ring_b - at % spec.ring_b;
  return left < spec.entry_max_b ? at + left : at;
}

}  // namespace

std::optional<LogWriter::Place> LogWriter::reserve(std::size_t bytes) {
  const std::uint64_t start = entry_start(spec_, tail_);
  if (bytes > spec_.entry_max_b || start + bytes - head_ > spec_.ring_b) return std::nullopt;
  tail_ = start + bytes;
  uncertain_.push_back({++entries_, false, tail_});
  return Place{start % spec_.ring_b, frame_word(entries_, bytes)};
}

void LogWriter::make_certain(std::uint64_t frame) {
  const auto number = static_cast<std::uint32_t>(frame >> 32);
  uncertain_[number - uncertain_.front().number].certain = true;
  const auto first_open = std::ranges::find(uncertain_, false, &Uncertain::certain);
  if (first_open == uncertain_.begin()) return;
  certain_ = (first_open - 1)->end;
  uncertain_.erase(uncertain_.begin(), first_open);
}

std::optional<std::span<const std::byte>> LogReader::next(const LogSpec& spec, std::span<std::byte> ring) {
  const std::uint64_t start = entry_start(spec, head_);
  std::byte* at = ring.data() + start % spec.ring_b;
  const std::uint64_t frame = atomic_word(at).load(std::memory_order_acquire);
  const std::uint64_t bytes = frame & 0xFFFFFFFF;
  if (frame >> 32 != entries_ + 1ULL || bytes < 2 * kLogFrameBytes || bytes > spec.entry_max_b) return std::nullopt;
  if (atomic_word(at + bytes - kLogFrameBytes).load(std::memory_order_acquire) != frame) return std::nullopt;
  head_ = start + bytes;
  ++entries_;
  return std::span<const std::byte>(at + kLogFrameBytes, bytes - 2 * kLogFrameBytes);
}

}  // namespace verbtwin::protocols
