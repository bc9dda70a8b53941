#include "sim/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "backend/number_map.hpp"
#include "backend/user_error.hpp"
#include "sim/shared_queue_pair.hpp"

namespace verbtwin::sim {

class Cluster::Node final : public NodeMemory {
 public:
  Node(Cluster& cluster, std::size_t bytes)
      : cluster_(cluster), mapping_(bytes), records_(*cluster.record_pool_) {
    key_ = regions_.add(mapping_.bytes(), kAccessAll, &records_);
  }
  std::span<std::byte> local() override { return mapping_.bytes(); }
  std::uint32_t lkey() const override { return key_; }
  RemoteMemory remote(int node, int) const override {
    const Node& other = *cluster_.nodes_[static_cast<std::size_t>(node)];
    return {reinterpret_cast<std::uint64_t>(other.mapping_.bytes().data()), other.key_};
  }
  void keep_records(std::size_t offset, std::size_t length, std::size_t stride_b) override {
    if (stride_b > RecordMemory::kStrideMaxBytes) return;
    records_.add(offset, length, stride_b);
    mapping_.forbid(offset, length);
  }
  std::byte* record_at(std::size_t offset) override {
    const RecordMemory::Piece piece = records_.use(offset);
    return piece.is_record ? piece.at : mapping_.bytes().data() + offset;
  }
  void prefetch_record(std::size_t offset) override { records_.prefetch_find(offset); }
  /// On all nodes or on none.
  void expect_use(std::size_t offset, std::size_t length) override {
    // Whole, with what is beside it in the pages at its ends.
    const std::size_t begin = offset - std::min(offset, LazyMapping::kHugePageBytes);
    const std::size_t end = std::min(offset + length + LazyMapping::kHugePageBytes, mapping_.bytes().size());
    const auto nodes = static_cast<std::size_t>(cluster_.shape_.nodes);
    if (end - begin <= kHugePagesMaxBytes / nodes) mapping_.prefer_huge_pages(begin, end - begin);
  }
  /// What reads as zeros is one huge page that the whole machine shares: no memory, and one fault for 2 MiB.
  void expect_reads(std::size_t offset, std::size_t length) override {
    mapping_.prefer_huge_pages(offset, length);
  }
  Memory& regions() { return regions_; }

 private:
  /// Huge pages commit memory that may not be touched: a large cluster does without, and the sooner the less
  /// of it is.
  static constexpr std::size_t kHugePagesMaxBytes = std::size_t{1} << 30;

  Cluster& cluster_;
  LazyMapping mapping_;
  RecordMemory records_;
  Memory regions_;
  std::uint32_t key_;
};

class Cluster::Worker final : public WorkerPort {
 public:
  Worker(Cluster& cluster, int node, int thread, Core& core, Port& port)
      : cluster_(cluster),
        node_(node),
        thread_(thread),
        core_(core),
        device_(*cluster.transport_, core, port, cluster.nic_profile_) {}

  const ClusterShape& shape() const override { return cluster_.shape_; }
  int node() const override { return node_; }
  int thread() const override { return thread_; }
  Cpu& cpu() override { return core_; }
  Device& device() override { return device_; }
  NodeMemory& memory() override { return cluster_.memory(node_); }
  QueuePair& connected_queue_pair(int node, int nic, int index) override {
    if (cluster_.threads_per_queue_pair_ > 1) return cluster_.share(*this, node, nic, index);
    SimQueuePair& queue_pair = cluster_.connect(*this, node, nic, index);
    if (send_cq_of_) queue_pair.complete_at(*send_cq_of_(node, nic, index));
    return queue_pair;
  }
  using WorkerPort::use_queue_pairs;
  void use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) override {
    if (cluster_.threads_per_queue_pair_ > 1 && wanted.max_recv_wr > 1) {
      throw UserError("/cluster/threads_per_queue_pair", "queue pairs that threads share do not receive");
    }
    connected_ = connected_queue_pairs(wanted, device_.attributes());
    const auto threads = static_cast<std::uint64_t>(cluster_.threads_per_queue_pair_);
    if (threads > 1 && threads * connected_.max_send_wr > device_.attributes().max_qp_wr) {
      throw UserError(
          "/cluster/threads_per_queue_pair",
          fmt::format("{} threads with up to {} requests each share a queue pair; the device allows one "
                      "of {}",
                      threads, connected_.max_send_wr, device_.attributes().max_qp_wr));
    }
    connected_.timeout = static_cast<std::uint8_t>(shape().ack_timeout);
    send_cq_of_ = std::move(send_cq_of);
  }
  void watch(std::span<const std::byte> memory) override {
    cluster_.nodes_[static_cast<std::size_t>(node_)]->regions().watch(memory, core_);
  }
  void wake(int thread) override {
    cluster_.cores_[cluster_.index_of(node_, thread)]->wake(core_.now_ps(), 0);
  }
  Sockets& sockets() override {
    return cluster_.sockets_ ? cluster_.sockets_->of(node_, thread_) : WorkerPort::sockets();
  }
  void publish_ud(const QpAddress& address) override { ud_ = address; }
  QpAddress ud_address(int node, int thread) override {
    return cluster_.workers_[cluster_.index_of(node, thread)]->ud_;
  }

