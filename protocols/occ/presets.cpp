// The named OCC protocols, as data: the same options with different defaults (systems.md, the table of
// section 2).
#include <array>

#include "protocols/occ/options.hpp"
#include "protocols/parameters.hpp"
#include "protocols/registry.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;

using parameters::choice;
using parameters::flag;
using parameters::group;
using parameters::number;

struct Preset {
  const char* execution;
  const char* lock;
  const char* check;
  const char* logging;
  const char* commit;
};

json options_schema(const Preset& preset) {
  const char* outstanding = "independent requests are sent together instead of one after another";
  const char* doorbell = "requests to one queue pair share a doorbell";
  json phases;
  phases["execution"] =
      group("fetch the records",
            {{"primitive", choice(preset.execution, {"one_sided", "rpc", "hybrid"},
                                  "READ, RPC, or READ where the location is cached and RPC where not")},
             {"outstanding", flag(true, outstanding)},
             {"doorbell_batching", flag(true, doorbell)}});
  phases["validation"] = group(
      "lock the write set, check the read set",
      {{"lock",
        choice(preset.lock, {"cas", "rpc"}, "lock by the NIC's compare-and-swap or by the primary's CPU")},
       {"check", choice(preset.check, {"one_sided", "rpc"}, "check versions by READ or by RPC")},
       {"outstanding", flag(true, outstanding)},
       {"doorbell_batching", flag(true, doorbell)}});
  phases["logging"] =
      group("write the updates to the backups",
            {{"primitive", choice(preset.logging, {"one_sided", "rpc"}, "WRITE into the log, or RPC")},
             {"outstanding", flag(true, outstanding)},
             {"doorbell_batching", flag(true, doorbell)}});
  phases["commit"] =
      group("install the updates at the primaries and unlock",
            {{"primitive", choice(preset.commit, {"one_sided", "rpc"}, "WRITE value and lock, or RPC")},
             {"outstanding", flag(true, outstanding)},
             {"doorbell_batching", flag(true, doorbell)},
             {"passive_ack", flag(true, "nobody waits for the answer")}});
  json rpc = group("remote procedure calls over UD SEND/RECV",
                   {{"coalescing", flag(true, "messages to one destination share a packet")},
                    {"request_batching", flag(true, "requests that are ready together share a doorbell")},
                    {"response_batching", flag(true, "responses that are ready together share a doorbell")}});
  json cache =
      group("locations of remote records, one cache per node",
            {{"mib", number(300, 0, 1 << 20, "size")},
             {"start", choice("warm", {"cold", "warm", "full"},
                              "empty; as after long use; or holding everything (artifact compatibility)")}});
  json log = group("ring logs at the backups",
                   {{"ring_kib", number(16, 4, 1 << 16, "size of one sender's log at one backup")}});
  return {{"properties",
           {{"phases", group("primitive and optimisations of each phase", std::move(phases))},
            {"rpc", std::move(rpc)},
            {"location_cache", std::move(cache)},
            {"log", std::move(log)}}}};
}

Primitive primitive_of(const json& name) {
  if (name == "rpc") return Primitive::kRpc;
  return name == "hybrid" ? Primitive::kHybrid : Primitive::kOneSided;
}

}  // namespace

std::span<const RegistryEntry> protocol_entries() {
  static const std::array<RegistryEntry, 2> entries{
      RegistryEntry{
          "drtmh", "DrTM+H: READ or RPC by location cache, CAS locks, one-sided logs and commits (OSDI 2018)",
          options_schema({"hybrid", "cas", "one_sided", "one_sided", "one_sided"})},
      RegistryEntry{"fasst-occ", "FaSST-OCC: the same four phases, each by RPC over UD (OSDI 2016, 2018)",
                    options_schema({"rpc", "rpc", "rpc", "rpc", "rpc"})}};
  return entries;
}

OccOptions OccOptions::from_json(const json& protocol) {
  OccOptions o;
  const json& phases = protocol.at("phases");
  const json& execution = phases.at("execution");
  o.execution = {primitive_of(execution.at("primitive")), execution.at("outstanding"),
                 execution.at("doorbell_batching")};
  const json& validation = phases.at("validation");
  o.validation = {validation.at("lock") == "cas" ? LockKind::kCas : LockKind::kRpc,
                  primitive_of(validation.at("check")), validation.at("outstanding"),
                  validation.at("doorbell_batching")};
  const json& logging = phases.at("logging");
  o.logging = {primitive_of(logging.at("primitive")), logging.at("outstanding"),
               logging.at("doorbell_batching")};
  const json& commit = phases.at("commit");
  o.commit = {primitive_of(commit.at("primitive")), commit.at("outstanding"), commit.at("doorbell_batching"),
              commit.at("passive_ack")};
  const json& rpc = protocol.at("rpc");
  o.rpc.coalescing = rpc.at("coalescing");
  o.rpc.request_batching = rpc.at("request_batching");
  o.rpc.response_batching = rpc.at("response_batching");
  const json& cache = protocol.at("location_cache");
  o.location_cache_b = cache.at("mib").get<std::uint64_t>() << 20;
  o.location_cache_start = cache.at("start") == "warm"   ? CacheStart::kWarm
                           : cache.at("start") == "full" ? CacheStart::kFull
                                                         : CacheStart::kCold;
  o.log_ring_b = protocol.at("log").at("ring_kib").get<std::uint32_t>() << 10;
  return o;
}

}  // namespace verbtwin::protocols
