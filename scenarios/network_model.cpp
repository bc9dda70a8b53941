#include "scenarios/network_model.hpp"

namespace verbtwin::scenarios {

using nlohmann::json;

std::optional<UnsoundNetworkModel> unsound_network_model(const json& resolved) {
  const json& network = resolved.at("cluster").at("network");
  if (network.at("model") != "simgrid") return std::nullopt;
  if (network.at("platform") == "" && network.at("topology") == "torus") {
    return UnsoundNetworkModel{"/cluster/network/topology",
                               "SimGrid has no link between a port of a torus and its router: a port would "
                               "send as fast as all of the "
                               "router's cables; allowed with \"topology\" torus: \"model\" fifo"};
  }
  if (network.at("loss_ratio") != 0) {
    return UnsoundNetworkModel{
        "/cluster/network/loss_ratio",
        "SimGrid's communications lose nothing; allowed with \"loss_ratio\": \"model\" fifo"};
  }
  if (network.at("background_gbps") != 0) {
    return UnsoundNetworkModel{"/cluster/network/background_gbps",
                               "SimGrid's communications meet no packets of others; allowed with "
                               "\"background_gbps\": \"model\" fifo"};
  }
  const json& workload = resolved.at("workload");
  const std::string transport = workload.value("transport", "");
  // Protocols, RPCs and a ping-pong wait for what comes back.
  if ((transport != "uc" && transport != "ud") || workload.value("mode", "") == "ping_pong")
    return std::nullopt;
  return UnsoundNetworkModel{"/workload/transport",
                             "SimGrid does not tell when a message has left: nothing would hold back senders "
                             "to whom nobody answers; "
                             "allowed with \"transport\" uc and ud: \"model\" fifo"};
}

}  // namespace verbtwin::scenarios
