#include "protocols/ramp/options.hpp"

#include <array>
#include <cmath>
#include <map>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/parameters.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using namespace parameters;

json transport_choice(const char* value) {
  return choice(
      value, {"ethernet_tcp", "ipoib_tcp", "send_recv", "rdma_write"},
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

json ramp_schema(const char* algorithm) {
  json properties = versions_schema({});
  properties["get"] = choice("rpc", {"rpc", "get_plus", "get_star"},
                             "rpc: by `transport`; get_plus: messages by RDMA WRITE into polled buffers; "
                             "get_star: RDMA READ in place (ramp-fast), get_plus where that finds no "
                             "current version");
  properties["put"] = choice("rpc", {"rpc", "put_plus"},
                             "rpc: by `transport`; put_plus: messages by RDMA WRITE into polled buffers");
  properties["transport"] = transport_choice("send_recv");
  properties["collect_after_ms"] = {
      {"type", "number"},
      {"minimum", 0},
      {"maximum", 1e6},
      {"default", 4000},
      {"description", "a version is collected so long after it was overwritten"}};
  if (std::string(algorithm) == "fast") {
    properties["address_cache"] =
        choice("warm", {"warm", "cold"},
               "of get_star, when the run begins; warm: clients know where every key's first version lies");
  }
  if (std::string(algorithm) == "hybrid") {
    properties["bloom_bits"] = number(256, 8, 8192, "of the Bloom filter that each version carries");
    properties["bloom_hashes"] = number(4, 1, 16, "hash functions of the Bloom filter");
  }
  return {{"properties", properties}};
}

json s2pl_schema() {
  json properties = versions_schema({});
  properties["transport"] = transport_choice("send_recv");
  properties["deadlock"] = choice("no_wait", {"no_wait", "wait_die"},
                                  "where another one holds the lock; no_wait: abort; wait_die: the older "
                                  "transaction waits, the younger one aborts");
  return {{"properties", properties}};
}

template <typename T>
T named(const json& value, const std::map<std::string, T>& names) {
  return names.at(value.get<std::string>());
}

}  // namespace

std::span<const RegistryEntry> ramp_entries() {
  static const std::array<RegistryEntry, 4> entries{
      RegistryEntry{"ramp-fast", "RAMP-Fast: read-atomic, versions list their siblings (SIGMOD 2014)",
                    ramp_schema("fast"), true, "ramp"},
      RegistryEntry{"ramp-hybrid", "RAMP-Hybrid: read-atomic, versions carry a Bloom filter (SIGMOD 2014)",
                    ramp_schema("hybrid"), true, "ramp"},
      RegistryEntry{"ramp-small", "RAMP-Small: read-atomic, versions carry nothing (SIGMOD 2014)",
                    ramp_schema("small"), true, "ramp"},
      RegistryEntry{"s2pl", "strict two-phase locking with two-phase commit, by RPC", s2pl_schema(), true,
                    "ramp"}};
  return entries;
}

RampOptions RampOptions::from_json(const json& protocol) {
  RampOptions o;
  o.algorithm = named<RampAlgorithm>(protocol.at("name"), {{"ramp-fast", RampAlgorithm::kFast},
                                                           {"ramp-small", RampAlgorithm::kSmall},
                                                           {"ramp-hybrid", RampAlgorithm::kHybrid},
                                                           {"s2pl", RampAlgorithm::kS2pl}});
  o.transport = named<Transport>(protocol.at("transport"), {{"ethernet_tcp", Transport::kEthernetTcp},
                                                            {"ipoib_tcp", Transport::kIpoibTcp},
                                                            {"send_recv", Transport::kSendRecv},
                                                            {"rdma_write", Transport::kRdmaWrite}});
  o.versions_b = protocol.at("versions_mib").get<std::uint64_t>() << 20;
  if (o.algorithm == RampAlgorithm::kS2pl) {
    o.deadlock = protocol.at("deadlock") == "no_wait" ? Deadlock::kNoWait : Deadlock::kWaitDie;
    o.collect_after_ps = 0;  // nobody reads what is overwritten
    return o;
  }
  o.get = named<Get>(protocol.at("get"),
                     {{"rpc", Get::kRpc}, {"get_plus", Get::kPlus}, {"get_star", Get::kStar}});
  o.put = protocol.at("put") == "rpc" ? Put::kRpc : Put::kPlus;
  o.collect_after_ps = std::llround(protocol.at("collect_after_ms").get<double>() * 1e9);
  if (o.algorithm == RampAlgorithm::kHybrid) {
    o.bloom_bits = protocol.at("bloom_bits");
    o.bloom_hashes = protocol.at("bloom_hashes");
  }
  if (o.algorithm == RampAlgorithm::kFast) o.addresses_known = protocol.at("address_cache") == "warm";
  if (o.in_place() && o.algorithm != RampAlgorithm::kFast) {
    throw UserError("/protocol/get",
                    "\"get_star\" READs versions in place, and only those of \"ramp-fast\" say by themselves "
                    "which others belong to them; allowed here: \"rpc\", \"get_plus\"");
  }
  return o;
}

}  // namespace verbtwin::protocols
