#include "tools/console/shell_word.hpp"

#include <algorithm>
#include <string_view>

namespace verbtwin::tools {

namespace {

bool means_itself(char c) {
  constexpr std::string_view kOthers = "_./=:,+@%-";
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         kOthers.find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, means_itself)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace verbtwin::tools
