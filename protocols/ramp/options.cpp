#include "protocols/ramp/options.hpp"

#include <array>
#include <cmath>

#include "backend/user_error.hpp"
#include "protocols/parameters.hpp"
#include "protocols/ramp/layout.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using namespace parameters;
using Get = RampOptions::Get;
using Put = RampOptions::Put;
using Transport = RampOptions::Transport;
using Deadlock = RampOptions::Deadlock;

constexpr auto kAlgorithm = std::to_array<Word<RampAlgorithm>>({{"ramp-fast", RampAlgorithm::kFast},
                                                                {"ramp-small", RampAlgorithm::kSmall},
                                                                {"ramp-hybrid", RampAlgorithm::kHybrid},
                                                                {"s2pl", RampAlgorithm::kS2pl}});
constexpr auto kGet =
    std::to_array<Word<Get>>({{"rpc", Get::kRpc}, {"get_plus", Get::kPlus}, {"get_star", Get::kStar}});
constexpr auto kPut = std::to_array<Word<Put>>({{"rpc", Put::kRpc}, {"put_plus", Put::kPlus}});
constexpr auto kTransport = std::to_array<Word<Transport>>({{"ethernet_tcp", Transport::kEthernetTcp},
                                                            {"ipoib_tcp", Transport::kIpoibTcp},
                                                            {"send_recv", Transport::kSendRecv},
                                                            {"rdma_write", Transport::kRdmaWrite}});
constexpr auto kAddressesKnown = std::to_array<Word<bool>>({{"warm", true}, {"cold", false}});
constexpr auto kDeadlock =
    std::to_array<Word<Deadlock>>({{"no_wait", Deadlock::kNoWait}, {"wait_die", Deadlock::kWaitDie}});

json transport_choice(const char* value) {
  return choice(
      value, kTransport,
      "what carries RPCs; ethernet_tcp, ipoib_tcp: kernel sockets; send_recv: SEND/RECV of datagrams; "
      "rdma_write: WRITEs into buffers that the other side polls");
}

json versions_schema(json properties) {
  properties["versions_mib"] =
      number(256, 1, 1 << 20,
             "room of a server for overwritten versions; when it is full they are collected early, and who "
             "asks for one reads again");
  return properties;
}

json ramp_schema(RampAlgorithm algorithm) {
  json properties = versions_schema({});
  properties["get"] = choice("rpc", kGet,
                             "rpc: by `transport`; get_plus: messages by RDMA WRITE into polled buffers; "
                             "get_star: RDMA READ in place (ramp-fast), get_plus where that finds no "
                             "current version");
  properties["put"] =
      choice("rpc", kPut, "rpc: by `transport`; put_plus: messages by RDMA WRITE into polled buffers");
  properties["transport"] = transport_choice("send_recv");
  properties["collect_after_ms"] =
      real(4000, 0, 1e6, "a version is collected so long after it was overwritten");
  if (algorithm == RampAlgorithm::kFast) {
    properties["address_cache"] =
        choice("warm", kAddressesKnown,
               "of get_star, when the run begins; warm: clients know where every key's first version lies");
  }
  if (algorithm == RampAlgorithm::kHybrid) {
    properties["bloom_bits"] = number(256, 8, 8192, "of the Bloom filter that each version carries");
    properties["bloom_hashes"] = number(4, 1, 16, "hash functions of the Bloom filter");
  }
  return {{"properties", properties}};
}

json s2pl_schema() {
  json properties = versions_schema({});
  properties["transport"] = transport_choice("send_recv");
  properties["deadlock"] = choice("no_wait", kDeadlock,
                                  "where another one holds the lock; no_wait: abort; wait_die: the older "
                                  "transaction waits, the younger one aborts");
  return {{"properties", properties}};
}

}  // namespace

std::span<const RegistryEntry> ramp_entries() {
  static const std::array<RegistryEntry, 4> entries{
      RegistryEntry{"ramp-fast", "RAMP-Fast: read-atomic, versions list their siblings (SIGMOD 2014)",
                    ramp_schema(RampAlgorithm::kFast), "ramp"},
      RegistryEntry{"ramp-hybrid", "RAMP-Hybrid: read-atomic, versions carry a Bloom filter (SIGMOD 2014)",
                    ramp_schema(RampAlgorithm::kHybrid), "ramp"},
      RegistryEntry{"ramp-small", "RAMP-Small: read-atomic, versions carry nothing (SIGMOD 2014)",
                    ramp_schema(RampAlgorithm::kSmall), "ramp"},
      RegistryEntry{"s2pl", "strict two-phase locking with two-phase commit, by RPC", s2pl_schema(), "ramp"}};
  return entries;
}

std::uint32_t RampOptions::metadata_b(std::size_t group) const {
  switch (algorithm) {
    case RampAlgorithm::kFast:
      return static_cast<std::uint32_t>((group - 1) * sizeof(SiblingKey));
    case RampAlgorithm::kHybrid:
      return (bloom_bits + 63) / 64 * 8;
    case RampAlgorithm::kSmall:
    case RampAlgorithm::kS2pl:
      break;
  }
  return 0;
}

RampOptions RampOptions::from_json(const json& protocol) {
  RampOptions o;
  o.algorithm = value_of(kAlgorithm, protocol.at("name"));
  o.transport = value_of(kTransport, protocol.at("transport"));
  o.versions_b = protocol.at("versions_mib").get<std::uint64_t>() << 20;
  if (o.algorithm == RampAlgorithm::kS2pl) {
    o.deadlock = value_of(kDeadlock, protocol.at("deadlock"));
    o.collect_after_ps = 0;  // nobody reads what is overwritten
    return o;
  }
  o.get = value_of(kGet, protocol.at("get"));
  o.put = value_of(kPut, protocol.at("put"));
  o.collect_after_ps = std::llround(protocol.at("collect_after_ms").get<double>() * 1e9);
  if (o.algorithm == RampAlgorithm::kHybrid) {
    o.bloom_bits = protocol.at("bloom_bits");
    o.bloom_hashes = protocol.at("bloom_hashes");
  }
  if (o.algorithm == RampAlgorithm::kFast)
    o.addresses_known = value_of(kAddressesKnown, protocol.at("address_cache"));
  if (o.in_place() && o.algorithm != RampAlgorithm::kFast) {
    throw UserError("/protocol/get",
                    "\"get_star\" READs versions in place, and only those of \"ramp-fast\" say by themselves "
                    "which others belong to them; allowed here: \"rpc\", \"get_plus\"");
  }
  return o;
}

}  // namespace verbtwin::protocols
