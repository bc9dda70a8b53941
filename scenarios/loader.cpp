#include "scenarios/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/network_model.hpp"
#include "scenarios/network_size.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/profile_field.hpp"
#include "scenarios/source.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// The name that the file and the overrides agree on for "protocol" or "workload"; empty where there is none.
std::string chosen_name(const ScenarioSource& source, const std::string& kind) {
  const json& root = source.document().root();
  json chosen = root.is_object() ? root.value(kind, json()) : json();
  for (const Override& override : source.overrides()) {
    if (override.path == std::vector<std::string>{kind}) chosen = loose_value(override);
    if (override.path == std::vector<std::string>{kind, "name"}) {
      const json value = loose_value(override);
      chosen = {{"name", value.is_string() ? value : json(override.value)}};
    }
  }
  const json name = chosen.is_object() ? chosen.value("name", json()) : json();
  return name.is_string() ? name.get<std::string>() : "";
}

/// What only one topology has.
struct ShapeFields {
  const char* topology;
  const char* name;
  std::vector<const char*> fields;
};
const std::vector<ShapeFields>& shape_fields() {
  static const std::vector<ShapeFields> all{
      {"fat_tree", "a fat tree", {"leaf_ports", "spines"}},
      {"torus", "a torus", {"dimensions"}},
      {"dragonfly", "a dragonfly", {"groups", "chassis", "routers", "router_ports", "group_cables"}}};
  return all;
}

/// A platform file says itself what these fields say of a topology: those of every one, then each one's own.
const std::vector<const char*>& topology_fields() {
  static const std::vector<const char*> all = [] {
    std::vector<const char*> fields{"topology", "link_gbps", "cable_ns", "switch_ns"};
    for (const ShapeFields& shape : shape_fields())
      fields.insert(fields.end(), shape.fields.begin(), shape.fields.end());
    return fields;
  }();
  return all;
}

/// Refuses the first of `fields` that the network has: `why` they cannot stand there.
void refuse_fields(const ScenarioSource& source, const json& network, std::span<const char* const> fields,
                   const std::string& why) {
  for (const char* field : fields) {
    if (!network.contains(field)) continue;
    source.refuse(Finding{std::string("/cluster/network/") + field, in_quotes(field) + why, Anchor::kKey});
  }
}

void check_network(const ScenarioSource& source, const json& given) {
  const json network = given.at("cluster").value("network", json::object());
  if (!network.value("platform", "").empty()) {
    refuse_fields(source, network, topology_fields(),
                  " and \"platform\" exclude each other; allowed: one of them");
  }
  for (const ShapeFields& shape : shape_fields()) {
    if (network.value("topology", "") == shape.topology) continue;
    refuse_fields(
        source, network, shape.fields,
        std::string(" is of ") + shape.name + "; allowed: with \"topology\": " + in_quotes(shape.topology));
  }
}

void check_no_protocol(const ScenarioSource& source, const std::string& workload) {
  std::string pointer = source.document().root().contains("protocol") ? "/protocol" : "";
  for (const Override& override : source.overrides()) {
    if (override.path.front() == "protocol") pointer = override.pointer;
  }
  if (pointer.empty()) return;
  source.refuse(Finding{pointer,
                        in_quotes(workload) +
                            " is a micro-benchmark and runs without a protocol; allowed: no "
                            "\"protocol\"",
                        Anchor::kKey});
}

/// The place to name where two fields do not fit: of what was typed last, else `usual`.
std::string typed_field(const ScenarioSource& source, const std::string& usual, const std::string& other) {
  const bool only_other = source.override_of(usual) == nullptr && source.override_of(other) != nullptr;
  return only_other ? other : usual;
}

/// A protocol and a workload of one family.
void check_families(const ScenarioSource& source, const Catalog& catalog, const std::string& protocol,
                    const std::string& workload) {
  const std::string of_protocol = family_of(catalog.protocols, protocol);
  const std::string of_workload = family_of(catalog.workloads, workload);
  if (of_protocol.empty() || of_workload.empty() || of_protocol == of_workload) return;
  const char* why =
      of_protocol == "ramp" ? " reads and writes groups of keys; " : " runs transactions over records; ";
  const std::string pointer = typed_field(source, "/workload/name", "/protocol/name");
  const bool at_workload = pointer == "/workload/name";
  const std::vector<std::string> fitting = at_workload ? names_of_family(catalog.workloads, of_protocol)
                                                       : names_of_family(catalog.protocols, of_workload);
  source.refuse(Finding{pointer, in_quotes(workload) + " does not fit: " + in_quotes(protocol) + why +
                                     "allowed with " + in_quotes(at_workload ? protocol : workload) + ": " +
                                     listed(fitting)});
}

