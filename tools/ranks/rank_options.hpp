// RankOptions: which rank of a real run this process is, where the ranks meet and which device it uses.
//
// A value; complete_rank() throws UserError where something is missing or cannot be, naming the flag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::tools {

/// As the command line has it; what is absent comes from the environment or is chosen.
struct RankFlags {
  std::optional<int> rank, ranks;
  std::string rendezvous;  // HOST:PORT
  std::string devices;     // as named_ports() reads them; empty: chosen
  int port = 0;            // of what `devices` names without one; 0: chosen
  int gid_index = -1;      // -1: chosen
  int sl = 0, traffic_class = 0;

  bool any() const {
    return rank || ranks || !rendezvous.empty() || !devices.empty() || port != 0 || gid_index != -1 ||
           sl != 0 || traffic_class != 0;
  }
};

struct NamedPort {
  std::string device;  // empty: chosen
  int port = 0;        // 0: chosen
  bool operator==(const NamedPort&) const = default;
};
/// The devices of "NAME" or "NAME:PORT", separated by commas; `port`: of those without. None: it is no such
/// text.
std::vector<NamedPort> named_ports(std::string_view devices, int port);

struct RankOptions {
  int rank = 0, ranks = 1;
  std::string host;
  std::uint16_t tcp_port = 0;
  std::string token;
  std::vector<NamedPort> ports;  // at least one
  int gid_index = -1, sl = 0, traffic_class = 0;
};

inline constexpr const char* kTokenVariable = "VERBTWIN_TOKEN";

/// Adds what `flags` leave out from Slurm's, Open MPI's or MPICH's (and MVAPICH's, Intel MPI's) environment
/// and the token from VERBTWIN_TOKEN; checks it against the number of nodes that the scenario has.
RankOptions complete_rank(const RankFlags& flags, int nodes);

/// What may be done where a scenario of so many nodes meets another number of ranks.
std::string allowed_ranks(int nodes, int ranks);

/// What this process's environment tells libibverbs and the drivers of mlx4 and mlx5, which decides what is
/// measured: MLX4_*, MLX5_*, RDMAV_* and IBV_*, by name.
std::map<std::string, std::string> driver_environment();

/// The arguments that say the same of the device to another verbtwin.
std::vector<std::string> device_arguments(const RankFlags& flags);

}  // namespace verbtwin::tools
