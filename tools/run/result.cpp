#include "tools/run/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "backend/verbs.hpp"
#include "tools/run/conflicts.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Samples = std::vector<std::int64_t>;

double us(std::int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

double mean_us(const Samples& samples) {
  if (samples.empty()) return 0;
  return us(std::accumulate(samples.begin(), samples.end(), std::int64_t{0})) /
         static_cast<double>(samples.size());
}

/// The smallest sample that at least `permille` of them do not exceed. Moves them about: a few of these cost
/// less than a sort.
double quantile_us(Samples& samples, std::uint64_t permille) {
  if (samples.empty()) return 0;
  const std::uint64_t rank = (samples.size() * permille + 999) / 1000;
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(std::max<std::uint64_t>(rank, 1) - 1);
  std::ranges::nth_element(samples, nth);
  return us(*nth);
}

json latency_json(Samples& samples) {
  return {{"mean", mean_us(samples)},          {"p50", quantile_us(samples, 500)},
          {"p90", quantile_us(samples, 900)},  {"p99", quantile_us(samples, 990)},
          {"p999", quantile_us(samples, 999)}, {"max", samples.empty() ? 0 : us(std::ranges::max(samples))}};
}

/// The whole distribution, by the share that took no longer: as far up as there is a sample for.
json quantiles_json(Samples& samples) {
  constexpr double kShares[] = {0,     0.001, 0.01,  0.02,   0.05,   0.1,    0.15,    0.2,     0.25,
                                0.3,   0.35,  0.4,   0.45,   0.5,    0.55,   0.6,     0.65,    0.7,
                                0.75,  0.8,   0.85,  0.9,    0.925,  0.95,   0.97,    0.98,    0.99,
                                0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999, 0.999999};
  json quantiles = json::object();
  if (samples.empty()) return quantiles;
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  for (const double share : kShares) {
    if ((1 - share) * count < 1) break;
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * count)));
    quantiles[fmt::format("{:g}", share)] = us(samples[rank - 1]);
  }
  quantiles["1"] = us(samples.back());
  return quantiles;
}

/// The samples that `pick` takes from each committed transaction; it returns a negative number for none.
template <typename Pick>
Samples gather(const TransactionsInput& input, Pick&& pick) {
  Samples all;
  for (const protocols::WorkerStatistics* worker : input.workers) {
    for (const protocols::TransactionSample& sample : worker->committed) {
      if (const std::int64_t ps = pick(sample); ps >= 0) all.push_back(ps);
    }
  }
  return all;
}

/// The time in each phase of the transactions that `of` picks and that had such a phase.
template <typename Of>
json phases_json(const TransactionsInput& input, Of&& of) {
  json phases = json::object();
  for (std::size_t phase = 0; phase < input.names->phases.size(); ++phase) {
    Samples all = gather(input, [&](const protocols::TransactionSample& sample) {
      return of(sample) && sample.phase_ps[phase] > 0 ? sample.phase_ps[phase] : -1;
    });
    phases[std::string(input.names->phases[phase])] = {
        {"count", all.size()}, {"p50_us", quantile_us(all, 500)}, {"mean_us", mean_us(all)}};
  }
  return phases;
}

