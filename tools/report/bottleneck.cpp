#include "tools/report/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

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

constexpr double kFull = 0.9;

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
  if (resource == "locks") {
    return fmt::format(
        "Conflicts are the limit: {} ({}). To go faster, spread the accesses over more "
        "records or hold locks for less time; with fewer coroutines fewer attempts fail and latency is "
        "shorter. `verbtwin explain` tries what else would help.",
        bottleneck.contains("retry_share")
            ? fmt::format("{} of the coroutines' time goes into attempts that fail and waits before the next",
                          format_percent(bottleneck.value("retry_share", 0.0)))
            : "too many attempts fail",
        most);
  }
  if (resource == "offered_load") {
    return fmt::format(
        "The cluster does all that it is asked for ({}); a higher run.offered_per_s shows its limit.", most);
  }
  if (resource == "none") {
    return "Nothing was measured: nothing came to its end in the window. Lengthen run.measure_us, or let the "
           "run go on.";
  }
  const auto* limit = std::find_if(std::begin(kLimits), std::end(kLimits),
                                   [&](const Limit& entry) { return entry.resource == resource; });
  if (limit == std::end(kLimits)) {
    return fmt::format("{} is the limit ({}).", resource.empty() ? "Something unnamed" : resource,
                       use_of_limit(bottleneck));
  }
  // Cores wait for round trips too while they are not full.
  const bool nearly = resource == "core" && bottleneck.value("utilization", 1.0) < kFull;
  return fmt::format("{} ({}): to go faster, {}.{}", limit->what, use_of_limit(bottleneck), limit->remedy,
                     !nearly                   ? ""
                     : workload == "primitive" ? " More requests outstanding may help as well."
                                               : " More coroutines may help as well.");
}

}  // namespace verbtwin::tools
