#include "backend/ibverbs/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>
#include <utility>

#include "backend/ibverbs/bytes.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

/// What one worker tells a peer node of itself; the addresses of its RC queue pairs towards it follow.
struct Card {
  std::uint64_t memory_addr = 0;
  std::uint32_t memory_rkey = 0;
  QpAddress ud;
  Fabric fabric;
};

/// What all workers of a node tell another node. Their queue pairs towards it are numbered by thread and its
/// NICs as ClusterShape::queue_pair_number does by node and NIC.
struct NodeCards {
  std::vector<Card> cards;
  std::vector<QpAddress> addresses;
};

NodeCards read_cards(const ClusterShape& shape, std::string_view text) {
  ByteReader reader(text);
  NodeCards node;
  for (int thread = 0; thread < shape.threads; ++thread) {
    node.cards.push_back(reader.get<Card>());
    for (int i = 0; i < shape.nics_per_node * shape.qps_per_peer; ++i) {
      node.addresses.push_back(reader.get<QpAddress>());
    }
  }
  return node;
}

/// Before anything is made of them: so many take long, and the last one would be the first to fail.
void check_queue_pairs(const ClusterShape& s, std::size_t devices, const Context& context) {
  const std::int64_t on_node = std::int64_t{s.threads} * s.nodes * s.nics_per_node * s.qps_per_peer;
  const std::int64_t needed = on_node / static_cast<std::int64_t>(devices);
  const int most = context.device_attributes().max_qp;
  if (needed <= most) return;
  throw UserError(
      "", fmt::format("{} queue pairs are needed on {}, which has {} at most: use fewer nodes, threads "
                      "or cluster.qps_per_peer",
                      needed, context.description().device, most));
}

}  // namespace

/// A worker's device and what the other nodes' workers are to it. Its NodeMemory is the node's memory as this
/// worker's device has registered it.
class Cluster::Worker final : public NodePort, public NodeMemory {
 public:
  Worker(const Cluster& cluster, int thread, const PortChoice& choice)
      : cluster_(cluster),
        thread_(thread),
        device_(choice),
        region_(device_.register_memory(cluster.area_.mapping(), device_.context().access_all())) {
    device_.set_node_memory_key(region_->lkey());
    const auto nodes = static_cast<std::size_t>(shape().nodes);
    gid_of_.resize(nodes);
    ud_of_.resize(nodes * static_cast<std::size_t>(shape().threads));
    remote_.resize(nodes * static_cast<std::size_t>(shape().nics_per_node));
  }

