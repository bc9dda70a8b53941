// What a record of a version holds, for tests.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

inline std::vector<std::byte> value_of(const RecordLayout& layout, std::uint64_t version) {
  std::vector<std::byte> value(layout.value_b);
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(version * 31 + i * 7 + 1);
  return value;
}

inline bool holds(const RecordLayout& layout, const std::byte* image, std::uint64_t version) {
  return load_word(image + 8) == version &&
         std::ranges::equal(std::span(image + kRecordHeaderBytes, layout.value_b), value_of(layout, version));
}

}  // namespace verbtwin::protocols