 private:
  friend class Cluster;

  SimQueuePair*& slot(int node, int nic, int index) {
    return queue_pairs_[cluster_.shape_.queue_pair_number(node, nic, index)];
  }

  SimQueuePair& make_queue_pair() {
    assert(connected_.send_cq != nullptr && "use_queue_pairs() comes first");
    owned_.push_back(device_.create_qp(connected_));
    return static_cast<SimQueuePair&>(*owned_.back());
  }

  Cluster& cluster_;
  int node_, thread_;
  Core& core_;
  SimDevice device_;
  QpInitAttributes connected_;  // what connected queue pairs are made with
  SendCqOf send_cq_of_;         // or at which queue each completes, once its worker asks for it
  QpAddress ud_;
  NumberMap<SimQueuePair*> queue_pairs_;  // by (node, nic, index); made on first use
  std::vector<std::unique_ptr<QueuePair>> owned_;
  // Where threads share them: of the first thread of a group, and of each.
  NumberMap<std::unique_ptr<SharedQueuePair>> shared_;
  NumberMap<std::unique_ptr<QueuePairShare>> shares_;
};

namespace {

std::unique_ptr<Platform> make_platform(const ClusterParameters& p) {
  if (!p.platform_xml.empty()) return Platform::from_xml(p.platform_xml, p.shape.nodes);
  StarParameters star;
  star.nodes = p.shape.nodes;
  star.nics_per_node = p.shape.nics_per_node;
  star.link_gbps = p.link_gbps > 0 ? p.link_gbps : p.nic.link_gbps;
  star.cable_ps = p.cable_ps;
  star.switch_ps = p.switch_ps;
  if (const auto* tree = std::get_if<FatTree>(&p.topology)) return Platform::fat_tree(star, *tree);
  if (const auto* torus = std::get_if<Torus>(&p.topology)) return Platform::torus(star, *torus);
  if (const auto* dragonfly = std::get_if<Dragonfly>(&p.topology))
    return Platform::dragonfly(star, *dragonfly);
  return Platform::star(star);
}

int cores_per_socket(const models::HostProfile& host) {
  return static_cast<int>(host.cores_per_socket);
}

/// Threads fill one socket after the other.
std::vector<CpuPrices> prices_by_socket(const ClusterParameters& p) {
  std::vector<CpuPrices> prices;
  const int each = cores_per_socket(p.host);
  const int busy = p.busy_threads > 0 ? p.busy_threads : p.shape.threads;
  for (int first = 0; first < p.shape.threads; first += each) {
    prices.push_back(prices_of(p.host, std::clamp(busy - first, 1, each)));
  }
  return prices;
}

/// Machines have two sockets, or as many as the workers fill.
int cores_of(const ClusterParameters& p) {
  const int each = cores_per_socket(p.host);
  return std::max(cores_of_host(p.host), each * ((p.shape.threads + each - 1) / each));
}

}  // namespace

int cores_of_host(const models::HostProfile& host) {
  return 2 * cores_per_socket(host);
}