  // WorkerPort
  const ClusterShape& shape() const override { return cluster_.shape_; }
  int node() const override { return cluster_.node_; }
  int thread() const override { return thread_; }
  RealCpu& cpu() override { return cpu_; }
  IbvDevice& device() override { return device_; }
  NodeMemory& memory() override { return *this; }
  QueuePair& connected_queue_pair(int node, int nic, int index) override {
    return *queue_pairs_[at(node, nic, index)];
  }
  using WorkerPort::use_queue_pairs;
  void use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) override {
    if (wanted.type != QpType::kRc) {
      throw UserError("/workload/transport", "the libibverbs binding connects RC queue pairs only");
    }
    connected_ = connected_queue_pairs(wanted, device_.attributes());
    connected_.timeout = static_cast<std::uint8_t>(shape().ack_timeout);
    const auto count = static_cast<std::uint64_t>(shape().nodes) *
                       static_cast<std::uint64_t>(shape().nics_per_node * shape().qps_per_peer);
    const std::uint64_t sends = count * (connected_.max_send_wr + IbvQueuePair::kExtraSlots);
    const std::uint64_t recvs = count * connected_.max_recv_wr;
    send_cq_of_ = std::move(send_cq_of);
    auto& send_cq = static_cast<IbvCompletionQueue&>(*connected_.send_cq);
    auto& recv_cq = static_cast<IbvCompletionQueue&>(*connected_.recv_cq);
    const bool one = &send_cq == &recv_cq;
    if (send_cq_of_) {
      recv_cq.reserve_more(recvs);
      return;
    }
    send_cq.reserve_more(one ? sends + recvs : sends);
    if (!one) recv_cq.reserve_more(recvs);
  }
  Sockets& sockets() override {
    return cluster_.sockets_ ? cluster_.sockets_->of(thread_) : WorkerPort::sockets();
  }
  void publish_ud(const QpAddress& address) override { ud_ = address; }
  QpAddress ud_address(int node, int thread) override {
    return ud_of_[static_cast<std::size_t>(node * shape().threads + thread)];
  }

  // NodePort
  void post_fences() override {
    for (const auto& queue_pair : queue_pairs_) queue_pair->post_fence();
  }
  bool fenced() const override {
    for (IbvCompletionQueue* own : own_send_cqs_) own->take_in();  // its worker may ask it no more
    return std::ranges::all_of(queue_pairs_, [](const auto& queue_pair) { return queue_pair->idle(); });
  }
  std::size_t awaited(int node) const override {
    std::size_t count = 0;
    for (const auto& queue_pair : queue_pairs_) {
      if (queue_pair->peer_node() == node) count += queue_pair->awaited();
    }
    return count;
  }
  std::uint64_t socket_bytes() const override {
    return cluster_.sockets_ ? cluster_.sockets_->of(thread_).bytes_moved() : 0;
  }
  const VerbCounts& counts() const override { return device_.counts(); }
  const Failure& first_failure() const override { return device_.first_failure(); }
  std::string near_cpus() const override { return device_.context().near_cpus(); }

  // NodeMemory
  std::span<std::byte> local() override { return cluster_.area_.bytes(); }
  std::uint32_t lkey() const override { return kNodeMemoryKey; }
  RemoteMemory remote(int node, int nic) const override {
    return remote_[static_cast<std::size_t>(node * shape().nics_per_node + nic)];
  }

  /// None where the worker speaks by datagrams only.
  void make_queue_pairs() {
    if (connected_.send_cq == nullptr) return;
    for (int node = 0; node < shape().nodes; ++node) {
      for (int i = 0; i < shape().nics_per_node * shape().qps_per_peer; ++i) {
        QpInitAttributes attributes = connected_;
        if (send_cq_of_)
          attributes.send_cq = own_send_cq(node, i / shape().qps_per_peer, i % shape().qps_per_peer);
        auto made = device_.create_qp(attributes);
        queue_pairs_.emplace_back(static_cast<IbvQueuePair*>(made.release()));
        queue_pairs_.back()->set_peer_node(node);
      }
    }
  }

  void write_card(int node, ByteWriter& writer) const {
    const auto memory_addr = reinterpret_cast<std::uint64_t>(cluster_.area_.bytes().data());
    writer.put(Card{memory_addr, region_->rkey(), ud_, context().fabric()});
    for (int nic = 0; nic < shape().nics_per_node; ++nic) {
      for (int index = 0; index < shape().qps_per_peer; ++index) {
        writer.put(queue_pairs_.empty() ? QpAddress{} : queue_pairs_[at(node, nic, index)]->address());
      }
    }
  }

  /// That this worker reaches all workers of `node`. Throws UserError where it does not.
  void check_reach(int node, const NodeCards& theirs) const {
    if (queue_pairs_.empty() && ud_.qp_num == 0) return;         // it speaks by TCP alone
    if (queue_pairs_.empty() && node == cluster_.node_) return;  // to itself it sends no datagrams
    for (const Card& card : theirs.cards) {
      const std::string why = why_apart(cluster_.node_, context().fabric(), node, card.fabric);
      if (!why.empty()) throw UserError("", why);
    }
  }

  /// The far end of a queue pair is ClusterShape::far_thread().
  void connect(int node, const NodeCards& theirs) {
    const ClusterShape& s = shape();
    for (int thread = 0; thread < s.threads; ++thread) {
      const QpAddress& ud = theirs.cards[static_cast<std::size_t>(thread)].ud;
      if (ud.mtu_b != 0 && ud.mtu_b != context().mtu_b()) {
        throw UserError("",
                        fmt::format("datagrams need the same MTU everywhere: node {} has {} B, node {} {}; "
                                    "give their network interfaces the same",
                                    node, ud.mtu_b, cluster_.node_, context().mtu_b()));
      }
      ud_of_[static_cast<std::size_t>(node * s.threads + thread)] = ud;
    }
    const QpAddress& ud = ud_of_[static_cast<std::size_t>(node * s.threads + thread_)];
    if (ud_.qp_num != 0 && ud.qp_num != 0) device_.introduce(node, ud);
    const int my_nic = s.nic_of_thread(thread_);
    for (int nic = 0; nic < s.nics_per_node; ++nic) {
      const int peer = s.far_thread(thread_, nic);
      const Card& card = theirs.cards[static_cast<std::size_t>(peer)];
      remote_[static_cast<std::size_t>(node * s.nics_per_node + nic)] = {card.memory_addr, card.memory_rkey};
      for (int index = 0; !queue_pairs_.empty() && index < s.qps_per_peer; ++index) {
        // A card has them of all its node's threads.
        const std::uint32_t far = s.queue_pair_number(peer, my_nic, index);
        queue_pairs_[at(node, nic, index)]->connect(theirs.addresses[far]);
        gid_of_[static_cast<std::size_t>(node)] = theirs.addresses[far].gid;
      }
    }
  }

  /// After post_fences(), while no worker runs: whether all are back. Throws where one does not arrive.
  bool reaches_all() {
    if (queue_pairs_.empty()) return true;
    static_cast<IbvCompletionQueue*>(connected_.send_cq)->take_in();
    const bool all = fenced();
    const Failure& failure = first_failure();
    if (!failure.what.empty()) throw_unreached(failure.peer, failure.what);
    return all;
  }
  /// When they have been waited for.
  void check_reached() const {
    for (int node = 0; node < shape().nodes; ++node) {
      if (awaited(node) > 0) throw_unreached(node, "an empty WRITE was not acknowledged in time");
    }
  }

  const Context& context() const { return device_.context(); }
  Context& context() { return device_.context(); }
  void disconnect() { queue_pairs_.clear(); }

 private:
  CompletionQueue* own_send_cq(int node, int nic, int index) {
    auto* own = static_cast<IbvCompletionQueue*>(send_cq_of_(node, nic, index));
    own->reserve_more(IbvQueuePair::kExtraSlots);
    own_send_cqs_.push_back(own);
    return own;
  }

  [[noreturn]] void throw_unreached(int node, const std::string& why) const {
    const PortDescription d = context().description();
    const bool known = node >= 0 && shape().nics_per_node == 1;
    const std::string to = known ? " to GID " + gid_text(gid_of_[static_cast<std::size_t>(node)]) : "";
    throw std::runtime_error(fmt::format("rank {} is not reached from {} port {} (GID {}, index {}){}: {}",
                                         node, d.device, d.port, d.gid, d.gid_index, to, why));
  }

  std::size_t at(int node, int nic, int index) const { return shape().queue_pair_number(node, nic, index); }

  const Cluster& cluster_;
  int thread_;
  RealCpu cpu_;
  IbvDevice device_;
  std::unique_ptr<MemoryRegion> region_;
  QpInitAttributes connected_;
  SendCqOf send_cq_of_;
  std::vector<IbvCompletionQueue*> own_send_cqs_;  // what that gave
  QpAddress ud_;
  std::vector<QpAddress> ud_of_;                      // by node, thread
  std::vector<std::array<std::uint8_t, 16>> gid_of_;  // by node, of its last NIC
  std::vector<RemoteMemory> remote_;                  // by node, NIC
  std::vector<std::unique_ptr<IbvQueuePair>> queue_pairs_;
};

