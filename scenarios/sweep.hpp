// Sweeps: the points of a scenario that carries "sweep": [{"protocol.name": ["farm", "drtmh"]},
// {"cluster.coroutines": [1, 2, 4], "run.measure_us": [2000, 1000, 500]}]: the product over the list's
// entries, the first one varying slowest, the keys inside one entry moving together.
//
// A value null leaves its field as it stands in the file: a field that one point's protocol has, another's
// may not. A key may be swept once; a whole and its part ("workload", "workload.value_b") in this order,
// where no value of the whole says the part.
//
// Pure but for reading files; callable from any thread. Errors as of the loader: a value of a sweep that its
// field does not take is told with its place in the file. What an override sets holds at every point; one of
// a swept field picks the points that have its value, but for a run's length that moves with another field.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/catalog.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/scenario.hpp"

namespace verbtwin::scenarios {

inline constexpr std::size_t kSweepPointsMax = 10'000;
inline constexpr std::size_t kSweepKeysMax = 64;  // of all entries; each is a column of the table

struct SweepPoint {
  std::vector<std::pair<std::string, nlohmann::json>> settings;  // "cluster.coroutines", 4
  Scenario scenario;
  std::size_t number = 0;  // among the sweep's points
};

/// "point 3 (cluster.nodes=4, protocol.name=farm)", for a message. Points count from 0.
std::string describe_point(const SweepPoint& point);

/// A value as a cell of a table or behind a "=" has it; null: nothing.
std::string text_of(const nlohmann::json& value);

/// What a flag of its own says: "run.seed", "--seed", "7". Errors name the flag.
Override flag_override(const std::string& path, const std::string& flag, const std::string& value);

/// Every point, all of them valid. A scenario without a sweep is one point without settings. `flags` are
/// overrides that come after the others and win. `sweeps`: "cluster.nodes=4,8", each an entry behind those of
/// the file; errors call it "--sweep cluster.nodes=4,8".
std::vector<SweepPoint> load_points(const std::filesystem::path& file,
                                    const std::vector<std::string>& overrides, const Catalog& catalog,
                                    const std::vector<Override>& flags = {},
                                    const std::vector<std::string>& sweeps = {});

}  // namespace verbtwin::scenarios
