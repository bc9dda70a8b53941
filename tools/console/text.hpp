// Words and numbers as a person reads them on a terminal: units, tables' cells, bars, wrapped lines.
//
// Pure functions, callable from any thread. Output is ASCII and the same in every locale.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace verbtwin::tools {

/// 1234567 -> "1,234,567".
std::string format_count(std::uint64_t value);

/// "1 coroutine", "1,234 coroutines".
template <std::integral Count>
std::string format_counted(Count value, std::string_view one) {
  return format_count(static_cast<std::uint64_t>(value)).append(" ").append(one) + (value == 1 ? "" : "s");
}

/// Three digits and a prefix: 62312 -> "62.3 k", 950 -> "950", 3.9e6 -> "3.90 M"; what is not finite -> "-".
std::string format_si(double value);

/// A time in microseconds, without the unit: "1.23", "12.3", "123", "12,345".
std::string format_us(double value_us);

/// 0.9312 -> "93.1 %".
std::string format_percent(double ratio);

/// How many times as much, two digits at the least: "1.02", "0.93", "0.0005".
std::string format_ratio(double ratio);

/// "1.2 s", "340 ms", "3 min 20 s".
std::string format_seconds(double value_s);

/// `ratio` of `width` characters filled: "####------". A ratio outside [0, 1] is clamped.
std::string format_bar(double ratio, std::size_t width);

/// How many characters (UTF-8) it has.
std::size_t columns_in(const std::string& text);

/// Of a text that is longer its end, as names that are alike begin alike. Characters (UTF-8) stay whole.
std::string end_of(const std::string& text, std::size_t columns);

/// Breaks `text` at spaces so that no line is longer than `width` (a longer word keeps its line), with
/// `indent` spaces before every line but the first, which the caller has already begun with that many
/// characters.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width);

/// A line of its own: a label in 13 columns, then `text` wrapped beside it.
std::string labelled(std::string_view label, std::string_view text, std::size_t width = 78);

}  // namespace verbtwin::tools