Cluster::Cluster(const ClusterParameters& p)
    : shape_(p.shape),
      nic_profile_(p.nic),
      threads_per_queue_pair_(p.threads_per_queue_pair),
      lock_prices_(p.host),
      socket_prices_(prices_by_socket(p)),
      core_handler_(calendar_.add_handler(*this)),
      record_pool_(std::make_unique<RecordPool>(p.node_memory_b * static_cast<std::size_t>(p.shape.nodes))),
      platform_(make_platform(p)),
      clock_(std::make_unique<Clock>(
          *platform_, calendar_,
          p.message_per_communication ? Clock::Messages::kSimulated : Clock::Messages::kNone)),
      fabric_(std::make_unique<Fabric>(*platform_)),
      transport_(std::make_unique<Transport>(calendar_, *fabric_,
                                             p.message_per_communication ? clock_.get() : nullptr, p.nic,
                                             p.tear, Transport::Loss{p.loss_ratio, p.seed})) {
  for (int node = 0; node < shape_.nodes; ++node) {
    nodes_.push_back(std::make_unique<Node>(*this, p.node_memory_b));
    for (int nic = 0; nic < shape_.nics_per_node; ++nic) {
      ports_.push_back(std::make_unique<Port>(
          Port{models::Nic(p.nic), &nodes_.back()->regions(), platform_->endpoint(node, nic)}));
      ports_.back()->threads = static_cast<std::uint32_t>(shape_.threads);
      if (p.shared_contexts) ports_.back()->doorbells.emplace(p.nic, p.host);
    }
  }
  for (int node = 0; node < shape_.nodes; ++node) {
    for (int thread = 0; thread < shape_.threads; ++thread) {
      const auto index = static_cast<std::uint32_t>(index_of(node, thread));
      const CpuPrices& prices = socket_prices_[static_cast<std::size_t>(thread / cores_per_socket(p.host))];
      cores_.push_back(std::make_unique<Core>(prices, calendar_, core_handler_, index));
      workers_.push_back(std::make_unique<Worker>(*this, node, thread, *cores_.back(),
                                                  nic_port(node, shape_.nic_of_thread(thread))));
    }
  }
  if (p.background_gbps > 0) {
    std::vector<Port*> ports;
    for (const auto& port : ports_) ports.push_back(port.get());
    background_ = std::make_unique<Background>(calendar_, *fabric_, std::move(ports),
                                               static_cast<std::uint32_t>(shape_.nics_per_node), p.nic,
                                               p.background_gbps, p.seed);
  }
  if (!p.sockets) return;
  SocketNetwork::Parameters sockets{*p.sockets, p.host.clock_ghz, cores_of(p), {}};
  for (int node = 0; node < shape_.nodes; ++node) sockets.endpoints.push_back(platform_->endpoint(node, 0));
  sockets_ = std::make_unique<SocketNetwork>(sockets, shape_, calendar_, *fabric_, cores_);
}

Cluster::~Cluster() = default;

void Cluster::stop_background() {
  if (background_) background_->stop();
}

WorkerPort& Cluster::port(int node, int thread) {
  return *workers_[index_of(node, thread)];
}
NodeMemory& Cluster::memory(int node) {
  return *nodes_[static_cast<std::size_t>(node)];
}
void Cluster::drive(int node, int thread, Steppable& worker) {
  cores_[index_of(node, thread)]->drive(worker);
}

/// Both ends are made at once.
SimQueuePair& Cluster::connect(Worker& from, int node, int nic, int index) {
  SimQueuePair*& mine = from.slot(node, nic, index);
  if (mine != nullptr) return *mine;
  const int my_nic = shape_.nic_of_thread(from.thread_);
  Worker& peer = *workers_[index_of(node, shape_.far_thread(from.thread_, nic))];
  mine = &from.make_queue_pair();
  SimQueuePair*& theirs = peer.slot(from.node_, my_nic, index);
  if (&theirs == &mine) {  // loopback on one NIC: a queue pair connected to itself
    mine->connect(mine->address());
    return *mine;
  }
  theirs = &peer.make_queue_pair();
  mine->connect(theirs->address());
  theirs->connect(mine->address());
  return *mine;
}

/// This thread's share of the queue pair that the first thread of its group has.
QueuePair& Cluster::share(Worker& of, int node, int nic, int index) {
  const std::uint32_t number = shape_.queue_pair_number(node, nic, index);
  std::unique_ptr<QueuePairShare>& mine = of.shares_[number];
  if (mine) return *mine;
  Worker& first = *workers_[index_of(of.node_, of.thread_ - of.thread_ % threads_per_queue_pair_)];
  std::unique_ptr<SharedQueuePair>& shared = first.shared_[number];
  if (!shared) {
    shared = std::make_unique<SharedQueuePair>(connect(first, node, nic, index), threads_per_queue_pair_,
                                               lock_prices_);
  }
  CompletionQueue* send_cq = of.send_cq_of_ ? of.send_cq_of_(node, nic, index) : of.connected_.send_cq;
  mine = std::make_unique<QueuePairShare>(*shared, of.core_, static_cast<std::uint32_t>(of.thread_), send_cq);
  return *mine;
}

void Cluster::begin_window() {
  for (const auto& port : ports_) {
    port->nic.begin_window(calendar_.now_ps());
    port->atomics_before_ps = port->atomics_ps;
  }
}

std::int64_t Cluster::round_trip_ps() const {
  constexpr double kSmall_b = 256;
  std::int64_t longest_ps = 0;
  for (std::uint32_t index = 0; index < platform_->links(); ++index) {
    const LinkInfo& link = platform_->link(index);
    if (link.is_loopback) continue;
    const double service_ps = kSmall_b * 1e12 / link.bandwidth_bytes_per_s;
    longest_ps = std::max(longest_ps, 2 * (link.latency_ps + static_cast<std::int64_t>(service_ps)));
  }
  return longest_ps;
}