Cluster::Cluster(const ClusterParameters& p) : shape_(p.shape), node_(p.node), area_(p.node_memory_b) {
  const auto nics = static_cast<std::size_t>(shape_.nics_per_node);
  if (p.nics.size() != 1 && p.nics.size() != nics) {
    throw UserError("",
                    fmt::format("--device: {} devices for {} NICs per node (cluster.nics_per_node); allowed: "
                                "one for each, or one for all",
                                p.nics.size(), nics));
  }
  for (int thread = 0; thread < shape_.threads; ++thread) {
    const auto nic = static_cast<std::size_t>(shape_.nic_of_thread(thread));
    workers_.push_back(std::make_unique<Worker>(*this, thread, p.nics[p.nics.size() == 1 ? 0 : nic]));
    if (thread == 0) check_queue_pairs(shape_, p.nics.size(), workers_.front()->context());
  }
  if (!p.sockets_host.empty()) sockets_ = std::make_unique<NodeSockets>(shape_, node_, p.sockets_host);
}

Cluster::~Cluster() = default;

NodePort& Cluster::port(int thread) {
  return *workers_[static_cast<std::size_t>(thread)];
}
NodeMemory& Cluster::memory() {
  return *workers_.front();
}

void Cluster::agree_on_ports(Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  // Registering memory takes some ranks much longer: nobody writes before all read.
  rendezvous.share("registering memory", "", timeout);
  ByteWriter mine;
  for (const auto& worker : workers_) {
    mine.put_all(std::span(worker->context().pkeys()));
    mine.put_all(std::span(worker->context().subnets()));
  }
  std::vector<std::vector<PKeyTable>> pkeys;
  std::vector<std::vector<std::vector<Subnet>>> subnets;
  for (const std::string& theirs : rendezvous.share("comparing ports", mine.take(), timeout)) {
    ByteReader reader(theirs);
    pkeys.emplace_back();
    subnets.emplace_back();
    for (int thread = 0; thread < shape_.threads; ++thread) {
      pkeys.back().push_back(reader.get_all<std::uint16_t>());
      subnets.back().push_back(reader.get_all<Subnet>());
    }
  }
  const std::uint16_t partition = common_partition(pkeys);
  const Subnet subnet = common_subnet(subnets);
  for (const auto& worker : workers_) {
    if (partition != 0) worker->context().use_partition(partition);
    if (subnet != 0) worker->context().use_subnet(subnet);
  }
}

