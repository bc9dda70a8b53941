#include "backend/ibverbs/port.hpp"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <vector>

#include "backend/ibverbs/reason.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

struct DeviceList {
  DeviceList() : devices(ibv_get_device_list(&count)) {}
  ~DeviceList() {
    if (devices != nullptr) ibv_free_device_list(devices);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  std::span<ibv_device*> all() const {
    return {devices, devices == nullptr ? 0 : static_cast<std::size_t>(count)};
  }
  int count = 0;
  ibv_device** devices;
};

/// With why, of those that cannot be opened.
std::string names_of(const DeviceList& list) {
  std::vector<std::string> names;
  for (ibv_device* device : list.all()) {
    const std::unique_ptr<ibv_context, Freer<ibv_close_device>> opened(ibv_open_device(device));
    const std::string why = opened ? "" : fmt::format(" (cannot be opened: {})", std::strerror(errno));
    names.push_back(ibv_get_device_name(device) + why);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Queue pairs are connected here as InfiniBand and RoCE have them: not through a connection manager, as
/// iWARP needs.
bool is_connectable(const ibv_device* device) {
  return device->transport_type == IBV_TRANSPORT_IB || device->transport_type == IBV_TRANSPORT_UNKNOWN;
}

/// Of a device in a slot: soft-RoCE is in none, and a virtual function does not know.
double pcie_gbps(const ibv_context* context) {
  const auto said = [&](const char* what) {
    std::string line;
    std::getline(std::ifstream(fmt::format("{}/device/{}", context->device->ibdev_path, what)), line);
    return line;
  };
  return slot_gbps(said("current_link_speed"), said("current_link_width"));
}

double rate_gbps(const ibv_context* context, int port, const ibv_port_attr& attributes) {
  std::string rate;
  std::getline(std::ifstream(fmt::format("{}/ports/{}/rate", context->device->ibdev_path, port)), rate);
  return data_gbps(attributes, rate);
}

/// The fastest of the active ports `from` to `to`, the first of equals; 0: none is active.
int fastest_port(ibv_context* context, int from, int to, double& gbps) {
  int fastest = 0;
  for (int port = from; port <= to; ++port) {
    ibv_port_attr attributes{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(port), &attributes) != 0 ||
        attributes.state != IBV_PORT_ACTIVE) {
      continue;
    }
    const double its_gbps = rate_gbps(context, port, attributes);
    if (fastest > 0 && its_gbps <= gbps) continue;
    fastest = port;
    gbps = its_gbps;
  }
  return fastest;
}

/// Of those with an active port the one with the fastest, the first of equals; null: none has one.
ibv_device* fastest_device(const DeviceList& list) {
  ibv_device* fastest = nullptr;
  double most_gbps = 0;
  for (ibv_device* device : list.all()) {
    if (!is_connectable(device)) continue;
    const std::unique_ptr<ibv_context, Freer<ibv_close_device>> opened(ibv_open_device(device));
    ibv_device_attr attributes{};
    if (!opened || ibv_query_device(opened.get(), &attributes) != 0) continue;
    double gbps = 0;
    if (fastest_port(opened.get(), 1, attributes.phys_port_cnt, gbps) == 0) continue;
    if (fastest != nullptr && gbps <= most_gbps) continue;
    fastest = device;
    most_gbps = gbps;
  }
  return fastest;
}

ibv_device* find_device(const DeviceList& list, const std::string& wanted) {
  if (list.all().empty()) {
    throw UserError("",
                    "no RDMA device: `ibv_devices` lists none; load the NIC's driver, or soft-RoCE with "
                    "`rdma link add rxe0 type rxe netdev DEV`, and install ibverbs-providers");
  }
  if (wanted.empty()) {
    if (ibv_device* fastest = fastest_device(list)) return fastest;
    throw UserError("", "no InfiniBand or RoCE device has an active port; there are: " + names_of(list));
  }
  for (ibv_device* device : list.all()) {
    if (wanted != ibv_get_device_name(device)) continue;
    if (is_connectable(device)) return device;
    throw UserError(
        "", fmt::format("--device: {} is iWARP or of another kind; allowed: InfiniBand or RoCE", wanted));
  }
  throw UserError("", fmt::format("--device: no RDMA device \"{}\"; there are: {}", wanted, names_of(list)));
}

bool is_ipv4(const ibv_gid& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::memcmp(gid.raw, kMapped.data(), kMapped.size()) == 0;
}

/// The network of the interface that has this address; 0: none here has it.
Subnet network_of(const ibv_gid& gid) {
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, gid.raw + 12, sizeof wanted);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  const std::unique_ptr<ifaddrs, Freer<freeifaddrs>> freed(all);
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    const auto number = [](const sockaddr* of) {
      return reinterpret_cast<const sockaddr_in*>(of)->sin_addr.s_addr;
    };
    if (number(i->ifa_addr) == wanted) return subnet_of(ntohl(wanted), ntohl(number(i->ifa_netmask)));
  }
  return 0;
}