Usage Cluster::usage() const {
  using models::Nic;
  const std::int64_t now_ps = calendar_.now_ps();
  const auto of_nics = [this](auto busy_ps_of) {
    std::vector<std::int64_t> busy_ps;
    for (const auto& port : ports_) busy_ps.push_back(busy_ps_of(port->nic));
    return busy_ps;
  };
  const auto of_servers = [&](auto server_of) {
    return of_nics([&](const Nic& nic) { return server_of(nic).done_ps(now_ps); });
  };
  Usage usage;
  std::vector<std::int64_t> cores_ps, qp_atomics_ps, links_ps;
  for (const auto& port : ports_) {
    // All of the window's, by as many as there are now: a queue pair has its first one at any time.
    const std::int64_t in_window_ps = port->atomics_ps - port->atomics_before_ps;
    qp_atomics_ps.push_back(in_window_ps / std::max<std::int64_t>(port->queue_pairs_with_atomics, 1));
  }
  for (const auto& core : cores_) {
    cores_ps.push_back(core->busy_ps());
    usage.lock_wait_ps.push_back(core->waited_ps());
  }
  for (std::size_t link = 0; link < fabric_->links(); ++link) {
    const LinkInfo& info = platform_->link(static_cast<std::uint32_t>(link));
    if (info.is_loopback || !info.is_shared) continue;  // nobody waits there
    links_ps.push_back(fabric_->link_done_ps(link, now_ps));
  }
  usage.resources = {
      {"core", std::move(cores_ps)},
      {"nic_send", of_servers([](const Nic& nic) -> auto& { return nic.send_engine(); })},
      {"nic_recv", of_servers([](const Nic& nic) -> auto& { return nic.recv_engine(); })},
      {"pcie_up", of_servers([](const Nic& nic) -> auto& { return nic.pcie().up(); })},
      {"pcie_down", of_servers([](const Nic& nic) -> auto& { return nic.pcie().down(); })},
      {"atomic_unit", of_servers([](const Nic& nic) -> auto& { return nic.atomic_unit().engine(); })},
      {"link", std::move(links_ps)},
      {"atomic_lock", of_nics([&](const Nic& nic) { return nic.atomic_unit().longest_held_ps(now_ps); })},
      {"qp_atomics", std::move(qp_atomics_ps)},
      {"nic_contexts", of_servers([](const Nic& nic) -> auto& { return nic.context_fetches(); })},
      {"dma_reads", of_servers([](const Nic& nic) -> auto& { return nic.pcie().tags(); })}};
  usage.parts = {
      {"qp_cache", "nic_contexts", of_nics([](const Nic& nic) { return nic.send_misses().contexts_ps; })},
      {"qp_cache", "nic_recv", of_nics([](const Nic& nic) { return nic.recv_misses().contexts_ps; })},
      {"wqe_cache", "nic_send", of_nics([](const Nic& nic) { return nic.send_misses().wqes_ps; })},
      {"wqe_cache", "nic_recv", of_nics([](const Nic& nic) { return nic.recv_misses().wqes_ps; })},
      {"wqe_cache", "pcie_down", of_nics([](const Nic& nic) { return nic.wqes_fetched_again_ps(); })},
      {"rq_cache", "nic_recv", of_nics([](const Nic& nic) { return nic.recv_misses().recv_queues_ps; })},
      {"mtt_cache", "nic_recv", of_nics([](const Nic& nic) { return nic.recv_misses().translations_ps; })},
      {"mmio", "pcie_down", of_nics([](const Nic& nic) { return nic.pcie().stores_ps(); })}};
  for (const auto& port : ports_) {
    usage.qp_cache.push_back({port->nic.contexts().hits(), port->nic.contexts().misses()});
  }
  if (ports_.front()->doorbells) {
    Usage::Resource& doorbells = usage.resources.emplace_back(Usage::Resource{"doorbell", {}});
    for (const auto& port : ports_) {
      for (std::size_t shared = 0; shared < port->doorbells->shared(); ++shared) {
        doorbells.busy_ps.push_back(port->doorbells->held_ps(shared, now_ps));
      }
    }
  }
  if (sockets_) {
    usage.resources.push_back({"socket_interrupts", sockets_->interrupts_busy_ps()});
    std::vector<std::int64_t> socket_links_ps = sockets_->links_done_ps(now_ps);
    if (!socket_links_ps.empty()) usage.resources.push_back({"socket_link", std::move(socket_links_ps)});
  }
  usage.verbs = transport_->counts();
  return usage;
}

}  // namespace verbtwin::sim
