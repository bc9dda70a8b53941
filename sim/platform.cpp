#include "sim/platform.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <csignal>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <simgrid/s4u.hpp>

#include "backend/user_error.hpp"
#include "sim/platform_file.hpp"
#include "sim/platform_trial.hpp"
#include "sim/simgrid_options.hpp"
#include "sim/switch_zone.hpp"

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;

namespace {

constexpr double kPsPerSecond = 1e12;
constexpr double kHostFlops = 1e9;                 // SimGrid wants a speed; no computation runs on it
constexpr const char* kLoopback = "__loopback__";  // SimGrid's name of it

Platform* current_platform = nullptr;
std::vector<s4u::Host*> hosts_created;  // in the order of their creation, which is the file's

/// A profile's events outlive the engine, and the next one would apply them to links that are gone.
bool profile_events_left = false;

void refuse_if(const std::string& wrong) {
  if (!wrong.empty()) throw UserError(kPlatformPointer, wrong);
}

template <typename T>
T& simgrid_variable(const char* name) {
  void* variable = dlsym(RTLD_DEFAULT, name);
  if (variable == nullptr)
    throw std::runtime_error(fmt::format("this SimGrid is not 3.32: it has no {}", name));
  return *static_cast<T*>(variable);
}

/// SimGrid 3.32 can end an engine and start another, but keeps its clock, the callbacks of the engine that is
/// gone (each engine adds some to every activity). With these forgotten, a simulation does not depend on
/// those that ran before it in the process, nor grow slower.
void forget_former_engine() {
  using ActivitySignal = simgrid::xbt::signal<void(const s4u::Activity&)>;
  using ExecSignal = simgrid::xbt::signal<void(const s4u::Exec&)>;
  simgrid_variable<double>("_ZN7simgrid6kernel10EngineImpl4now_E") = 0;
  simgrid_variable<ActivitySignal>("_ZN7simgrid3s4u8Activity13on_completionE").disconnect_slots();
  simgrid_variable<ActivitySignal>("_ZN7simgrid3s4u8Activity12on_suspendedE").disconnect_slots();
  simgrid_variable<ActivitySignal>("_ZN7simgrid3s4u8Activity10on_resumedE").disconnect_slots();
  simgrid_variable<ExecSignal>("_ZN7simgrid3s4u4Exec8on_startE").disconnect_slots();
  s4u::Host::on_state_change.disconnect_slots();
  s4u::Engine::on_platform_created.disconnect_slots();
}

}  // namespace

/// SimGrid's engine while a Platform lives.
class Platform::EngineScope {
 public:
  EngineScope() {
    if (started_) forget_former_engine();
    started_ = true;
    std::vector<std::string> words = simgrid_arguments();
    words.insert(words.begin(), "verbtwin");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    struct sigaction on_interrupt {};
    sigaction(SIGINT, nullptr, &on_interrupt);
    engine_ = std::make_unique<s4u::Engine>(&count, arguments.data());
    sigaction(SIGINT, &on_interrupt, nullptr);  // SimGrid puts its own there
    connect_signals();
    // Not among those: what it is told of hosts is forgotten with the engine.
    s4u::Host::on_state_change_cb([](const s4u::Host& host) {
      if (current_platform != nullptr) current_platform->check(host);
    });
    hosts_created.clear();
  }
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

  std::vector<s4u::Host*> load(const std::filesystem::path& file) {
    engine_->load_platform(file.string());
    seal();
    std::vector<s4u::Host*> hosts = hosts_created;
    std::unordered_set<s4u::Host*> seen;  // SimGrid announces a host once itself, once with its zone
    std::erase_if(hosts, [&](s4u::Host* host) { return !seen.insert(host).second; });
    return hosts;
  }

  void run_until(double time_s) { engine_->run_until(time_s); }

  /// SimGrid's own sealing, at the first run, works once per process.
  void seal() {
    for (s4u::Link* link : engine_->get_all_links()) link->seal();
    if (engine_->get_netzone_root() != nullptr) engine_->get_netzone_root()->seal();
  }

 private:
  static inline bool started_ = false;
  std::unique_ptr<s4u::Engine> engine_;
};