void add_transactions(const TransactionsInput& input, json& result) {
  std::uint64_t user_aborts = 0;
  json& types = result["transactions"] = json::object();
  for (std::uint32_t type = 0; type < input.transaction_names.size(); ++type) {
    Samples latency = gather(input, [&](const protocols::TransactionSample& sample) {
      return sample.type == type ? sample.latency_ps : -1;
    });
    std::uint64_t type_user_aborts = 0;
    for (const auto* worker : input.workers) type_user_aborts += worker->user_aborts[type];
    types[std::string(input.transaction_names[type])] = {
        {"committed", latency.size()},
        {"user_aborts", type_user_aborts},
        {"latency_us", latency_json(latency)},
        {"phases", phases_json(input, [&](const auto& sample) { return sample.type == type; })}};
    user_aborts += type_user_aborts;
  }
  Samples every = gather(input, [](const protocols::TransactionSample& sample) { return sample.latency_ps; });

  std::array<std::uint64_t, protocols::kAbortReasons> aborts{};
  for (const auto* worker : input.workers) {
    for (std::size_t reason = 0; reason < aborts.size(); ++reason) aborts[reason] += worker->aborts[reason];
  }
  json& reasons = result["aborts"] = json::object();
  for (std::size_t reason = 1; reason < input.names->aborts.size(); ++reason) {
    reasons[std::string(input.names->aborts[reason])] = aborts[reason];
  }
  const std::uint64_t aborted = std::accumulate(aborts.begin(), aborts.end(), std::uint64_t{0});
  const std::uint64_t attempts = every.size() + user_aborts + aborted;
  result["committed"] = every.size();
  result["user_aborts"] = user_aborts;
  result["aborted_attempts"] = aborted;
  if (input.scenario->run.offered_per_s > 0 && !input.partial) {
    std::uint64_t offered = 0;
    for (const auto* worker : input.workers) offered += worker->offered;
    result["offered"] = offered;
  }
  result["abort_ratio"] = attempts == 0 ? 0.0 : static_cast<double>(aborted) / static_cast<double>(attempts);
  result["committed_per_s"] = input.window_ps == 0 ? 0.0
                                                   : static_cast<double>(every.size()) /
                                                         (static_cast<double>(input.window_ps) / 1e12);
  result["latency_us"] = latency_json(every);
  result["latency_quantiles_us"] = quantiles_json(every);
}

json count_json(const VerbCounts::Count& count) {
  return {{"count", count.count}, {"bytes", count.bytes}};
}

void add_verbs(const RunInput& input, json& result) {
  const VerbCounts counts = input.after->verbs - input.before->verbs;
  const auto sum = [&](const char* name, std::initializer_list<Opcode> opcodes) {
    VerbCounts::Count all;
    for (const Opcode opcode : opcodes) all += counts.by_opcode[static_cast<std::size_t>(opcode)];
    result["verbs"][name] = count_json(all);
  };
  sum("read", {Opcode::kRdmaRead});
  sum("write", {Opcode::kRdmaWrite, Opcode::kRdmaWriteWithImm});
  sum("compare_swap", {Opcode::kAtomicCmpAndSwp});
  sum("fetch_add", {Opcode::kAtomicFetchAndAdd});
  sum("send", {Opcode::kSend, Opcode::kSendWithImm});
  result["verbs"]["recv"] = count_json(counts.recv);
  result["datagrams_dropped"] = counts.datagrams_dropped;
}

/// null: nothing was looked up.
json hit_ratio(std::uint64_t hits, std::uint64_t misses) {
  const std::uint64_t all = hits + misses;
  return all == 0 ? json() : json(static_cast<double>(hits) / static_cast<double>(all));
}

/// How much of the window each instance of a resource was in use.
struct Shares {
  double mean = 0, max = 0;
  double servers = 0, clients = 0;      // means, where nodes have roles and instances are told apart by node
  double of_most = 0;                   // the mean of the role that is busier, of all where there are none
  double of_fullest = 0;                // the fullest instance; of cores, the machine whose are fullest
  std::string_view role, fullest_role;  // that these two are of; "": they are not told apart
};

