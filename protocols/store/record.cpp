#include "protocols/store/record.hpp"

#include "protocols/checks/history.hpp"
#include "protocols/store/record_steps.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint32_t round_up(std::uint32_t n, std::uint32_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

RecordLayout::RecordLayout(std::uint32_t value_bytes) : value_b(value_bytes) {
  image_b = kRecordHeaderBytes + round_up(value_bytes, 8);
  has_tail = image_b > kCacheLineBytes;
  if (has_tail) image_b += 8;
  digests = image_b > 2 * kCacheLineBytes;
  stride_b = 32;
  while (stride_b < image_b && stride_b < kCacheLineBytes) stride_b *= 2;
  if (stride_b < image_b) stride_b = round_up(image_b, kCacheLineBytes);
}

std::uint64_t written_digest(std::uint64_t version_word, std::span<const std::byte> value) {
  return value_digest((version_word & kDeletedBit) != 0 ? std::span<const std::byte>{} : value);
}

std::uint64_t tail_word(const RecordLayout& layout, std::uint64_t version, std::span<const std::byte> value) {
  // Never written: all zero, whatever the initial value is.
  return layout.digests && version != 0 ? version ^ value_digest(value) : version;
}

RecordView inspect(const RecordLayout& layout, const std::byte* image) {
  RecordView view{load_word(image), load_word(image + 8), RecordState::kStable};
  if (view.lock != 0) {
    view.state = RecordState::kLocked;
  } else if (layout.has_tail &&
             load_word(image + layout.tail_offset()) !=
                 tail_word(layout, view.version, {image + kRecordHeaderBytes, layout.value_b})) {
    view.state = RecordState::kTorn;
  }
  return view;
}

// A record that NICs and other threads may change underneath is copied word by word. Each load acquires what
// install() released with that word: whoever has seen a byte of a write sees that it was locked for it, too.
RecordView copy_record(const RecordLayout& layout, std::byte* record, std::byte* image) {
  const auto load = [record](std::uint32_t at) {
    return atomic_word(record + at).load(std::memory_order_acquire);
  };
  return copy_record_by(layout, load, image);
}

void install(const RecordLayout& layout, std::byte* record, std::uint64_t version,
             std::span<const std::byte> value) {
  const auto store = [record](std::uint32_t at, std::uint64_t word) {
    atomic_word(record + at).store(word, std::memory_order_release);
  };
  install_by(layout, store, version, value);
}

bool try_lock(std::byte* record, std::uint64_t owner) {
  std::uint64_t expected = 0;
  return atomic_word(record).compare_exchange_strong(expected, owner, std::memory_order_seq_cst,
                                                     std::memory_order_relaxed);
}

std::uint64_t lock_word(std::byte* record) {
  return atomic_word(record).load(std::memory_order_seq_cst);
}

void unlock(std::byte* record) {
  atomic_word(record).store(0, std::memory_order_release);
}

}  // namespace verbtwin::protocols
