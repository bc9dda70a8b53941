#include "tools/ranks/rank_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {

namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int> from_environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    if (const auto found = number(value)) return found;
    throw UserError("", fmt::format("{}={}: not a number", name, scenarios::in_quotes(value)));
  }
  return std::nullopt;
}

void parse_rendezvous(const std::string& text, RankOptions& options) {
  const std::size_t colon = text.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : number(std::string_view(text).substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) {
    throw UserError(
        "", fmt::format("--rendezvous {}: allowed: HOST:PORT, where rank 0 listens, the port 1 to 65535",
                        scenarios::in_quotes(text)));
  }
  options.host = text.substr(0, colon);
  if (options.host.size() > 2 && options.host.front() == '[' && options.host.back() == ']') {
    options.host = options.host.substr(1, options.host.size() - 2);  // an IPv6 address
  }
  options.tcp_port = static_cast<std::uint16_t>(*port);
}

}  // namespace

std::vector<NamedPort> named_ports(std::string_view devices, int port) {
  std::vector<NamedPort> ports;
  for (std::size_t begin = 0; begin <= devices.size();) {
    const std::size_t end = std::min(devices.find(',', begin), devices.size());
    const std::string_view name = devices.substr(begin, end - begin);
    const std::size_t colon = name.find(':');
    const bool has_own = colon != std::string_view::npos;
    const int own = has_own ? number(name.substr(colon + 1)).value_or(0) : port;
    if (name.empty() || colon == 0 || (has_own && own < 1)) return {};
    ports.push_back({std::string(name.substr(0, colon)), own});
    begin = end + 1;
  }
  return ports;
}

std::string allowed_ranks(int nodes, int ranks) {
  return ranks >= 1 && ranks <= most_allowed("cluster.nodes")
             ? fmt::format("{}, or --set cluster.nodes={}", nodes, ranks)
             : fmt::format("{}", nodes);
}

RankOptions complete_rank(const RankFlags& flags, int nodes) {
  RankOptions options;
  const auto rank =
      flags.rank ? flags.rank : from_environment({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  const auto ranks =
      flags.ranks ? flags.ranks : from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  if (!rank || !ranks) {
    throw UserError(
        "",
        "--backend ibverbs: which rank is this? give --rank R --ranks N --rendezvous HOST:PORT, start it "
        "under Slurm, Open MPI or MPICH's mpiexec, or let `verbtwin launch` start all ranks");
  }
  if (*ranks != nodes) {
    throw UserError("", fmt::format("--ranks {}: the scenario has {}, one rank each; allowed: {}", *ranks,
                                    format_counted(nodes, "node"), allowed_ranks(nodes, *ranks)));
  }
  if (*rank < 0 || *rank >= *ranks) {
    throw UserError("", fmt::format("--rank {}: out of range; allowed: 0 to {}", *rank, *ranks - 1));
  }
  options.rank = *rank;
  options.ranks = *ranks;
  options.ports = flags.devices.empty() ? std::vector<NamedPort>{{"", flags.port}}
                                        : named_ports(flags.devices, flags.port);
  options.gid_index = flags.gid_index;
  options.sl = flags.sl;
  options.traffic_class = flags.traffic_class;
  if (options.ranks == 1) return options;
  if (flags.rendezvous.empty()) {
    throw UserError("", "--rendezvous is missing; allowed: HOST:PORT, where rank 0 listens");
  }
  parse_rendezvous(flags.rendezvous, options);
  const char* token = std::getenv(kTokenVariable);
  constexpr std::size_t kTokenMin = 16, kTokenMax = 63;
  const std::size_t length = token == nullptr ? 0 : std::string_view(token).size();
  if (length < kTokenMin || length > kTokenMax) {
    throw UserError(
        "",
        fmt::format("{0}: the run's secret is {1}; set the same {2} to {3} characters in every rank's "
                    "environment (`verbtwin launch` does, Slurm passes it on, Open MPI with `mpirun -x {0}`)",
                    kTokenVariable, length == 0 ? "missing" : "of the wrong length", kTokenMin, kTokenMax));
  }
  options.token = token;
  return options;
}

std::map<std::string, std::string> driver_environment() {
  constexpr std::array<std::string_view, 4> kPrefixes = {"MLX4_", "MLX5_", "RDMAV_", "IBV_"};
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    const bool is_word = std::ranges::all_of(
        name, [](char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
    const bool is_theirs =
        std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (is_word && is_theirs) found.emplace(name, text.substr(equals + 1));
  }
  return found;
}

std::vector<std::string> device_arguments(const RankFlags& flags) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* flag, std::string value) {
    arguments.emplace_back(flag);
    arguments.push_back(std::move(value));
  };
  if (!flags.devices.empty()) add("--device", flags.devices);
  if (flags.port != 0) add("--port", std::to_string(flags.port));
  if (flags.gid_index != -1) add("--gid-index", std::to_string(flags.gid_index));
  if (flags.sl != 0) add("--sl", std::to_string(flags.sl));
  if (flags.traffic_class != 0) add("--traffic-class", std::to_string(flags.traffic_class));
  return arguments;
}

}  // namespace verbtwin::tools