double mean_of(std::span<const double> values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// What is full on the servers limits a run whose clients have it idle. Instances are in the order of nodes,
/// but for links, of which a role uses one direction: as many as the smaller role has may be all that limits.
void add_roles(const scenarios::Cluster& cluster, std::string_view resource, std::vector<double> each,
               Shares& shares) {
  const auto nodes = static_cast<std::size_t>(cluster.nodes),
             servers = static_cast<std::size_t>(cluster.servers);
  if (servers == 0 || servers >= nodes) return;
  if (resource.ends_with("link")) {
    const std::size_t limiting = each.size() * std::min(servers, nodes - servers) / nodes / 2;
    std::ranges::sort(each, std::ranges::greater{});
    shares.of_most = mean_of(std::span(each).first(std::max<std::size_t>(limiting, 1)));
    return;
  }
  if (each.size() % nodes != 0) return;
  const std::size_t of_servers = each.size() / nodes * servers;
  shares.servers = mean_of(std::span(each).first(of_servers));
  shares.clients = mean_of(std::span(each).subspan(of_servers));
  shares.of_most = std::max(shares.servers, shares.clients);
  if (shares.servers != shares.clients) shares.role = shares.servers > shares.clients ? "servers" : "clients";
}

/// A full core holds up its own coroutines and no others; where all of a machine are full, what others ask of
/// it waits.
void add_fullest(const scenarios::Cluster& cluster, std::string_view resource,
                 const std::vector<double>& each, Shares& shares) {
  const auto nodes = static_cast<std::size_t>(cluster.nodes),
             servers = static_cast<std::size_t>(cluster.servers);
  const bool by_node = each.size() % nodes == 0 && !resource.ends_with("link");
  const bool together = by_node && (resource == "core" || resource == "socket_interrupts");
  const std::size_t size = together ? each.size() / nodes : 1;
  for (std::size_t i = 0; i < each.size(); i += size) {
    const double share = mean_of(std::span(each).subspan(i, size));
    if (share <= shares.of_fullest) continue;
    shares.of_fullest = share;
    if (by_node && servers > 0 && servers < nodes)
      shares.fullest_role = i * nodes / each.size() < servers ? "servers" : "clients";
  }
}

Shares shares_of(const RunInput& input, std::string_view resource, const std::vector<std::int64_t>& before_ps,
                 const std::vector<std::int64_t>& after_ps) {
  Shares shares;
  if (after_ps.empty() || input.window_ps == 0) return shares;
  std::vector<double> each;
  for (std::size_t i = 0; i < after_ps.size(); ++i) {
    const std::int64_t earlier = i < before_ps.size() ? before_ps[i] : 0;
    // A queue that grows makes a resource look busier than the window is long: it is full.
    each.push_back(
        std::min(1.0, static_cast<double>(after_ps[i] - earlier) / static_cast<double>(input.window_ps)));
  }
  shares.mean = shares.of_most = mean_of(each);
  shares.max = *std::ranges::max_element(each);
  add_fullest(input.scenario->cluster, resource, each, shares);
  add_roles(input.scenario->cluster, resource, std::move(each), shares);
  return shares;
}

json utilization_json(const std::string& name, const Shares& shares) {
  json entry = {{"name", name}, {"utilization_mean", shares.mean}, {"utilization_max", shares.max}};
  if (shares.servers > 0 || shares.clients > 0) {
    entry["utilization_servers"] = shares.servers;
    entry["utilization_clients"] = shares.clients;
  }
  return entry;
}

/// Of all NICs, and of the one that misses most.
json qp_cache_hits(const RunInput& input) {
  sim::Usage::LookUps all;
  json least;
  for (std::size_t nic = 0; nic < input.after->qp_cache.size(); ++nic) {
    const sim::Usage::LookUps of = input.after->qp_cache[nic] - input.before->qp_cache[nic];
    if (const json own = hit_ratio(of.hits, of.misses); least.is_null() || (!own.is_null() && own < least))
      least = own;
    all = {all.hits + of.hits, all.misses + of.misses};
  }
  return {{"hit_ratio", hit_ratio(all.hits, all.misses)}, {"hit_ratio_min", least}};
}

/// Adds what the parts of resources take, and names the cause of `limit` instead of it where one part makes
/// up a good share: without it, the resource would not be full.
std::string add_parts(const RunInput& input, const std::string& limit, double limit_share,
                      const std::function<double(const Shares&)>& judged, json& resources) {
  constexpr double kGoodShare = 0.25;
  std::string cause = limit;
  double largest = kGoodShare * limit_share;
  std::map<std::string, Shares> by_name;  // a part of several resources counts where it takes most
  for (std::size_t i = 0; i < input.after->parts.size(); ++i) {
    const sim::Usage::Part& after = input.after->parts[i];
    const Shares shares = shares_of(input, after.name, input.before->parts[i].busy_ps, after.busy_ps);
    Shares& most = by_name[after.name];
    for (double Shares::*part : {&Shares::mean, &Shares::max, &Shares::servers, &Shares::clients})
      most.*part = std::max(most.*part, shares.*part);
    if (after.of == limit && judged(shares) >= largest) {
      largest = judged(shares);
      cause = after.name;
    }
  }
  if (input.scenario->backend == "sim") by_name["qp_cache"];  // a real device does not tell
  for (const auto& [name, shares] : by_name) {
    json& entry = resources.emplace_back(utilization_json(name, shares));
    if (name == "qp_cache") entry.update(qp_cache_hits(input));
  }
  return cause;
}

bool nothing_ended(const json& result) {
  double ended = 0;
  for (const char* key : {"committed", "user_aborts", "aborted_attempts", "operations", "operations_failed"})
    ended += result.value(key, 0.0);
  return ended == 0;
}

/// A resource as what may limit a run.
struct Candidate {
  std::string name = "none";
  double share = 0;
  std::string_view role;
  bool fullest = false;  // `share` is of the fullest instance, not a mean
};

constexpr double kSaturated = 0.8, kFull = 0.9, kBrimful = 0.98;

/// The resource that is most in use. Where machines share the work evenly it is the one with the highest
/// mean: which instance is the fullest is chance then. Where no mean is full but an instance is (a popular
/// record's NIC, a cable that all share), all wait for that one: shares of the fullest are compared with one
/// another.
class Busiest {
 public:
  void add(const std::string& name, const Shares& shares) {
    if (shares.of_most > even_.share) even_ = {name, shares.of_most, shares.role};
    if (name != "core" && shares.of_most > beside_cores_.share)
      beside_cores_ = {name, shares.of_most, shares.role};
    const std::pair fullness(shares.of_fullest, shares.of_most);  // the fullest are often equally full
    if (fullness <= fullness_) return;
    fullness_ = fullness;
    fullest_ = {name, shares.of_fullest, shares.fullest_role, true};
  }

  const Candidate& find() const {
    // A core is busy while it looks in vain for what a full engine has yet to do, an engine never is.
    if (even_.name == "core" && beside_cores_.share >= kBrimful) return beside_cores_;
    return even_.share < kFull && fullest_.share >= kFull ? fullest_ : even_;
  }

 private:
  Candidate even_, fullest_, beside_cores_;
  std::pair<double, double> fullness_{0, 0};
};

/// `one_machine`: what is full on one machine limits the run, the others face it.
void add_resources(const RunInput& input, bool one_machine, json& result) {
  json& resources = result["resources"] = json::array();
  const auto judged = [&](const std::string& name, const std::vector<std::int64_t>& before_ps,
                          const std::vector<std::int64_t>& after_ps) {
    Shares shares = shares_of(input, name, before_ps, after_ps);
    if (one_machine) shares.of_most = shares.of_fullest = shares.max;
    return shares;
  };
  Busiest all;
  double core_share = 0;
  for (std::size_t r = 0; r < input.after->resources.size(); ++r) {
    const sim::Usage::Resource& after = input.after->resources[r];
    const Shares shares = judged(after.name, input.before->resources[r].busy_ps, after.busy_ps);
    resources.push_back(utilization_json(after.name, shares));
    all.add(after.name, shares);
    if (after.name == "core") core_share = shares.of_most;
  }
  const Candidate& busiest = all.find();
  // Where nothing is full, time goes into waiting: of the cores for each other, or for round trips.
  std::string limit = busiest.share >= kSaturated ? busiest.name : "round_trips";
  const double waiting = judged("core", input.before->lock_wait_ps, input.after->lock_wait_ps).of_most;
  const bool cores_hold_it = busiest.share < kSaturated || busiest.name == "core";
  const char* const lock =
      input.scenario->cluster.threads_per_queue_pair > 1 ? "queue_pair_lock" : "doorbell";
  if (cores_hold_it && waiting > 0.2 * core_share && core_share + waiting >= kSaturated) limit = lock;
  if (conflicts_limit(input, result, limit != "round_trips")) limit = "locks";
  if (input.scenario->run.offered_per_s > 0 && keeps_up(input, result)) limit = "offered_load";
  if (nothing_ended(result)) limit = "none";
  const auto as_limit = [&](const Shares& shares) {
    return one_machine || busiest.fullest ? shares.max : shares.of_most;
  };
  json& bottleneck = result["bottleneck"];
  bottleneck["resource"] = add_parts(input, limit, busiest.share, as_limit, resources);
  bottleneck["utilization"] = busiest.share;
  bottleneck["busiest"] = busiest.name;
  if (busiest.fullest) bottleneck["fullest"] = true;
  if (limit == "locks") {
    if (const auto share = retry_share(input, result)) bottleneck["retry_share"] = *share;
  }
  if (limit == lock) bottleneck["waiting_share"] = waiting;
  if (!busiest.role.empty()) bottleneck["role"] = busiest.role;
}

void add_run(const RunInput& input, json& result) {
  result["format"] = "verbtwin-result";
  result["version"] = 1;
  result["scenario"] = input.scenario->resolved;
  result["backend"] = input.scenario->backend;
  result["seed"] = input.scenario->run.seed;
  result["partial"] = input.partial;
  result["window_us"] = us(input.window_ps);
}

void add_operations(const OperationsInput& input, json& result) {
  Samples latency;
  std::uint64_t operations = 0, failed = 0;
  for (const protocols::OperationStatistics* worker : input.workers) {
    latency.insert(latency.end(), worker->latency_ps.begin(), worker->latency_ps.end());
    operations += worker->operations;
    failed += worker->failed;
  }
  const double window_s = static_cast<double>(input.window_ps) / 1e12;
  result["operations"] = operations;
  result["operations_failed"] = failed;
  result["machines"] = input.machines;
  result["operations_per_s"] =
      input.window_ps == 0 ? 0.0 : static_cast<double>(operations) / window_s / input.machines;
  result["latency_us"] = latency_json(latency);
  result["latency_quantiles_us"] = quantiles_json(latency);
}

}  // namespace