/// What only the RAMP family has, and what it has not.
void check_ramp_fields(const ScenarioSource& source, const json& resolved, bool ramp) {
  const json& cluster = resolved.at("cluster");
  const auto refuse = [&](const char* field, const std::string& what, Anchor anchor = Anchor::kValue) {
    source.refuse(Finding{std::string("/cluster/") + field, what, anchor});
  };
  if (!ramp) {
    if (cluster.contains("roles"))
      refuse("roles",
             "only protocols of the RAMP family tell servers from clients; allowed here: no \"roles\"",
             Anchor::kKey);
    return;
  }
  if (cluster.at("replicas") != 1)
    refuse("replicas", "protocols of the RAMP family keep one copy of each key; allowed here: 1");
  if (cluster.at("emulate_nodes") != 0)
    refuse("emulate_nodes", "protocols of the RAMP family are not emulated; allowed here: 0");
  if (!cluster.contains("roles")) return;
  const int servers = cluster.at("roles").at("servers"), clients = cluster.at("roles").at("clients");
  const int nodes = cluster.at("nodes");
  if (servers + clients == nodes) return;
  refuse("roles", std::to_string(servers) + " (servers) and " + std::to_string(clients) +
                      " (clients) are not all of the machines; allowed: together " + std::to_string(nodes) +
                      " (cluster.nodes)");
}

/// A thread has one NIC: of the default, no more than there are threads.
void fit_nics(const json& given, json& resolved) {
  json& cluster = resolved.at("cluster");
  if (!given.at("cluster").contains("nics_per_node"))
    cluster["nics_per_node"] =
        std::min(cluster.at("nics_per_node").get<int>(), cluster.at("threads").get<int>());
}

void check_at_most(const ScenarioSource& source, const json& resolved, const json& given, const char* field,
                   const char* limit_field) {
  const json& cluster = resolved.at("cluster");
  const int value = cluster.at(field).get<int>(), limit = cluster.at(limit_field).get<int>();
  if (value <= limit) return;
  const std::string origin = given.at("cluster").contains(field) ? "" : " (the default)";
  source.refuse(Finding{std::string("/cluster/") + field,
                        "out of range: " + std::to_string(value) + origin + "; allowed: integer, 1 to " +
                            std::to_string(limit) + " (cluster." + limit_field + ")"});
}

/// What cluster.emulate_nodes can stand for.
void check_emulation(const ScenarioSource& source, const json& resolved) {
  constexpr int kQueuePairsMax = 65'536;  // of a thread
  const json& cluster = resolved.at("cluster");
  const int nodes = cluster.at("nodes").get<int>(), emulated = cluster.at("emulate_nodes").get<int>();
  if (emulated == 0) return;
  const auto refuse = [&](const std::string& what) {
    source.refuse(Finding{"/cluster/emulate_nodes", what});
  };
  if (!resolved.contains("protocol")) {
    refuse("a micro-benchmark has the queue pairs of cluster.qps_per_peer; allowed without a protocol: 0");
  }
  if (nodes < 2) refuse("a single node has no peers to stand for others; allowed with one node: 0");
  if (emulated % nodes != 0) {
    refuse(std::to_string(emulated) + " machines cannot be dealt evenly to " + std::to_string(nodes) +
           "; allowed: 0, or a multiple of " + std::to_string(nodes) + " (cluster.nodes)");
  }
  const int each = cluster.at("nics_per_node").get<int>() * cluster.at("qps_per_peer").get<int>();
  if (emulated > kQueuePairsMax / each) {
    refuse("more queue pairs than a thread can have; allowed here: 0 to " +
           std::to_string(kQueuePairsMax / each));
  }
}

