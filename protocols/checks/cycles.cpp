#include "protocols/checks/cycles.hpp"

#include <algorithm>
#include <array>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/range/iterator_range.hpp>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace verbtwin::protocols {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                 boost::no_property, std::uint32_t, std::uint32_t>;

// Edges the search for a short cycle may look at in all: an example must not cost more than the check.
constexpr std::uint64_t kSearchEdges = 4'000'000;

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

Graph make_graph(std::uint32_t transactions, std::span<const Dependency> dependencies) {
  const auto ends = [](const Dependency& d) {
    return std::pair<std::uint32_t, std::uint32_t>(d.source, d.target);
  };
  return Graph(boost::edges_are_unsorted_multi_pass,
               boost::make_transform_iterator(dependencies.begin(), ends),
               boost::make_transform_iterator(dependencies.end(), ends), transactions);
}

/// Breadth-first search for a shortest way from a transaction back to itself.
class CycleSearch {
 public:
  CycleSearch(const Graph& graph, std::span<const std::uint32_t> component)
      : graph_(graph), component_(component), parent_(component.size(), kNobody) {}

  bool exhausted() const { return edges_seen_ > kSearchEdges; }

  /// The transactions of a shortest cycle through `start`, which comes first, or nothing if it has `limit`
  /// transactions or more.
  std::vector<std::uint32_t> through(std::uint32_t start, std::size_t limit) {
    queue_.assign(1, start);
    std::vector<std::uint32_t> cycle;
    std::size_t level_end = 1;
    for (std::size_t i = 0, length = 1; i < queue_.size() && length < limit && cycle.empty(); ++i) {
      if (visit(start, queue_[i])) cycle = path_to(start, queue_[i]);
      if (i + 1 == level_end) {
        level_end = queue_.size();
        ++length;
      }
    }
    for (const std::uint32_t seen : queue_) parent_[seen] = kNobody;
    return cycle;
  }

 private:
  /// Queues what follows `vertex` in its component; true if `start` does.
  bool visit(std::uint32_t start, std::uint32_t vertex) {
    for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, graph_))) {
      ++edges_seen_;
      const auto next = static_cast<std::uint32_t>(boost::target(edge, graph_));
      if (next == start) return true;
      if (component_[next] != component_[start] || parent_[next] != kNobody) continue;
      parent_[next] = vertex;
      queue_.push_back(next);
    }
    return false;
  }

  std::vector<std::uint32_t> path_to(std::uint32_t start, std::uint32_t last) const {
    std::vector<std::uint32_t> path;
    for (std::uint32_t vertex = last; vertex != start; vertex = parent_[vertex]) path.push_back(vertex);
    path.push_back(start);
    std::ranges::reverse(path);
    return path;
  }

  const Graph& graph_;
  std::span<const std::uint32_t> component_;
  std::vector<std::uint32_t> parent_;
  std::vector<std::uint32_t> queue_;
  std::uint64_t edges_seen_ = 0;
};

/// The dependencies from each of these transactions to the next: of several between two the first one given.
std::vector<Dependency> along(std::span<const std::uint32_t> path, std::span<const Dependency> dependencies) {
  std::vector<std::uint32_t> place(1 + *std::ranges::max_element(path), kNobody);
  for (std::size_t i = 0; i + 1 < path.size(); ++i) place[path[i]] = static_cast<std::uint32_t>(i);
  std::vector<Dependency> steps(path.size() - 1);
  std::vector<bool> known(steps.size());
  for (const Dependency& dependency : dependencies) {
    if (dependency.source >= place.size() || place[dependency.source] == kNobody) continue;
    const std::size_t step = place[dependency.source];
    if (known[step] || dependency.target != path[step + 1]) continue;
    steps[step] = dependency;
    known[step] = true;
  }
  return steps;
}

/// Who had ended when another began, among the transactions from `first` to before `last`, as a chain of
/// instants: each is the end of a transaction, and numbered from when.size() on. A transaction leads to its
/// end, an end to the next one, and the last end before a transaction to that: as many edges as transactions,
/// not their square.
void add_time(std::span<const Interval> when, std::uint32_t first, std::uint32_t last,
              std::vector<Dependency>& all) {
  const auto instants = static_cast<std::uint32_t>(when.size());
  std::vector<std::uint32_t> by_end(last - first);
  std::iota(by_end.begin(), by_end.end(), first);
  const auto end_of = [&](std::uint32_t t) { return when[t].end_ps; };
  std::ranges::stable_sort(by_end, {}, end_of);
  const auto add = [&](std::uint32_t source, std::uint32_t target) {
    all.push_back({source, target, {}, 0, DependencyKind::kRealTime});
  };
  for (std::size_t i = 0; i < by_end.size(); ++i) {
    add(by_end[i], instants + by_end[i]);
    if (i > 0) add(instants + by_end[i - 1], instants + by_end[i]);
  }
  for (std::uint32_t t = first; t < last; ++t) {
    const auto later = std::ranges::lower_bound(by_end, when[t].begin_ps, {}, end_of);
    if (later != by_end.begin()) add(instants + *std::prev(later), t);
  }
}