const TransactionNames& occ_names() {
  static const TransactionNames names = [] {
    TransactionNames all;
    for (std::size_t i = 0; i < protocols::kPhases; ++i)
      all.phases.push_back(to_string(static_cast<protocols::Phase>(i)));
    for (std::size_t i = 0; i < protocols::kAbortReasons; ++i)
      all.aborts.push_back(to_string(static_cast<protocols::AbortReason>(i)));
    return all;
  }();
  return names;
}

const TransactionNames& ramp_names() {
  static const TransactionNames names{{protocols::kRampPhaseNames.begin(), protocols::kRampPhaseNames.end()},
                                      {protocols::kRampAbortNames.begin(), protocols::kRampAbortNames.end()}};
  return names;
}

json make_result(const TransactionsInput& input) {
  json result;
  add_run(input, result);
  add_transactions(input, result);
  warn_of_start(input, result);
  warn_of_length(input, result);
  warn_of_backlog(input, result);
  warn_of_trend(input, result);
  warn_of_nothing(input, result);
  result["phases"] = phases_json(input, [](const auto&) { return true; });
  add_verbs(input, result);
  add_resources(input, false, result);
  if (input.names == &occ_names()) {
    std::uint64_t cached = 0, missed = 0;
    for (const protocols::WorkerStatistics* worker : input.workers) {
      cached += worker->locations_cached;
      missed += worker->locations_missed;
    }
    result["location_cache"] = {{"hit_ratio", hit_ratio(cached, missed)}};
  }
  result["checks"] = json::array();
  for (const protocols::CheckReport& check : input.checks) {
    result["checks"].push_back({{"name", check.name},
                                {"transactions", check.transactions},
                                {"violations", check.violations},
                                {"examples", check.examples}});
    for (const auto& [name, count] : check.allowed) result["checks"].back()["allowed"][name] = count;
  }
  return result;
}

