#include "protocols/store/ring_log.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>

#include "protocols/remainder.hpp"

namespace verbtwin::protocols {

namespace {

// A frame: number 16 bits, size 16 bits, hash of the body 32 bits. What the number has no room for is XORed
// into the hash: a ring may hold entries of 65,536 numbers ago, and of one body with those to come. So is a
// hash of the 32 bits beside it: else an entry of an earlier lap would pass for a later one where nothing but
// the bytes of its number had been written over at both ends.
constexpr std::uint64_t kHashMask = 0xFFFFFFFF;

std::uint64_t hash_of_head(std::uint64_t frame) {
  return (frame >> 32) * 0x9E3779B97F4A7C15 >> 32;
}

std::uint64_t frame_word(std::uint64_t number, std::size_t bytes) {
  const std::uint64_t head = number << 48 | static_cast<std::uint64_t>(bytes) << 32;
  return head | ((number >> 16 ^ hash_of_head(head)) & kHashMask);
}

/// The number that a frame was made of.
std::uint64_t number_of(std::uint64_t frame) {
  return ((frame ^ hash_of_head(frame)) & kHashMask) << 16 | frame >> 48;
}

std::span<const std::byte> body_of(std::span<const std::byte> entry) {
  return entry.subspan(kLogFrameBytes, entry.size() - 2 * kLogFrameBytes);
}

/// Half a frame may be there: any size can stand in it.
bool is_plausible(const LogSpec& spec, std::uint64_t bytes) {
  return bytes % 8 == 0 && bytes >= 2 * kLogFrameBytes && bytes <= spec.entry_max_b;
}

/// The frame at the other end says the same as this one, `found`, and what is between is what was framed with
/// `frame`.
bool is_whole(std::span<std::byte> entry, std::uint64_t found, std::uint64_t frame) {
  std::byte* end = entry.data() + entry.size() - kLogFrameBytes;
  return atomic_word(end).load(std::memory_order_acquire) == found &&
         (log_entry_digest(entry) ^ frame) == found;
}

/// Where the entry behind position `at` starts: there, or in the next part or lap where the longest entry
/// would not fit.
std::uint64_t entry_start(const LogSpec& spec, std::uint64_t at) {
  const std::uint64_t left = spec.part_b() - remainder_of<std::uint64_t>(at, spec.part_b());
  return left < spec.entry_max_b ? at + left : at;
}

}  // namespace

std::uint64_t log_entry_digest(std::span<const std::byte> entry) {
  return value_digest(body_of(entry)) & kHashMask;
}

void close_lock_entry(std::byte* entry) {
  const std::uint64_t frame = load_word(entry);
  const std::span<std::byte> whole(entry, frame >> 32 & 0xFFFF);
  const std::uint64_t reserved = frame ^ log_entry_digest(whole);
  std::byte* at = whole.data() + kLogFrameBytes + offsetof(LogRecord, kind);
  constexpr LogKind kClosed = LogKind::kClosedLock;
  std::memcpy(at, &kClosed, sizeof kClosed);
  seal_log_entry(whole, reserved);
}

std::span<const std::byte> log_entry_body(const std::byte* entry) {
  return {entry + kLogFrameBytes, (load_word(entry) >> 32 & 0xFFFF) - 2 * kLogFrameBytes};
}

LogHead log_head(std::span<const std::byte> body) {
  LogHead head{};
  if (body.size() >= sizeof head) std::memcpy(&head, body.data(), sizeof head);
  return head;
}

std::span<const std::byte> log_writes(std::span<const std::byte> body) {
  return log_head(body).kind == LogKind::kBackup ? body : body.subspan(sizeof(LogHead));
}

bool is_lock_entry(const LogSpec& spec, std::byte* entry, std::uint64_t frame) {
  const std::uint64_t found = atomic_word(entry).load(std::memory_order_acquire);
  const std::uint64_t bytes = found >> 32 & 0xFFFF;
  if (found >> 32 != frame >> 32 || !is_plausible(spec, bytes) || !is_whole({entry, bytes}, found, frame))
    return false;
  const LogKind kind = log_head(body_of({entry, bytes})).kind;
  return kind == LogKind::kLock || kind == LogKind::kClosedLock;
}

void seal_log_entry(std::span<std::byte> entry, std::uint64_t frame, std::uint64_t digest) {
  frame ^= digest;
  store_word(entry.data(), frame);
  store_word(entry.data() + entry.size() - kLogFrameBytes, frame);
}

bool LogWriter::has_room(std::size_t bytes) const {
  return bytes <= spec_.entry_max_b && entry_start(spec_, tail_) + bytes - head_ <= spec_.ring_b;
}

std::optional<LogWriter::Place> LogWriter::reserve(std::size_t bytes) {
  if (!has_room(bytes)) return std::nullopt;
  const std::uint64_t start = entry_start(spec_, tail_);
  tail_ = start + bytes;
  uncertain_.push_back({tail_, false});
  ++entries_;
  return Place{remainder_of<std::uint64_t>(start, spec_.ring_b), frame_word(entries_, bytes)};
}

bool LogWriter::can_promise(std::size_t bytes) const {
  // Ends of parts lie in what is promised, where less than the longest entry is skipped: of a whole ring's
  // lap at most one; of segments one for each that would fill up, and one more.
  const std::uint64_t promised_b = promised_ + bytes;
  const std::uint64_t used_b = spec_.segment_b - spec_.entry_max_b;  // of a segment at least
  const std::uint64_t ends = spec_.segment_b == 0 || promised_b < used_b ? 1 : promised_b / used_b + 1;
  return tail_ + promised_b + ends * spec_.entry_max_b - head_ <= spec_.ring_b;
}

bool LogWriter::promise(std::size_t bytes) {
  if (!can_promise(bytes)) return false;
  promised_ += bytes;
  return true;
}

LogWriter::Place LogWriter::reserve_promised(std::size_t bytes) {
  promised_ -= bytes;
  const std::optional<Place> place = reserve(bytes);
  assert(place && "promised room");
  return *place;
}

void LogWriter::make_certain(std::uint64_t frame) {
  uncertain_[number_of(frame) - (entries_ - uncertain_.size() + 1)].certain = true;
  std::size_t certain = 0;
  for (; certain < uncertain_.size() && uncertain_[certain].certain; ++certain)
    certain_ = uncertain_[certain].end;
  uncertain_.erase(uncertain_.begin(), uncertain_.begin() + static_cast<std::ptrdiff_t>(certain));
}

std::optional<std::span<std::byte>> LogReader::look(const LogSpec& spec, const LogRing& ring) const {
  std::byte* at = ring.at(remainder_of<std::uint64_t>(entry_start(spec, head_), spec.ring_b));
  const std::uint64_t found = atomic_word(at).load(std::memory_order_acquire);
  const std::uint64_t bytes = found >> 32 & 0xFFFF;
  const std::uint64_t frame = frame_word(entries_ + 1, bytes);
  if (found >> 32 != frame >> 32 || !is_plausible(spec, bytes) || !is_whole({at, bytes}, found, frame))
    return std::nullopt;
  return std::span<std::byte>(at, bytes);
}

std::optional<std::span<std::byte>> LogReader::find_whole(const LogSpec& spec, const LogRing& ring,
                                                          std::uint64_t& at, std::uint64_t tail) const {
  const std::uint64_t entries_most = (tail - head_) / (2 * kLogFrameBytes);
  for (at = entry_start(spec, at); at < tail; at = entry_start(spec, at + 8)) {
    std::byte* first = ring.at(remainder_of<std::uint64_t>(at, spec.ring_b));
    const std::uint64_t found = atomic_word(first).load(std::memory_order_acquire);
    const std::uint64_t bytes = found >> 32 & 0xFFFF;
    if (!is_plausible(spec, bytes) || at + bytes > tail) continue;
    if (atomic_word(first + bytes - kLogFrameBytes).load(std::memory_order_acquire) != found) continue;
    const std::span<std::byte> entry(first, bytes);
    const std::uint64_t number = number_of(found ^ log_entry_digest(entry));
    if (number > entries_ && number - entries_ <= entries_most) return entry;
  }
  return std::nullopt;
}

void LogReader::pass(const LogSpec& spec, std::size_t bytes) {
  head_ = entry_start(spec, head_) + bytes;
  ++entries_;
}

std::optional<std::span<const std::byte>> LogReader::next(const LogSpec& spec, const LogRing& ring) {
  const auto entry = look(spec, ring);
  if (!entry || log_head(body_of(*entry)).kind == LogKind::kLock) return std::nullopt;
  pass(spec, entry->size());
  return body_of(*entry);
}

std::optional<std::span<std::byte>> LogReader::take(const LogSpec& spec, const LogRing& ring) {
  const auto entry = look(spec, ring);
  if (entry) pass(spec, entry->size());
  return entry;
}

}  // namespace verbtwin::protocols
