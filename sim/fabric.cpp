#include "sim/fabric.hpp"

#include "backend/user_error.hpp"

namespace verbtwin::sim {

Fabric::Fabric(Platform& platform)
    : platform_(platform), paths_(static_cast<std::size_t>(platform.endpoints())) {
  links_.resize(platform.links());
  for (std::uint32_t link = 0; link < links_.size(); ++link) update(link);
  platform_.on_link_change([this](std::uint32_t link) { update(link); });
}

void Fabric::update(std::uint32_t link) {
  const LinkInfo& info = platform_.link(link);
  // Verbs are lost and sent again then, which nothing here does.
  if (!info.on) {
    throw UserError(
        "/cluster/network/platform",
        "link '" + info.name + "' is down: not simulated; allowed: profiles that leave every link up");
  }
  links_[link].ps_per_byte = 1e12 / info.bandwidth_bytes_per_s;
  links_[link].latency_ps = info.latency_ps;
  links_[link].is_shared = info.is_shared;
}

std::int64_t Fabric::latency_before_ps(Path path, std::uint32_t hop) const {
  std::int64_t sum_ps = 0;
  for (std::uint32_t i = 0; i < hop; ++i) sum_ps += links_[path_links_[path.first + i]].latency_ps;
  return sum_ps;
}

double Fabric::slowest_gbps(Path path) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t link : links_of(path)) slowest = std::min(slowest, gbps(link));
  return slowest;
}

Path Fabric::path(int from_endpoint, int to_endpoint) {
  auto& row = paths_[static_cast<std::size_t>(from_endpoint)];
  if (row.empty()) row.resize(paths_.size());
  Path& path = row[static_cast<std::size_t>(to_endpoint)];
  if (path.count == Path::kUnknown) {
    const std::vector<std::uint32_t> route = platform_.route(from_endpoint, to_endpoint);
    path.first = static_cast<std::uint32_t>(path_links_.size());
    path.count = static_cast<std::uint16_t>(route.size());
    path.from = static_cast<std::uint16_t>(from_endpoint);
    path.to = static_cast<std::uint16_t>(to_endpoint);
    path_links_.insert(path_links_.end(), route.begin(), route.end());
  }
  return path;
}

}  // namespace verbtwin::sim
