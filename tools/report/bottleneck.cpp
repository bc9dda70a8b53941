#include "tools/report/bottleneck.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

struct Limit {
  std::string_view resource;
  std::string_view what;    // comes before the utilization
  std::string_view remedy;  // completes "to go faster, ..."
};

constexpr Limit kLimits[] = {
    {"core", "The workers' cores are the limit",
     "add threads where cores are left, batch more requests per doorbell and message, or let one-sided verbs "
     "take work from the "
     "CPU"},
    {"nic_send",
     "The NICs' send engines (requests, and the serving of those that come over RC) are the limit",
     "send fewer requests per transaction (coalesce, use one-sided verbs less often per record) or add a "
     "NIC"},
    {"nic_recv", "The NICs' receive engines are the limit",
     "send fewer packets to each machine (coalesce messages, batch requests) or add a NIC"},
    {"pcie_up", "PCIe from the NICs to memory is the limit",
     "write less by DMA (smaller payloads and completions, unsignalled requests) or use a wider slot"},
    {"pcie_down", "PCIe from memory to the NICs is the limit",
     "ring fewer doorbells, inline small payloads so that they need no fetch, or use a wider slot"},
    {"dma_reads", "The NICs' DMA reads in flight are the limit",
     "inline small payloads and post requests one by one where that saves the fetch of their WQEs, or spread "
     "the records over more machines or NICs"},
    {"doorbell", "The locks of the shared doorbell registers are the limit",
     "give every thread a device context of its own, or ring once for several requests"},
    {"queue_pair_lock", "The locks of queue pairs that threads share are the limit",
     "let fewer threads share one, or post several requests at a time"},
    {"atomic_unit", "The NICs' atomic units are the limit",
     "lock by RPC instead of compare-and-swap, or spread the records that are locked most"},
    {"link", "The fullest network link is the limit",
     "move fewer bytes per transaction, replicate less, or use faster links, or more between the switches"},
    {"socket_link", "The network links under TCP are the limit",
     "move fewer bytes per transaction, or use a faster interface"},
    {"socket_interrupts", "The cores that take TCP's interrupts are the limit",
     "send fewer packets (larger messages, batches), or use an interface with more receive queues"},
    {"qp_cache", "The NICs' queue pair caches are the limit",
     "use fewer connections per NIC: fewer threads, one queue pair per peer, or datagrams instead"},
    {"wqe_cache", "The NICs' caches of outstanding requests are the limit",
     "keep fewer requests in flight: a smaller window, fewer coroutines or fewer queue pairs"},
    {"rq_cache", "The NICs' caches of receive queues are the limit",
     "use fewer queue pairs that receive per NIC: fewer threads, or WRITEs instead of SENDs"},
    {"mtt_cache", "The NICs' address translation caches are the limit",
     "use larger pages, or touch less memory per machine"},
    {"mmio", "Stores to the NICs' doorbells are the limit",
     "ring once for several requests, and keep inline payloads short"},
    {"qp_atomics", "Queue pairs, which do one atomic at a time, are the limit",
     "use more queue pairs, or lock by RPC instead of compare-and-swap"},
    {"atomic_lock", "One lock of a NIC's atomic unit is the limit",
     "spread the words that are locked most over low address bits, or lock them by RPC"},
};

constexpr double kNearlyFull = 0.95;

/// "97.0 % in use on the servers".
std::string use_of(const nlohmann::json& bottleneck) {
  const std::string role = bottleneck.value("role", "");
  const bool link = bottleneck.value("busiest", "").ends_with("link");  // no machine's
  std::string where = role.empty() ? "" : " on the " + role;
  if (bottleneck.value("fullest", false) && !link)
    where = role.empty() ? " on the fullest machine" : " on the fullest of the " + role;
  return fmt::format("{} in use{}", format_percent(bottleneck.value("utilization", 0.0)), where);
}

/// What the sentence about a limit says of it: the use of the resource, or of the one that it is a part of.
std::string use_of_limit(const nlohmann::json& bottleneck) {
  const std::string resource = bottleneck.value("resource", "");
  const std::string busiest = bottleneck.value("busiest", resource);
  if (bottleneck.contains("waiting_share")) {
    return fmt::format("{}cores wait for them {} of the time",
                       busiest == resource ? use_of(bottleneck) + ", and " : "",
                       format_percent(bottleneck.value("waiting_share", 0.0)));
  }
  if (busiest == resource) return use_of(bottleneck);
  return fmt::format("a good part of {}, which is {}", busiest, use_of(bottleneck));
}

const Limit* limit_named(const std::string& resource) {
  const auto* found = std::ranges::find(kLimits, resource, &Limit::resource);
  return found == std::end(kLimits) ? nullptr : found;
}

