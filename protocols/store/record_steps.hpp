// What copy_record() and install() do to a record in memory, one word after another, over whatever takes the
// words: tests put another's steps between any two of them.
//
// Pure functions. `load(offset)` and `store(offset, word)` reach a word of the record: a load acquires, and
// no load or store comes before one that stands ahead of it here.
#pragma once

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

/// In a tail: what is in its line is not whole. No record has this version.
inline constexpr std::uint64_t kUnfinishedTail = ~std::uint64_t{0};

template <typename Load>
RecordView copy_record_by(const RecordLayout& layout, const Load& load, std::byte* image) {
  const std::uint64_t version = load(8);
  for (std::uint32_t at = 0; at < layout.image_b; at += 8) store_word(image + at, load(at));
  RecordView view = inspect(layout, image);
  // The lock first: a writer whose bytes were met either holds it still, or has let go, and then its version
  // is there. Asked the other way round, it could install its version and let go in between.
  const bool moved = load(0) != view.lock || load(8) != version;
  if (view.state == RecordState::kStable && moved) view.state = RecordState::kTorn;
  return view;
}

template <typename Store>
void install_by(const RecordLayout& layout, const Store& store, std::uint64_t version,
                std::span<const std::byte> value) {
  // Of two lines the second has nothing but the version to prove itself, and a NIC may take it half written:
  // beside a first line from before the lock the old version would do, beside one from after it the new one.
  if (layout.has_tail && !layout.digests) store(layout.tail_offset(), kUnfinishedTail);
  std::byte padded[8] = {};
  for (std::uint32_t at = 0; at < value.size(); at += 8) {
    const std::size_t bytes = value.size() - at < 8 ? value.size() - at : 8;
    std::memcpy(padded, value.data() + at, bytes);
    store(kRecordHeaderBytes + at, load_word(padded));
  }
  if (layout.has_tail) store(layout.tail_offset(), tail_word(layout, version, value));
  store(8, version);
}

}  // namespace verbtwin::protocols