json make_result(RampInput input) {
  std::array<std::uint64_t, 4> rounds{};
  std::uint64_t in_place = 0, accepted = 0;
  for (const protocols::RampStatistics* client : input.clients) {
    input.workers.push_back(client);
    for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i] += client->reads_by_rounds[i];
    in_place += client->in_place;
    accepted += client->in_place_accepted;
  }
  json result = make_result(static_cast<const TransactionsInput&>(input));
  result["read_rounds"] = {{"one", rounds[1]}, {"two", rounds[2]}, {"three", rounds[3]}};
  result["in_place_reads"] = {{"count", in_place}, {"accepted", accepted}};
  result["versions_collected_early"] = input.collected_early;
  return result;
}

json make_result(const OperationsInput& input) {
  json result;
  add_run(input, result);
  add_operations(input, result);
  warn_of_start(input, result);
  warn_of_trend(input, result);
  warn_of_nothing(input, result);
  add_verbs(input, result);
  // Two machines that ping-pong are one pair, and equals.
  const bool one_machine = input.scenario->workload.value("pattern", "symmetric") != "symmetric" &&
                           input.scenario->workload.value("mode", "") != "ping_pong";
  add_resources(input, one_machine, result);
  result["checks"] = json::array();
  return result;
}

}  // namespace verbtwin::tools