/// "nic_recv (99.5 % in use) and link (99.1 % in use)"; "" where nothing else is about as full.
std::string others_of(const nlohmann::json& bottleneck) {
  std::vector<std::string> others;
  for (const auto& other : bottleneck.value("also", nlohmann::json::array())) {
    others.push_back(fmt::format("{} ({} in use)", other.value("resource", ""),
                                 format_percent(other.value("utilization", 0.0))));
  }
  return fmt::format("{}", fmt::join(others, " and "));
}

/// What to do about these, each behind `before`.
std::string remedies_of_others(const nlohmann::json& bottleneck, std::string_view before) {
  std::string text;
  for (const auto& other : bottleneck.value("also", nlohmann::json::array())) {
    if (const Limit* limit = limit_named(other.value("resource", "")))
      text += fmt::format("{}{}", before, limit->remedy);
  }
  return text;
}

/// "57.0 % of the coroutines' time goes into ..."; "" where it is not known.
std::string retries_of(const nlohmann::json& bottleneck) {
  if (!bottleneck.contains("retry_share")) return "";
  return fmt::format("{} of the coroutines' time goes into attempts that fail and waits before the next",
                     format_percent(bottleneck.value("retry_share", 0.0)));
}

std::string describe_conflicts(const nlohmann::json& bottleneck, const std::string& most) {
  const std::string others = others_of(bottleneck), retries = retries_of(bottleneck);
  return fmt::format(
      "{}: {}{}. To go faster, spread the accesses over more records or hold locks for less time{}; with "
      "fewer coroutines fewer attempts fail and latency is shorter. `verbtwin explain` tries what else would "
      "help.",
      others.empty() ? "Conflicts are the limit"
                     : fmt::format("Conflicts are the limit, and so is {}", others),
      retries.empty() ? "too many attempts fail" : retries, others.empty() ? fmt::format(" ({})", most) : "",
      remedies_of_others(bottleneck, ", or "));
}

/// What is not full leaves time in which the run waits for round trips.
std::string waits_too(const nlohmann::json& bottleneck, std::string_view workload) {
  // Cores that wait for a lock are taken: their use says less.
  if (bottleneck.value("utilization", 1.0) >= kNearlyFull || bottleneck.contains("waiting_share")) return "";
  return fmt::format(" More {}{} may help as well.",
                     workload == "primitive" ? "requests outstanding" : "coroutines",
                     bottleneck.value("resource", "") == "core" ? "" : " or faster cores");
}

}  // namespace

std::string describe_bottleneck(const nlohmann::json& bottleneck, std::string_view workload) {
  const std::string resource = bottleneck.value("resource", "");
  const std::string busiest = bottleneck.value("busiest", "");
  const std::string most =
      fmt::format("the busiest resource{} is {}", busiest.empty() ? "" : fmt::format(", {},", busiest),
                  use_of(bottleneck));
  if (resource == "round_trips") {
    return fmt::format(
        "Nothing is saturated ({}): {}; `verbtwin explain` tries what would.", most,
        workload == "primitive"
            ? "threads wait for round trips; more requests outstanding may help, or more threads, or, "
              "where a queue pair's window or processing unit is full, more queue pairs "
              "(cluster.qps_per_peer)"
            : "coroutines wait for round trips; more of them may help, or, where each has "
              "requests outstanding, more queue pairs");
  }
  if (resource == "locks") return describe_conflicts(bottleneck, most);
  if (resource == "offered_load") {
    return fmt::format(
        "The cluster does all that it is asked for ({}); a higher run.offered_per_s shows its limit.", most);
  }
  if (resource == "none") {
    return "Nothing was measured: nothing came to its end in the window. Lengthen run.measure_us, or let the "
           "run go on.";
  }
  const std::string others = others_of(bottleneck), retries = retries_of(bottleneck);
  const std::string or_others =
      others.empty() ? ""
                     : fmt::format(", or {}, about as full: one relieved alone may bring nothing", others);
  const std::string end = waits_too(bottleneck, workload) + (retries.empty() ? "" : " " + retries + ".");
  const Limit* limit = limit_named(resource);
  if (limit == nullptr) {
    return fmt::format("{} is the limit ({}){}.{}", resource.empty() ? "Something unnamed" : resource,
                       use_of_limit(bottleneck), or_others, end);
  }
  return fmt::format("{} ({}){}{}{}{}.{}", limit->what, use_of_limit(bottleneck), or_others,
                     others.empty() ? ": to go faster, " : ". To go faster, ", limit->remedy,
                     remedies_of_others(bottleneck, "; and "), end);
}

}  // namespace verbtwin::tools
