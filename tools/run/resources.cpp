#include "tools/run/resources.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/run/conflicts.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

using nlohmann::json;

namespace {

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
    // Of a server with jobs announced for later it is an estimate what is done by now (models/server.hpp): it
    // may fall a little, and rise by more than the time that has passed.
    const double share = static_cast<double>(after_ps[i] - earlier) / static_cast<double>(input.window_ps);
    each.push_back(std::clamp(share, 0.0, 1.0));
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
  json least;
  for (std::size_t nic = 0; nic < input.after->qp_cache.size(); ++nic) {
    const sim::Usage::LookUps of = input.after->qp_cache[nic] - input.before->qp_cache[nic];
    if (const json own = hit_ratio(of.hits, of.misses); least.is_null() || (!own.is_null() && own < least))
      least = own;
  }
  const sim::Usage::LookUps all = context_look_ups(*input.before, *input.after);
  return {{"hit_ratio", hit_ratio(all.hits, all.misses)}, {"hit_ratio_min", least}};
}

using SharesByName = std::map<std::string, Shares>;
constexpr auto kClipped =
    std::to_array({&Shares::mean, &Shares::max, &Shares::servers, &Shares::clients, &Shares::of_most});

/// Adds what the parts of resources take, and names the cause of `limit` instead of it where one part makes
/// up a good share: without it, the resource would not be full. Parts are counted when they are announced,
/// `wholes` when they are done, so that a part may seem more than its whole.
std::string add_parts(const RunInput& input, const SharesByName& wholes, const std::string& limit,
                      double limit_share, const std::function<double(const Shares&)>& judged,
                      json& resources) {
  constexpr double kGoodShare = 0.25;
  std::string cause = limit;
  double largest = kGoodShare * limit_share;
  SharesByName by_name;  // a part of several resources counts where it takes most
  for (std::size_t i = 0; i < input.after->parts.size(); ++i) {
    const sim::Usage::Part& after = input.after->parts[i];
    Shares shares = shares_of(input, after.name, input.before->parts[i].busy_ps, after.busy_ps);
    Shares& most = by_name[after.name];
    for (double Shares::*share : kClipped) {
      shares.*share = std::min(shares.*share, wholes.at(after.of).*share);
      most.*share = std::max(most.*share, shares.*share);
    }
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
constexpr double kAboutAsFull = 0.02;  // no further apart

/// The resource that is most in use. Where machines share the work evenly it is the one with the highest
/// mean: which instance is the fullest is chance then. Where no mean is full but an instance is (a popular
/// record's NIC, a cable that all share), all wait for that one: shares of the fullest are compared with one
/// another.
class Busiest {
 public:
  void add(const std::string& name, const Shares& shares) {
    all_.emplace_back(name, shares);
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

  /// The others that are about as full as `busiest`, the fullest first: which of them holds up the rest, no
  /// share of use tells. Of cores none does beside an engine that is full, as above.
  std::vector<Candidate> as_full_as(const Candidate& busiest) const {
    std::vector<Candidate> others;
    for (const auto& [name, shares] : all_) {
      const double share = busiest.fullest ? shares.of_fullest : shares.of_most;
      const bool in_vain = name == "core" && busiest.share >= kBrimful;
      if (name != busiest.name && !in_vain && share >= std::max(busiest.share - kAboutAsFull, kSaturated))
        others.push_back({name, share, ""});
    }
    std::ranges::stable_sort(others, std::ranges::greater{}, &Candidate::share);
    return others;
  }

 private:
  std::vector<std::pair<std::string, Shares>> all_;
  Candidate even_, fullest_, beside_cores_;
  std::pair<double, double> fullness_{0, 0};
};

/// Each core's time at work and waiting for locks.
std::vector<std::int64_t> cores_taken_ps(const sim::Usage& usage) {
  const auto cores = std::ranges::find(usage.resources, "core", &sim::Usage::Resource::name);
  if (cores == usage.resources.end()) return {};
  std::vector<std::int64_t> taken_ps = cores->busy_ps;
  for (std::size_t core = 0; core < std::min(taken_ps.size(), usage.lock_wait_ps.size()); ++core)
    taken_ps[core] += usage.lock_wait_ps[core];
  return taken_ps;
}

/// What limits the run as well as `limit`, by its use. What fails for conflicts fills a resource together
/// with what commits.
std::vector<Candidate> also_limiting(const Busiest& all, const Candidate& busiest, const std::string& limit) {
  const bool conflicts = limit == "locks" && busiest.share >= kFull;
  if (limit != busiest.name && !conflicts) return {};
  std::vector<Candidate> also = all.as_full_as(busiest);
  if (conflicts) also.insert(also.begin(), busiest);
  return also;
}

}  // namespace

sim::Usage::LookUps context_look_ups(const sim::Usage& before, const sim::Usage& after) {
  sim::Usage::LookUps all;
  for (std::size_t nic = 0; nic < after.qp_cache.size(); ++nic) {
    const sim::Usage::LookUps of = after.qp_cache[nic] - before.qp_cache[nic];
    all = {all.hits + of.hits, all.misses + of.misses};
  }
  return all;
}

json hit_ratio(std::uint64_t hits, std::uint64_t misses) {
  const std::uint64_t all = hits + misses;
  return all == 0 ? json() : json(static_cast<double>(hits) / static_cast<double>(all));
}

void add_resources(const RunInput& input, bool one_machine, json& result) {
  json& resources = result["resources"] = json::array();
  const auto judged = [&](const std::string& name, const std::vector<std::int64_t>& before_ps,
                          const std::vector<std::int64_t>& after_ps) {
    Shares shares = shares_of(input, name, before_ps, after_ps);
    if (one_machine) shares.of_most = shares.of_fullest = shares.max;
    return shares;
  };
  Busiest all;
  SharesByName wholes;
  for (std::size_t r = 0; r < input.after->resources.size(); ++r) {
    const sim::Usage::Resource& after = input.after->resources[r];
    const Shares shares = judged(after.name, input.before->resources[r].busy_ps, after.busy_ps);
    resources.push_back(utilization_json(after.name, shares));
    all.add(after.name, shares);
    wholes[after.name] = shares;
  }
  const Candidate& busiest = all.find();
  // Where nothing is full, time goes into waiting: of the cores for each other, or for round trips.
  std::string limit = busiest.share >= kSaturated ? busiest.name : "round_trips";
  const double waiting = judged("core", input.before->lock_wait_ps, input.after->lock_wait_ps).of_most;
  const double taken = judged("core", cores_taken_ps(*input.before), cores_taken_ps(*input.after)).of_most;
  // Cores that wait for a lock are taken too: more so than an engine that is not full to the brim.
  const bool cores_hold_it = busiest.name == "core" || busiest.share < kSaturated ||
                             (busiest.share < kBrimful && taken > busiest.share);
  const char* const lock =
      input.scenario->cluster.threads_per_queue_pair > 1 ? "queue_pair_lock" : "doorbell";
  if (cores_hold_it && waiting > 0.2 * wholes["core"].of_most && taken >= kSaturated) limit = lock;
  const Full full = limit == "round_trips" ? Full::kNothing : busiest.fullest ? Full::kOne : Full::kAll;
  if (conflicts_limit(input, result, full)) limit = "locks";
  if (input.scenario->run.offered_per_s > 0 && load_of(input, result) == Load::kDone) limit = "offered_load";
  if (nothing_ended(result)) limit = "none";
  const auto as_limit = [&](const Shares& shares) {
    return one_machine || busiest.fullest ? shares.max : shares.of_most;
  };
  json& bottleneck = result["bottleneck"];
  bottleneck["resource"] = add_parts(input, wholes, limit, busiest.share, as_limit, resources);
  bottleneck["utilization"] = busiest.share;
  bottleneck["busiest"] = busiest.name;
  if (busiest.fullest) bottleneck["fullest"] = true;
  for (const Candidate& other : also_limiting(all, busiest, limit))
    bottleneck["also"].push_back({{"resource", other.name}, {"utilization", other.share}});
  if (limit == "locks" || conflicts_matter(input, result)) {
    if (const auto share = retry_share(input, result)) bottleneck["retry_share"] = *share;
  }
  if (limit == lock) bottleneck["waiting_share"] = waiting;
  if (!busiest.role.empty()) bottleneck["role"] = busiest.role;
}

}  // namespace verbtwin::tools