/// What can only be asked of simulated NICs and threads. Profiles and the network need not be: they say what
/// the real ones are compared with.
void check_backend(const ScenarioSource& source, const json& resolved) {
  if (resolved.at("backend") == "sim") return;
  const json& cluster = resolved.at("cluster");
  const auto need = [&](const char* key, const json& only, const char* because) {
    if (cluster.at(key) == only) return;
    source.refuse(Finding{fmt::format("/cluster/{}", key),
                          fmt::format("out of range: {}; allowed with \"backend\" ibverbs: {}, because {}",
                                      cluster.at(key).dump(), only.dump(), because)});
  };
  need("tear_ns", 0, "real NICs are not told how to write");
  need("threads_per_queue_pair", 1, "queue pairs that threads share are simulated only");
  need("device_context", "per_thread", "each thread opens its device for itself");
}

void settle_completion_queues(const ScenarioSource& source, const json& given, json& resolved) {
  if (resolved.at("workload").at("name") != "primitive") return;
  json& queues = resolved.at("cluster").at("completion_queues");
  if (given.at("cluster").contains("completion_queues") && queues != "worker") {
    source.refuse(Finding{"/cluster/completion_queues",
                          "a thread of workload primitive has one; allowed with it: \"worker\""});
  }
  queues = "worker";
}

/// Threads share queue pairs with others of their NIC, all of them as many.
void check_sharing(const ScenarioSource& source, const Cluster& cluster) {
  const int threads = cluster.threads / cluster.nics_per_node, each = cluster.threads_per_queue_pair;
  if (threads % each == 0) return;
  std::vector<int> divisors;
  for (int n = 1; n <= threads; ++n)
    if (threads % n == 0) divisors.push_back(n);
  source.refuse(Finding{
      "/cluster/threads_per_queue_pair",
      fmt::format("{} threads of a NIC (cluster.threads / cluster.nics_per_node) cannot be dealt evenly to "
                  "queue pairs of {}; allowed: {}",
                  threads, each, fmt::join(divisors, ", "))});
}

/// The socket profile of a protocol that speaks TCP; others have none.
std::string sockets_of(const ScenarioSource& source, json& resolved, const Catalog& catalog) {
  json& name = resolved.at("cluster").at("sockets");
  const json protocol = resolved.value("protocol", json::object());
  const json transport = protocol.value("transport", json());
  if (transport == "ethernet_tcp" || transport == "ipoib_tcp") {
    if (resolved.at("cluster").at("network").at("loss_ratio") != 0) {
      source.refuse(Finding{"/cluster/network/loss_ratio",
                            "TCP loses nothing here; allowed with \"protocol.transport\" ethernet_tcp and "
                            "ipoib_tcp: 0"});
    }
    if (name == "") name = transport == "ethernet_tcp" ? "ethernet-1g" : "ipoib-qdr";
    return profile_at(source, ProfileField::kSockets, name.get<std::string>(), catalog);
  }
  if (name != "") {
    source.refuse(Finding{"/cluster/sockets",
                          "nothing here speaks TCP; allowed: with \"protocol.transport\" ethernet_tcp or "
                          "ipoib_tcp",
                          Anchor::kKey});
  }
  resolved.at("cluster").erase("sockets");
  return "";
}

Network network_of(const ScenarioSource& source, json& network) {
  Network out;
  out.model = network.at("model") == "simgrid" ? NetworkModel::kSimgrid : NetworkModel::kFifo;
  out.loss_ratio = network.at("loss_ratio").get<double>();
  out.background_gbps = network.at("background_gbps").get<double>();
  if (const auto platform = network.at("platform").get<std::string>(); !platform.empty()) {
    out.platform = source.path_at("/cluster/network/platform", platform);
    require_file(source, "/cluster/network/platform", out.platform);
    for (const char* field : topology_fields()) network.erase(field);
    return out;
  }
  out.topology = network.at("topology").get<std::string>();
  out.link_gbps = network.at("link_gbps").get<double>();
  out.cable_ns = network.at("cable_ns").get<double>();
  out.switch_ns = network.at("switch_ns").get<double>();
  for (const ShapeFields& shape : shape_fields()) {
    if (out.topology == shape.topology) continue;
    for (const char* field : shape.fields) network.erase(field);
  }
  out.leaf_ports = network.value("leaf_ports", 0);
  out.spines = network.value("spines", 0);
  out.dimensions = network.value("dimensions", std::vector<int>());
  out.groups = network.value("groups", 0);
  out.chassis = network.value("chassis", 0);
  out.routers = network.value("routers", 0);
  out.router_ports = network.value("router_ports", 0);
  out.group_cables = network.value("group_cables", 0);
  return out;
}