/// The same cycle from transaction to transaction.
std::vector<Dependency> without_instants(std::span<const Dependency> cycle, std::uint32_t transactions) {
  std::vector<Dependency> steps(cycle.begin(), cycle.end());
  const auto from_transaction = [&](const Dependency& step) { return step.source < transactions; };
  std::rotate(steps.begin(), std::ranges::find_if(steps, from_transaction), steps.end());
  std::vector<Dependency> result;
  for (const Dependency& step : steps) {
    if (from_transaction(step)) {
      result.push_back(step);
    } else {
      result.back().target = step.target;
    }
  }
  return result;
}

}  // namespace

std::string_view to_string(DependencyKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"ww", "wr", "rw", "ended before"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct DependencyGraph::Impl {
  Impl(std::uint32_t transactions, std::span<const Dependency> given)
      : dependencies(given), graph(make_graph(transactions, given)), component(transactions) {
    const auto index = boost::get(boost::vertex_index, graph);
    components = boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), index));
  }

  std::span<const Dependency> dependencies;
  Graph graph;
  std::vector<std::uint32_t> component;  // of each transaction; no dependency leads to a higher one
  std::size_t components = 0;
};

DependencyGraph::DependencyGraph(std::uint32_t transactions, std::span<const Dependency> dependencies)
    : impl_(std::make_unique<Impl>(transactions, dependencies)) {}
DependencyGraph::~DependencyGraph() = default;

Cycles DependencyGraph::find_cycles() const {
  const std::vector<std::uint32_t>& component = impl_->component;
  const auto transactions = static_cast<std::uint32_t>(component.size());
  if (impl_->components == transactions) return {};

  std::vector<std::uint32_t> size(impl_->components);
  for (const std::uint32_t c : component) ++size[c];
  Cycles result;
  result.components =
      static_cast<std::uint64_t>(std::ranges::count_if(size, [](std::uint32_t n) { return n > 1; }));

  CycleSearch search(impl_->graph, component);
  std::vector<std::uint32_t> shortest;
  for (std::uint32_t t = 0; t < transactions && shortest.size() != 2 && !search.exhausted(); ++t) {
    if (size[component[t]] == 1) continue;
    std::vector<std::uint32_t> cycle = search.through(t, shortest.empty() ? kNobody : shortest.size());
    if (!cycle.empty()) shortest = std::move(cycle);
  }
  shortest.push_back(shortest.front());
  result.shortest = along(shortest, impl_->dependencies);
  return result;
}

Overtakings DependencyGraph::find_overtakings(std::span<const Interval> when, std::uint32_t first,
                                              std::uint32_t last) const {
  const std::vector<std::uint32_t>& component = impl_->component;
  assert(impl_->components == component.size());
  std::vector<std::uint32_t> order(component.size());  // whoever depends on another comes behind it
  for (std::uint32_t t = 0; t < component.size(); ++t) order[component[t]] = t;

  // The first that ended of those that come behind a transaction, itself among them; by transaction.
  std::vector<std::uint32_t> first_ended(component.size(), kNobody);
  const auto end_ps = [&](std::uint32_t t) {
    return t == kNobody ? std::numeric_limits<std::int64_t>::max() : when[t].end_ps;
  };
  Overtakings result;
  std::uint32_t example = kNobody;
  for (const std::uint32_t t : order) {
    const bool judged = t >= first && t < last;
    std::uint32_t& ended = first_ended[t];
    if (judged) ended = t;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(t, impl_->graph))) {
      const std::uint32_t behind = first_ended[boost::target(edge, impl_->graph)];
      if (end_ps(behind) < end_ps(ended)) ended = behind;
    }
    if (!judged || end_ps(ended) >= when[t].begin_ps) continue;
    ++result.transactions;
    example = std::min(example, t);
  }
  if (example == kNobody) return result;

  std::vector<std::uint32_t> path = {example};
  while (path.back() != first_ended[example]) {
    for (const auto edge : boost::make_iterator_range(boost::out_edges(path.back(), impl_->graph))) {
      const auto next = static_cast<std::uint32_t>(boost::target(edge, impl_->graph));
      if (first_ended[next] != first_ended[example]) continue;
      path.push_back(next);
      break;
    }
  }
  result.path = along(path, impl_->dependencies);
  return result;
}

Cycles DependencyGraph::find_cycles_in_time(std::span<const Interval> when,
                                            std::span<const std::uint32_t> clocks) const {
  const auto transactions = static_cast<std::uint32_t>(when.size());
  std::vector<Dependency> all(impl_->dependencies.begin(), impl_->dependencies.end());
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    add_time(when, clocks[i], i + 1 < clocks.size() ? clocks[i + 1] : transactions, all);
  }
  const DependencyGraph in_time(2 * transactions, all);
  Cycles found = in_time.find_cycles();
  found.shortest = without_instants(found.shortest, transactions);
  return found;
}

}  // namespace verbtwin::protocols
