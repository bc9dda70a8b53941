#include "scenarios/text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "backend/edit_distance.hpp"

namespace verbtwin::scenarios {

namespace {

constexpr std::size_t kQuotedMax = 60;
constexpr std::size_t kListedMax = 20;

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // 0: the bytes are no UTF-8
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  std::uint32_t value = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < kSmallest[length] || value > 0x10ffff || surrogate) return {};
  return {value, length};
}

bool printable(std::uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool separator = c == 0x2028 || c == 0x2029;
  const bool direction =
      c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return !control && !separator && !direction;
}

std::string escaped(CodePoint c, char first_byte) {
  char out[16];
  if (c.length == 0) {
    std::snprintf(out, sizeof out, "\\x%02x", static_cast<unsigned>(static_cast<std::uint8_t>(first_byte)));
  } else if (c.value == '\n') {
    return "\\n";
  } else {
    std::snprintf(out, sizeof out, "\\u%04x", static_cast<unsigned>(c.value));
  }
  return out;
}

bool begins_with(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), text.begin(),
                                                       [](char a, char b) { return lower(a) == lower(b); });
}

/// The shortest candidate that begins with `name`.
std::string completed(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kTypedMin = 3;  // fewer letters begin too much
  std::string best;
  if (name.size() < kTypedMin) return best;
  for (const std::string& candidate : candidates)
    if (begins_with(candidate, name) && (best.empty() || candidate.size() < best.size())) best = candidate;
  return best;
}

/// What verbs are called elsewhere, which no distance tells.
std::string other_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"cas", "compare_swap"}, {"cmp_and_swp", "compare_swap"}, {"faa", "fetch_add"}};
  for (const auto& [elsewhere, here] : kNames) {
    const bool meant = name.size() == elsewhere.size() && begins_with(name, elsewhere);
    if (meant && std::ranges::find(candidates, here) != candidates.end()) return std::string(here);
  }
  return "";
}

}  // namespace

std::string one_line(std::string_view text, std::size_t length_max) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = decode(text);
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    const std::string next =
        c.length > 0 && printable(c.value) ? std::string(text.substr(0, length)) : escaped(c, text[0]);
    if (out.size() + next.size() > length_max) return out + "...";
    out += next;
    text.remove_prefix(length);
  }
  return out;
}

std::string for_xml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = decode(text);
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    const bool control = c.value < 0x20 && c.value != '\n' && c.value != '\t';
    if (c.length == 0 || control || c.value == 0xfffe || c.value == 0xffff) {
      out += ' ';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  return '"' + one_line(text, kQuotedMax) + '"';
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ", ";
    if (i == kListedMax) return out + "...";
    out += one_line(names[i]);
  }
  return out;
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  if (std::string whole = completed(name, candidates); !whole.empty()) return whole;
  std::string best = other_name(name, candidates);
  if (!best.empty()) return best;
  std::size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(name.size(), candidate.size());
    const std::size_t close_enough = longer / 3;
    // The difference in length bounds the distance from below: an endless name costs nothing.
    if (longer - std::min(name.size(), candidate.size()) > close_enough) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance > close_enough || distance > best_distance) continue;
    // Of two as near the one of another length: a letter is left out, or is one too many, more often than
    // another is in its place.
    if (distance == best_distance && (candidate.size() == name.size() || best.size() != name.size()))
      continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() || best == name ? "" : "; did you mean \"" + best + "\"?";
}

}  // namespace verbtwin::scenarios
