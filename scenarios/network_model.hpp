// What `cluster.network.model` = simgrid does not carry: where SimGrid's communications would let through
// more than the network does.
//
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace verbtwin::scenarios {

struct UnsoundNetworkModel {
  std::string field;  // that does not go with the model
  std::string why;    // and what is allowed
};
/// Of a scenario with every default filled in.
std::optional<UnsoundNetworkModel> unsound_network_model(const nlohmann::json& resolved);

}  // namespace verbtwin::scenarios
