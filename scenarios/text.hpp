// Words for one-line messages: hostile input made printable, and the known name nearest to a misspelt one.
//
// Pure functions, callable from any thread. Lengths in bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::scenarios {

/// What some editors put in front of a text; no part of it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// `text` on one line: control characters, line separators, direction overrides and bytes that are no UTF-8
/// are escaped; what is longer than `length_max` is cut and ends in "...".
std::string one_line(std::string_view text, std::size_t length_max = 300);

/// `text` with spaces for what no XML may hold, escaped or not: most control characters, U+FFFE and U+FFFF,
/// bytes that are no UTF-8.
std::string for_xml(std::string_view text);

/// `text` in double quotes, on one line, short enough to stand in a message.
std::string in_quotes(std::string_view text);

/// "a, b, c", cut after the first few.
std::string listed(const std::vector<std::string>& names);

/// The candidate that begins with `name`, or is the same verb, or is nearest by edit distance (case does not
/// count); empty where none is close enough to be what was meant.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// `; did you mean "x"?` for the nearest candidate, or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace verbtwin::scenarios