void Platform::connect_signals() {
  [[maybe_unused]] static const bool connected = [] {
    s4u::Host::on_creation_cb([](s4u::Host& host) { hosts_created.push_back(&host); });
    const auto announce_change = [](const s4u::Link& link) {
      if (current_platform != nullptr) current_platform->announce(link);
    };
    s4u::Link::on_bandwidth_change_cb(announce_change);
    s4u::Link::on_state_change_cb(announce_change);
    return true;
  }();
}

Platform::Platform() {
  assert(current_platform == nullptr && "SimGrid has one engine per process: one Platform at a time");
  if (profile_events_left) {
    throw UserError(kPlatformPointer,
                    "SimGrid cannot run another platform in a process that has run one with profiles");
  }
  engine_ = std::make_unique<EngineScope>();
}

Platform::~Platform() {
  current_platform = nullptr;
  profile_events_left |= has_profiles_;
}

void Platform::finish(std::vector<s4u::Host*> hosts, int endpoints_per_node) {
  hosts_ = std::move(hosts);
  endpoints_per_node_ = endpoints_per_node;
  std::vector<s4u::Link*> links = s4u::Engine::get_instance()->get_all_links();
  std::sort(links.begin(), links.end(), [](auto* a, auto* b) { return a->get_name() < b->get_name(); });
  for (const s4u::Link* link : links) {
    link_index_.emplace(link, static_cast<std::uint32_t>(links_.size()));
    links_.push_back({link->get_name(), link->get_bandwidth(),
                      std::llround(link->get_latency() * kPsPerSecond), link->is_on(),
                      link->get_sharing_policy() != s4u::Link::SharingPolicy::FATPIPE,
                      link->get_name() == kLoopback});
  }
  current_platform = this;
}

/// Where hosts are the routers.
void Platform::add_ports(double bandwidth_bytes_per_s) {
  first_port_ = static_cast<std::uint32_t>(links_.size());
  for (std::size_t endpoint = 0; endpoint < hosts_.size(); ++endpoint) {
    for (const char* way : {"out", "in"}) {
      LinkInfo& port = links_.emplace_back();
      port.name = fmt::format("port-{}-{}", endpoint, way);
      port.bandwidth_bytes_per_s = bandwidth_bytes_per_s;
    }
  }
}

std::unique_ptr<Platform> Platform::star(const StarParameters& p) {
  assert(p.nodes > 0 && p.nics_per_node > 0 && p.link_gbps > 0 && p.cable_ps >= 0 && p.switch_ps >= 0);
  std::unique_ptr<Platform> platform(new Platform);
  s4u::NetZone* zone = s4u::create_star_zone("star");
  const double bandwidth_bytes_per_s = p.link_gbps * 1e9 / 8;
  std::vector<s4u::Host*> hosts;
  for (int node = 0; node < p.nodes; ++node) {
    for (int nic = 0; nic < p.nics_per_node; ++nic) {
      const std::string name = fmt::format("node-{}-nic-{}", node, nic);
      s4u::Host* host = zone->create_host(name, kHostFlops)->seal();
      s4u::SplitDuplexLink* link = zone->create_split_duplex_link(name, bandwidth_bytes_per_s);
      link->get_link_up()->set_latency(static_cast<double>(p.cable_ps) / kPsPerSecond);
      link->get_link_down()->set_latency(static_cast<double>(p.switch_ps + p.cable_ps) / kPsPerSecond);
      link->seal();
      zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                      {s4u::LinkInRoute(link, s4u::LinkInRoute::Direction::UP)});
      hosts.push_back(host);
    }
  }
  platform->engine_->seal();
  platform->finish(std::move(hosts), p.nics_per_node);
  return platform;
}

template <typename MakeZone>
std::unique_ptr<Platform> Platform::of_switches(const StarParameters& ports, const MakeZone& make_zone) {
  std::unique_ptr<Platform> platform(new Platform);
  std::vector<s4u::Host*> hosts = make_zone()->create_hosts(ports.nodes * ports.nics_per_node, kHostFlops);
  platform->engine_->seal();
  platform->finish(std::move(hosts), ports.nics_per_node);
  return platform;
}

std::unique_ptr<Platform> Platform::fat_tree(const StarParameters& ports, const FatTree& tree) {
  return of_switches(ports, [&] { return create_fat_tree(ports, tree); });
}

std::unique_ptr<Platform> Platform::dragonfly(const StarParameters& ports, const Dragonfly& shape) {
  return of_switches(ports, [&] { return create_dragonfly(ports, shape); });
}