/// A torus and a dragonfly are as large as they are said to be.
void check_size(const ScenarioSource& source, const Cluster& cluster) {
  const Network& n = cluster.network;
  const std::int64_t ports = std::int64_t{cluster.nodes} * cluster.nics_per_node;
  const NetworkSize size = size_of(n, ports);
  if (n.topology == "torus" || n.topology == "dragonfly") {
    const char* pointer = n.topology == "torus" ? "/cluster/network/dimensions" : "/cluster/network/groups";
    if (size.places > kPlacesMost) {
      source.refuse(Finding{pointer, fmt::format("out of range: more than {} places for NIC ports; allowed: "
                                                 "up to {}",
                                                 kPlacesMost, kPlacesMost)});
    }
    if (size.places < ports) {
      source.refuse(Finding{pointer, fmt::format("out of range: {} places for {} NIC ports (nodes x "
                                                 "nics_per_node); allowed: at least {}",
                                                 size.places, ports, ports)});
    }
  }
  if (const int routers = n.chassis * n.routers; n.groups > routers) {
    source.refuse(Finding{"/cluster/network/groups",
                          fmt::format("out of range: {}; allowed: integer, 1 to {} (the routers of a group, "
                                      "each of which holds the cables to one other)",
                                      n.groups, routers)});
  }
  if (size.cables > kCablesMost) {
    source.refuse(Finding{field_of_cables(n), fmt::format("out of range: {} cables between switches; "
                                                          "allowed: up to {}",
                                                          size.cables, kCablesMost)});
  }
}

void check_background(const ScenarioSource& source, const Cluster& cluster) {
  if (cluster.network.background_gbps == 0 || cluster.nodes > 1) return;
  source.refuse(Finding{"/cluster/network/background_gbps",
                        "a single node has nobody to send to; allowed with one node: 0"});
}

Cluster cluster_of(const ScenarioSource& source, json& cluster, const Catalog& catalog) {
  Cluster out;
  out.nodes = cluster.at("nodes").get<int>();
  out.threads = cluster.at("threads").get<int>();
  out.coroutines = cluster.at("coroutines").get<int>();
  out.replicas = cluster.at("replicas").get<int>();
  out.nics_per_node = cluster.at("nics_per_node").get<int>();
  out.qps_per_peer = cluster.at("qps_per_peer").get<int>();
  out.emulate_nodes = cluster.at("emulate_nodes").get<int>();
  if (cluster.contains("roles")) out.servers = cluster.at("roles").at("servers").get<int>();
  out.shared_contexts = cluster.at("device_context") == "shared";
  out.threads_per_queue_pair = cluster.at("threads_per_queue_pair").get<int>();
  out.own_send_cqs = cluster.at("completion_queues") == "queue_pair";
  out.ack_timeout = cluster.at("ack_timeout").get<int>();
  out.tear_ns = cluster.at("tear_ns").get<double>();
  out.nic = profile_at(source, ProfileField::kNic, cluster.at("nic").get<std::string>(), catalog);
  out.host = profile_at(source, ProfileField::kHost, cluster.at("host").get<std::string>(), catalog);
  out.network = network_of(source, cluster.at("network"));
  check_size(source, out);
  check_background(source, out);
  check_sharing(source, out);
  return out;
}

Run run_of(const json& run) {
  return {run.at("warmup_us").get<double>(),   run.at("measure_us").get<double>(),
          run.at("seed").get<std::uint64_t>(), run.at("check").get<std::string>(),
          run.value("offered_per_s", 0.0),     run.at("index").get<std::uint64_t>()};
}

Scenario scenario_of(std::shared_ptr<const ScenarioSource> source, json resolved, const Catalog& catalog) {
  Scenario out;
  if (resolved.at("name") == "")
    resolved["name"] = one_line(fs::path(source->document().label()).stem().string(), 190);
  resolved.erase("$schema");  // names a place beside the file
  out.cluster = cluster_of(*source, resolved.at("cluster"), catalog);
  out.cluster.sockets = sockets_of(*source, resolved, catalog);
  out.run = run_of(resolved.at("run"));
  out.name = resolved.at("name").get<std::string>();
  out.backend = resolved.at("backend").get<std::string>();
  out.protocol = resolved.value("protocol", json());
  out.workload = resolved.at("workload");
  out.resolved = std::move(resolved);
  out.source = std::move(source);
  return out;
}

