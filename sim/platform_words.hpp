// Words of a platform's file: whether they are any, and which known one was meant. Pure functions.
//
// scenarios/text.hpp has the like for JSON; this folder knows no scenarios.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::sim {

/// The first byte that is no printable character, in UTF-8, nor white space; npos: none.
std::size_t find_no_text(std::string_view text);

/// `; did you mean "x"?` for the nearest of these by edit distance, case aside; or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace verbtwin::sim
