// The run's token as peers show it to each other: fixed in size, compared in constant time.
//
// Free functions, callable from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace verbtwin::ibverbs {

template <std::size_t kSize>
std::array<char, kSize> fixed_text(std::string_view text) {
  std::array<char, kSize> to{};
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
  return to;
}

using TokenText = std::array<char, 64>;
inline TokenText token_text(std::string_view token) {
  return fixed_text<64>(token);
}

/// Takes as long wherever the first difference is.
inline bool same_token(const TokenText& a, const TokenText& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace verbtwin::ibverbs