constexpr int kIpv4Rank = 4;

/// How good a GID is to be chosen without being asked for; 0: it is none.
int rank_of(const ibv_gid_entry& entry) {
  constexpr ibv_gid kNone{};
  if (std::memcmp(entry.gid.raw, kNone.raw, sizeof kNone.raw) == 0) return 0;
  const bool link_local = entry.gid.raw[0] == 0xFE && (entry.gid.raw[1] & 0xC0) == 0x80;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 1;
  return is_ipv4(entry.gid) ? kIpv4Rank : link_local ? 2 : 3;
}

double lanes(std::uint8_t width) {
  return width == 1 ? 1 : width == 2 ? 4 : width == 4 ? 8 : width == 8 ? 12 : width == 16 ? 2 : 0;
}
/// Data: InfiniBand's up to QDR send 10 bits for 8 and later ones 66 for 64, while on Ethernet the same
/// numbers stand for what the link is called by.
double lane_gbps(std::uint8_t speed, bool ethernet) {
  switch (speed) {
    case 1:
      return ethernet ? 2.5 : 2;
    case 2:
      return ethernet ? 5 : 4;
    case 4:
      return ethernet ? 10 : 8;
    case 8:
      return 10;
    case 16:
      return ethernet ? 14 : 13.64;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

}  // namespace

double slot_gbps(const std::string& speed, const std::string& width) {
  const double lane_gts = std::strtod(speed.c_str(), nullptr), lanes = std::strtod(width.c_str(), nullptr);
  constexpr double kLanesMax = 32;  // an unknown width is 255 or 63 in older kernels
  if (!(lane_gts > 0) || !(lanes > 0) || lanes > kLanesMax) return 0;
  // 8b/10b to the second generation, 128b/130b to the fifth, then flits of 256 B with 236 B of packets.
  const double share = lane_gts <= 5 ? 0.8 : lane_gts <= 32 ? 128.0 / 130 : 236.0 / 256;
  return std::round(lane_gts * lanes * share * 10) / 10;
}

double data_gbps(const ibv_port_attr& port, const std::string& rate) {
  // The field ends with NDR: kernels say that of faster links too.
  constexpr std::uint8_t kNdr = 128;
  double said_gbps = 0;
  if (port.active_speed == kNdr || port.active_speed == 0) std::istringstream(rate) >> said_gbps;
  const double known_gbps =
      lanes(port.active_width) * lane_gbps(port.active_speed, port.link_layer == IBV_LINK_LAYER_ETHERNET);
  return std::max(known_gbps, said_gbps);
}

Context::Context(const PortChoice& choice) : sl_(choice.sl), traffic_class_(choice.traffic_class) {
  const DeviceList list;
  ibv_device* device = find_device(list, choice.device);
  const std::string name = ibv_get_device_name(device);
  context_.reset(ibv_open_device(device));
  if (!context_) throw UserError("", fmt::format("cannot open RDMA device {}{}", name, reason(errno)));
  if (ibv_query_device(context_.get(), &device_attributes_) != 0) {
    throw UserError("", fmt::format("cannot query RDMA device {}{}", name, reason(errno)));
  }
  // Events are looked for, not waited for (failed_event).
  fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
  choose_port(choice.port);
  choose_gid(choice.gid_index);
  choose_pkey();
  routes_by_gid_ = is_roce() || (port_attributes_.flags & IBV_QPF_GRH_REQUIRED) != 0 ||
                   choice.gid_index >= 0 || choice.traffic_class > 0;
  pd_.reset(ibv_alloc_pd(context_.get()));
  if (!pd_) throw UserError("", fmt::format("{}: no protection domain{}", name, reason(errno)));
}

void Context::choose_port(int wanted) {
  const std::string name = ibv_get_device_name(context_->device);
  const int ports = device_attributes_.phys_port_cnt;
  if (wanted < 0 || wanted > ports) {
    throw UserError("", fmt::format("--port: {} has no port {}; allowed: 1 to {}", name, wanted, ports));
  }
  double gbps = 0;
  const int from = wanted > 0 ? wanted : 1, to = wanted > 0 ? wanted : ports;
  const int fastest = fastest_port(context_.get(), from, to, gbps);
  port_ = static_cast<std::uint8_t>(fastest > 0 ? fastest : to);
  const bool known = ibv_query_port(context_.get(), port_, &port_attributes_) == 0;
  if (known && fastest > 0) return;
  const bool unmanaged =
      known && !is_roce() &&
      (port_attributes_.state == IBV_PORT_INIT || port_attributes_.state == IBV_PORT_ARMED);
  throw UserError("", fmt::format("{} port {} is {}: {}", name, port_,
                                  known ? ibv_port_state_str(port_attributes_.state) : "not known",
                                  unmanaged ? "no subnet manager has set it up; start one (opensm)"
                                            : "bring its network interface up"));
}

void Context::choose_gid(int wanted) {
  const std::string name = ibv_get_device_name(context_->device);
  const int count = port_attributes_.gid_tbl_len;
  std::vector<std::string> usable;
  int best = 0;
  for (int index = 0; index < count; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), port_, static_cast<std::uint32_t>(index), &entry, 0) != 0) continue;
    const int rank = rank_of(entry);
    if (rank == 0) continue;
    usable.push_back(std::to_string(index));
    if (wanted < 0 && rank == kIpv4Rank) {
      subnets_.push_back(network_of(entry.gid));
      subnet_gids_.emplace_back(index, entry.gid);
    }
    if (wanted >= 0 ? index != wanted : rank <= best) continue;
    best = rank;
    use_gid(static_cast<std::size_t>(index), entry.gid);
    fabric_.kind = !is_roce()                               ? Fabric::Kind::kInfiniBand
                   : entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? Fabric::Kind::kRoceV2
                                                            : Fabric::Kind::kRoceV1;
  }
  if (!is_roce()) fabric_.subnet_prefix = be64toh(gid_.global.subnet_prefix);
  if (best > 0) return;
  if (usable.empty()) {
    throw UserError("", fmt::format("{} port {} has no GID: give its interface an address", name, port_));
  }
  throw UserError("", fmt::format("--gid-index: {} port {} has no GID {}; allowed: {}", name, port_, wanted,
                                  fmt::join(usable, ", ")));
}