void Cluster::connect(Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  for (const auto& worker : workers_) worker->make_queue_pairs();
  std::vector<std::string> mine;
  for (int node = 0; node < shape_.nodes; ++node) {
    ByteWriter writer;
    for (const auto& worker : workers_) worker->write_card(node, writer);
    mine.push_back(writer.take());
  }
  // Making many takes long: nobody writes before all read, or TCP gives up those that do not yet.
  rendezvous.share("making queue pairs", "", timeout);
  std::vector<NodeCards> nodes;
  for (const std::string& text : rendezvous.exchange("exchanging addresses", std::move(mine), timeout)) {
    nodes.push_back(read_cards(shape_, text));
  }
  for (int node = 0; node < shape_.nodes; ++node) {
    for (const auto& worker : workers_) worker->check_reach(node, nodes[static_cast<std::size_t>(node)]);
  }
  for (int node = 0; node < shape_.nodes; ++node) {
    for (const auto& worker : workers_) worker->connect(node, nodes[static_cast<std::size_t>(node)]);
  }
  if (sockets_) connect_sockets(rendezvous, timeout);
  // Nobody sends before everybody can receive.
  rendezvous.share("connecting", "", timeout);
  try_queue_pairs(rendezvous, timeout);
}

/// An empty WRITE on each, all at once: what does not arrive on this fabric would be known when the first
/// request fails, or, of queue pairs that nobody uses, at the end of the run.
void Cluster::try_queue_pairs(Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  constexpr const char* kPhase = "trying queue pairs";
  constexpr std::chrono::milliseconds kLook{1};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const auto& worker : workers_) worker->post_fences();
  while (!std::ranges::all_of(workers_, [](const auto& worker) { return worker->reaches_all(); })) {
    rendezvous.check_meeting(kPhase);
    if (std::chrono::steady_clock::now() >= deadline) {
      for (const auto& worker : workers_) worker->check_reached();
    }
    std::this_thread::sleep_for(kLook);
  }
  rendezvous.share(kPhase, "", timeout);
}

void Cluster::connect_sockets(Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  ByteWriter mine;
  mine.put(sockets_->address().port);
  mine.put_text(sockets_->address().host);
  std::vector<SocketAddress> addresses;
  for (const std::string& theirs : rendezvous.share("exchanging TCP addresses", mine.take(), timeout)) {
    ByteReader reader(theirs);
    SocketAddress& address = addresses.emplace_back();
    address.port = reader.get<std::uint16_t>();
    address.host = reader.get_text();
  }
  sockets_->connect(addresses, rendezvous.options().token, timeout,
                    [&] { rendezvous.check_meeting("connecting by TCP"); });
}

void Cluster::disconnect() {
  for (const auto& worker : workers_) worker->disconnect();
}

void Cluster::start_clock() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& worker : workers_) worker->cpu().start_clock(now);
}

std::string Cluster::failed_event() {
  for (const auto& worker : workers_) {
    if (std::string event = worker->context().failed_event(); !event.empty()) return event;
  }
  return "";
}

std::vector<PortDescription> Cluster::descriptions() const {
  std::vector<PortDescription> all;
  for (int nic = 0; nic < shape_.nics_per_node; ++nic) {
    const auto thread = static_cast<std::size_t>(nic * shape_.threads_per_nic());
    all.push_back(workers_[thread]->context().description());
    all.back().inline_b = workers_[thread]->device().attributes().max_inline_data;
  }
  return all;
}

}  // namespace verbtwin::ibverbs