void check_offered(const ScenarioSource& source, const json& resolved) {
  if (resolved.at("workload").at("name") != "primitive" || !resolved.at("run").contains("offered_per_s"))
    return;
  source.refuse(Finding{"/run/offered_per_s",
                        "workload primitive asks for the next request when its window has room; allowed "
                        "with it: no \"offered_per_s\"",
                        Anchor::kKey});
}

/// What verbtwin wrote.
void check_kind(const ScenarioSource& source) {
  const json& root = source.document().root();
  const json format = root.is_object() ? root.value("format", json()) : json();
  if (!format.is_string() || !format.get<std::string>().starts_with("verbtwin-")) return;
  const bool has_one = root.contains("scenario") && root.at("scenario").is_object();
  source.refuse(Finding{"/format", "this is a " + one_line(format.get<std::string>(), 60) +
                                       ", not a scenario" +
                                       (has_one ? "; its own stands at /scenario" : "")});
}

/// load_points() makes scenarios without it. Not copied to be erased: each of many points would.
json without_sweep(const json& root) {
  if (!root.is_object()) return root;
  json rest = json::object();
  for (const auto& [key, value] : root.items()) {
    if (key != "sweep") rest[key] = value;
  }
  return rest;
}

}  // namespace

Scenario load_scenario(Document document, const std::vector<std::string>& overrides, const Catalog& catalog) {
  std::vector<Override> parsed;
  for (const std::string& text : overrides) parsed.push_back(parse_override(text));
  return resolve_scenario(std::make_shared<const Document>(std::move(document)), std::move(parsed), catalog);
}

Scenario resolve_scenario(std::shared_ptr<const Document> document, std::vector<Override> overrides,
                          const Catalog& catalog) {
  const auto source = std::make_shared<const ScenarioSource>(std::move(document), std::move(overrides));
  check_kind(*source);
  const std::string workload = chosen_name(*source, "workload");
  if (!needs_protocol(catalog, workload)) check_no_protocol(*source, workload);
  const std::string protocol = chosen_name(*source, "protocol");
  check_families(*source, catalog, protocol, workload);
  const json schema = schema_for(catalog, protocol, workload);

  json given = without_sweep(source->document().root());
  for (const Override& override : source->overrides()) apply_override(given, override, schema);
  if (const auto findings = check(given, schema); !findings.empty()) source->refuse(findings);
  check_network(*source, given);

  json resolved = given;
  fill_defaults(resolved, schema);
  fit_nics(given, resolved);
  check_at_most(*source, resolved, given, "replicas", "nodes");
  check_at_most(*source, resolved, given, "nics_per_node", "threads");
  check_ramp_fields(*source, resolved, family_of(catalog.protocols, protocol) == "ramp");
  check_emulation(*source, resolved);
  check_backend(*source, resolved);
  settle_completion_queues(*source, given, resolved);
  check_offered(*source, resolved);
  if (const auto unsound = unsound_network_model(resolved))
    source->refuse(Finding{typed_field(*source, "/cluster/network/model", unsound->field), unsound->why});
  Scenario scenario = scenario_of(source, std::move(resolved), catalog);
  // Names are known by now; what is left are keywords of an entry's own schema that check() does not phrase.
  if (const auto finding = judge(scenario.resolved, schema)) source->refuse(*finding);
  return scenario;
}

Scenario load_scenario(const fs::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog) {
  return load_scenario(Document::read(file), overrides, catalog);
}

Scenario with_override(const Scenario& scenario, Override override, const Catalog& catalog) {
  std::vector<Override> overrides = scenario.source->overrides();
  overrides.push_back(std::move(override));
  return resolve_scenario(scenario.source->shared_document(), std::move(overrides), catalog);
}

std::string describe(const Scenario& scenario, const UserError& error) {
  if (error.pointer().empty()) return one_line(error.what(), 2000);
  const std::string place =
      scenario.source ? scenario.source->place_of(error.pointer(), Anchor::kValue) : scenario.name;
  return format_error(place, error);
}

}  // namespace verbtwin::scenarios