std::unique_ptr<Platform> Platform::torus(const StarParameters& ports, const Torus& torus) {
  // A dimension of 1 joins nothing, and SimGrid gives the links of two such the same name.
  std::vector<unsigned long> dimensions;
  for (const int size : torus.dimensions) {
    if (size > 1) dimensions.push_back(static_cast<unsigned long>(size));
  }
  if (dimensions.empty()) dimensions.push_back(1);
  const std::size_t places =
      std::accumulate(dimensions.begin(), dimensions.end(), std::size_t{1}, std::multiplies<>());
  const auto endpoints = static_cast<std::size_t>(ports.nodes * ports.nics_per_node);
  assert(endpoints <= places);
  std::unique_ptr<Platform> platform(new Platform);
  std::vector<s4u::Host*> hosts(places);  // SimGrid asks for one at every place
  const s4u::ClusterCallbacks create_host(
      [&](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        hosts.at(id) = zone->create_host(fmt::format("port-{}", id), kHostFlops)->seal();
        return std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*>(
            hosts[id]->get_netpoint(), nullptr);
      });
  const double bandwidth_bytes_per_s = ports.link_gbps * 1e9 / 8;
  const double hop_s = static_cast<double>(ports.switch_ps + ports.cable_ps) / kPsPerSecond;
  s4u::create_torus_zone("torus", nullptr, dimensions, create_host, bandwidth_bytes_per_s, hop_s,
                         s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  platform->engine_->seal();
  hosts.resize(endpoints);
  platform->finish(std::move(hosts), ports.nics_per_node);
  platform->add_ports(bandwidth_bytes_per_s);
  return platform;
}

int Platform::endpoint(int node, int nic) const {
  return endpoints_per_node_ == 1 ? node : node * endpoints_per_node_ + nic;
}

std::vector<std::uint32_t> Platform::route(int from_endpoint, int to_endpoint) const {
  std::vector<std::uint32_t> route;
  if (from_endpoint == to_endpoint) return route;
  std::vector<s4u::Link*> links;
  double latency_s = 0;
  host(from_endpoint)->route_to(host(to_endpoint), links, &latency_s);
  const auto port = [&](int endpoint, std::uint32_t way) {
    if (first_port_ > 0) route.push_back(first_port_ + 2 * static_cast<std::uint32_t>(endpoint) + way);
  };
  port(from_endpoint, 0);
  for (const s4u::Link* link : links) route.push_back(link_index_.at(link));
  port(to_endpoint, 1);
  return route;
}

/// What follows is thrown through SimGrid, which would not survive it: it aborts where it shares a bandwidth
/// that is no number, and where a message starts between hosts of which one is off.
void Platform::announce(const s4u::Link& link) {
  const auto found = link_index_.find(&link);
  if (found == link_index_.end()) return;  // the pair that a split-duplex link is
  refuse_if(what_is_wrong_with(link));
  changes_.push_back({found->second, link.get_bandwidth(), link.is_on()});
  if (announced_) {
    announced_();
  } else {
    apply_next_change();
  }
}

void Platform::check(const s4u::Host& host) const {
  const bool is_node =
      std::any_of(hosts_.begin(), hosts_.end(), [&](const s4u::Host* node) { return node == &host; });
  if (is_node) refuse_if(what_is_wrong_with(host));
}

void Platform::apply_next_change() {
  const LinkChange change = changes_.front();
  changes_.pop_front();
  links_[change.link].bandwidth_bytes_per_s = change.bandwidth_bytes_per_s;
  links_[change.link].on = change.on;
  if (changed_) changed_(change.link);
}

std::unique_ptr<Platform> Platform::from_xml(const std::filesystem::path& file, int nodes) {
  assert(nodes > 0);
  const auto node_count = static_cast<std::size_t>(nodes);
  const PlatformFile text = read_platform_file(file);
  try_platform(file, node_count, [&] {
    auto* engine = new EngineScope;  // never ended: it may be in no state to
    return PlatformTrial{engine->load(file), [engine](double time_s) { engine->run_until(time_s); }};
  });
  std::unique_ptr<Platform> platform(new Platform);
  platform->has_profiles_ = text.has_profiles;
  std::vector<s4u::Host*> hosts = platform->engine_->load(file);
  hosts.resize(node_count);
  platform->finish(std::move(hosts), 1);
  return platform;
}

}  // namespace verbtwin::sim
