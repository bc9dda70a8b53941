#include "tools/console/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace verbtwin::tools {

namespace {

/// Three significant digits of a value below 1000.
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string format_count(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string format_si(double value) {
  if (!std::isfinite(value) || value < 0) return "-";
  if (value < 999.5) return value == std::floor(value) ? fmt::format("{:.0f}", value) : three_digits(value);
  constexpr std::array<const char*, 4> kPrefixes = {" k", " M", " G", " T"};
  std::size_t prefix = 0;
  for (value /= 1000; value >= 999.5 && prefix + 1 < kPrefixes.size(); value /= 1000) ++prefix;
  return three_digits(value) + kPrefixes[prefix];
}

std::string format_us(double value_us) {
  if (!std::isfinite(value_us) || value_us < 0) return "-";
  if (value_us < 999.5) return three_digits(value_us);
  return format_count(static_cast<std::uint64_t>(std::llround(value_us)));
}

std::string format_percent(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  const double percent = ratio * 100;
  return percent != 0 && std::abs(percent) < 0.995 ? fmt::format("{:.2f} %", percent)
                                                   : fmt::format("{:.1f} %", percent);
}

std::string format_ratio(double ratio) {
  // Something thousands of times as slow is not 0.
  return std::abs(ratio) < 0.1 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.2f}", ratio);
}

std::string format_seconds(double value_s) {
  if (!std::isfinite(value_s) || value_s < 0) return "-";
  if (value_s < 0.0995) return fmt::format("{:.0f} ms", value_s * 1e3);
  if (value_s < 99.5) return fmt::format("{:.{}f} s", value_s, value_s < 9.95 ? 2 : 0);
  const auto whole_s = static_cast<std::uint64_t>(std::llround(value_s));
  if (whole_s < 3600) return fmt::format("{} min {} s", whole_s / 60, whole_s % 60);
  return fmt::format("{} h {} min", whole_s / 3600, whole_s % 3600 / 60);
}

std::string format_bar(double ratio, std::size_t width) {
  const double clamped = std::isfinite(ratio) ? std::clamp(ratio, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width)));
  return std::string(filled, '#') + std::string(width - filled, '-');
}

namespace {

/// A byte that a character begins with (UTF-8).
bool begins_one(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

}  // namespace

std::size_t columns_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_one));
}

std::string end_of(const std::string& text, std::size_t columns) {
  std::size_t left = columns_in(text);
  if (left <= columns) return text;
  std::size_t at = 0;
  while (left >= columns || !begins_one(text[at])) left -= begins_one(text[at++]) ? 1 : 0;
  return fmt::format("~{}", std::string_view(text).substr(at));
}

std::string wrap(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(' '), text.size());
    const bool first_of_line = column == indent;
    if (!first_of_line && column + 1 + length > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!first_of_line) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, length);
    column += length;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

std::string labelled(std::string_view label, std::string_view text, std::size_t width) {
  constexpr std::size_t kLabelColumns = 13;
  return fmt::format("{:<{}}{}\n", label, kLabelColumns, wrap(text, kLabelColumns, width));
}

}  // namespace verbtwin::tools