void Context::use_gid(std::size_t index, const ibv_gid& gid) {
  gid_ = gid;
  gid_index_ = static_cast<std::uint8_t>(index);
}

void Context::use_subnet(Subnet subnet) {
  const auto found = std::ranges::find(subnets_, subnet);
  if (found == subnets_.end()) return;
  const auto& [index, gid] = subnet_gids_[static_cast<std::size_t>(found - subnets_.begin())];
  use_gid(index, gid);
}

void Context::choose_pkey() {
  for (int index = 0; index < port_attributes_.pkey_tbl_len; ++index) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context_.get(), port_, index, &pkey) != 0) break;
    pkeys_.push_back(be16toh(pkey));
  }
  while (!pkeys_.empty() && pkeys_.back() == 0) pkeys_.pop_back();  // unused ones, a hundred and more
  if (!pkeys_.empty()) use_pkey(first_full_pkey(pkeys_));
}

void Context::use_partition(std::uint16_t partition) {
  if (const auto index = pkey_of(pkeys_, partition)) use_pkey(*index);
}

void Context::use_pkey(std::size_t index) {
  pkey_index_ = static_cast<std::uint16_t>(index);
  fabric_.pkey = pkeys_[index];
}

std::string Context::way_to(const QpAddress& peer, int node) const {
  return fmt::format(" from GID {} (index {}) to GID {}{}", gid_text(gid_.raw), gid_index_,
                     gid_text(peer.gid), node < 0 ? "" : fmt::format(" of rank {}", node));
}

ibv_mtu Context::mtu_with(std::uint32_t peer_mtu_b) const {
  const std::uint32_t least_b = peer_mtu_b == 0 ? mtu_b() : std::min(mtu_b(), peer_mtu_b);
  return static_cast<ibv_mtu>(std::countr_zero(least_b / 128));
}

PortDescription Context::description() const {
  PortDescription d;
  d.device = ibv_get_device_name(context_->device);
  d.firmware = device_attributes_.fw_ver;
  d.link_layer = is_roce() ? "Ethernet" : "InfiniBand";
  d.gid = gid_text(gid_.raw);
  d.port = port_;
  d.gid_index = gid_index_;
  d.sl = sl_;
  d.traffic_class = traffic_class_;
  d.fabric = fabric_;
  d.link_gbps = rate_gbps(context_.get(), port_, port_attributes_);
  d.pcie_gbps = pcie_gbps(context_.get());
  d.mtu = mtu_b();
  d.atomics = has_atomics();
  return d;
}

std::string Context::failed_event(std::chrono::steady_clock::time_point now) {
  // Long enough for requests to fail, which say towards whom, and for a port that comes up again.
  constexpr std::chrono::seconds kDownMax{10};
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const bool is_of_port =
        (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) && event.element.port_num == port_;
    ibv_ack_async_event(&event);
    if (is_of_port && type == IBV_EVENT_PORT_ACTIVE) down_since_.reset();
    if (is_of_port && type == IBV_EVENT_PORT_ERR && !down_since_) down_since_ = now;
    switch (type) {
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        return fmt::format("{} reports: {}", ibv_get_device_name(context_->device), ibv_event_type_str(type));
      default:
        break;
    }
  }
  if (down_since_ && now - *down_since_ >= kDownMax)
    return fmt::format("{} reports: port {} is down", ibv_get_device_name(context_->device), port_);
  return "";
}

std::string Context::near_cpus() const {
  std::string list;
  std::getline(std::ifstream(std::string(context_->device->ibdev_path) + "/device/local_cpulist"), list);
  return list;
}

}  // namespace verbtwin::ibverbs
