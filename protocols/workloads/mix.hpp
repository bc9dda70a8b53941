// The mix of a workload's transactions: the benchmark's own, or whole percents that a scenario gives by name.
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>

#include "backend/user_error.hpp"

namespace verbtwin::protocols {

/// Percent of each transaction type, in the order of their names.
template <std::size_t types>
using MixPercent = std::array<std::uint32_t, types>;

/// The schema of `mix_percent`.
template <std::size_t types>
nlohmann::json mix_percent_schema(const std::array<std::string_view, types>& names, const char* own) {
  nlohmann::json shares = nlohmann::json::object();
  for (const std::string_view name : names) {
    shares[std::string(name)] = {{"type", "integer"},
                                 {"minimum", 0},
                                 {"maximum", 100},
                                 {"description", "percent of these; absent: none"}};
  }
  return {
      {"type", "object"},
      {"additionalProperties", false},
      {"default", nlohmann::json::object()},
      {"description", "a mix of your own: percent of each kind, 100 together; empty: " + std::string(own)},
      {"properties", std::move(shares)}};
}

/// What `parameters` say, or `own` where they say nothing. Throws UserError for shares that are not 100
/// together.
template <std::size_t types>
MixPercent<types> mix_percent_of(const nlohmann::json& parameters,
                                 const std::array<std::string_view, types>& names,
                                 const MixPercent<types>& own) {
  const auto given = parameters.find("mix_percent");
  if (given == parameters.end() || given->empty()) return own;
  MixPercent<types> mix{};
  for (std::size_t i = 0; i < types; ++i) mix[i] = given->value(std::string(names[i]), 0U);
  const std::uint32_t sum = std::accumulate(mix.begin(), mix.end(), 0U);
  if (sum != 100) {
    throw UserError("/workload/mix_percent",
                    "the shares are " + std::to_string(sum) + " % together; allowed: 100 % together");
  }
  return mix;
}

}  // namespace verbtwin::protocols
