#include "sim/platform_words.hpp"

#include <algorithm>
#include <cstdint>

#include "backend/edit_distance.hpp"

namespace verbtwin::sim {

namespace {

/// In bytes, of the character that `text` begins with; 0: it is none that is printed.
std::size_t length_of_first(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) {
    const bool is_space = lead == '\t' || lead == '\n' || lead == '\r';
    return (lead >= ' ' && lead != 0x7f) || is_space ? 1 : 0;
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  std::uint32_t value = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0 are controls
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  return value < kLeast[length] || value > 0x10ffff || is_surrogate ? 0 : length;
}

}  // namespace

std::size_t find_no_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = length_of_first(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t least = 0;
  for (const std::string& word : known) {
    const std::size_t longer = std::max(name.size(), word.size());
    // The difference in length bounds the distance from below: an endless name costs nothing.
    if (longer - std::min(name.size(), word.size()) > longer / 3) continue;
    const std::size_t far = edit_distance(name, word);
    if (far > longer / 3 || (best != nullptr && far >= least)) continue;
    best = &word;
    least = far;
  }
  return best == nullptr || *best == name ? "" : "; did you mean \"" + *best + "\"?";
}

}  // namespace verbtwin::sim
