#include "sim/device.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "backend/user_error.hpp"
#include "sim/flight.hpp"
#include "sim/shared_queue_pair.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

// ---- completion queue

SimCompletionQueue::SimCompletionQueue(Core& core, Transport& transport, std::uint32_t cqe)
    : core_(core), transport_(transport), depth_(cqe) {}

SimCompletionQueue::~SimCompletionQueue() {
  core_.remove_filled(*this);
}

void SimCompletionQueue::push(const WorkCompletion& wc, std::int64_t visible_ps, std::uint32_t sender,
                              std::uint32_t retires) {
  if (count_ == depth_) {  // as the hardware: the queue is lost, and with it who completes here
    if (SimQueuePair* qp = transport_.find(wc.qp_num)) qp->state_ = QpState::kError;
    return;
  }
  if (count_ > mask_) grow();
  if (count_ == 0) core_.add_filled(*this);
  std::uint32_t place = count_++;
  for (; place > 0 && ring_[(head_ + place - 1) & mask_].visible_ps > visible_ps; --place) {
    ring_[(head_ + place) & mask_] = ring_[(head_ + place - 1) & mask_];
  }
  ring_[(head_ + place) & mask_] = {wc, sender, retires, visible_ps};
  if (place == 0) core_.wake(visible_ps, wc.wr_id);
}

void SimCompletionQueue::grow() {
  constexpr std::uint32_t kFirstEntries = 16;
  const std::uint32_t entries = std::max(kFirstEntries, 2 * (mask_ + 1));
  auto larger = std::make_unique<Entry[]>(entries);
  for (std::uint32_t i = 0; i < count_; ++i) larger[i] = ring_[(head_ + i) & mask_];
  grown_ = std::move(larger);
  ring_ = grown_.get();
  mask_ = entries - 1;
  head_ = 0;
}

void SimCompletionQueue::make_room_for_sender() {
  const std::size_t others = senders_ - first_retired_.size();
  if ((others & (others - 1)) != 0) return;
  auto larger = std::make_unique<std::uint32_t[]>(std::max<std::size_t>(1, 2 * others));
  std::copy_n(retired_.get(), others, larger.get());
  retired_ = std::move(larger);
}

std::size_t SimCompletionQueue::poll(std::span<WorkCompletion> wc) {
  // What the step has charged so far has not happened yet for anybody else: a poll late in it sees what was
  // there at its start.
  const std::int64_t now_ps = core_.step_start_ps();
  std::size_t taken = 0;
  while (taken < wc.size() && count_ > 0 && ring_[head_].visible_ps <= now_ps) {
    const Entry& entry = ring_[head_];
    wc[taken++] = entry.wc;
    std::uint32_t& up_to = retired(entry.sender);
    // One from before a reset retires nothing, nor does a RECV.
    if (entry.sender != kNoSender && static_cast<std::int32_t>(entry.retires - up_to) > 0)
      up_to = entry.retires;
    head_ = (head_ + 1) & mask_;
    --count_;
  }
  if (taken > 0 && count_ == 0) {
    head_ = 0;  // the line that is in cache
    core_.remove_filled(*this);
  }
  core_.charge(Cost::kPoll);
  core_.charge(Cost::kPollCqe, taken);
  return taken;
}

// ---- queue pair

SimQueuePair::SimQueuePair(Transport& transport, Core& core, Port& port, const QpInitAttributes& attributes)
    : port_(port),
      context_(port.nic.add_context(
          models::send_queue_slot_bytes(attributes.type == QpType::kUd, attributes.max_inline_data))),
      type_(attributes.type),
      send_cq_(static_cast<SimCompletionQueue*>(attributes.send_cq)),
      number_(transport.add(*this)),
      sender_(send_cq_->add_sender()),
      doorbell_(port.doorbells ? port.doorbells->assign() : models::DoorbellRegisters::kOwn),
      max_rd_atomic_(attributes.max_rd_atomic),
      transport_(transport),
      core_(&core),
      max_send_wr_(attributes.max_send_wr),
      max_inline_b_(static_cast<std::uint16_t>(attributes.max_inline_data)),
      recv_cq_(static_cast<SimCompletionQueue*>(attributes.recv_cq)),
      max_recv_wr_(attributes.max_recv_wr),
      rnr_retry_(attributes.rnr_retry),
      timeout_(attributes.timeout),
      retry_cnt_(attributes.retry_cnt) {
  static_assert(sizeof(SimQueuePair) == 4 * 64);
  [[maybe_unused]] const auto offset = [this](const auto& member) {
    return reinterpret_cast<const std::byte*>(&member) - reinterpret_cast<const std::byte*>(this);
  };
  assert(offset(send_cq_) == 64 && offset(core_) == 128 + sizeof(&transport_) && offset(recv_cq_) == 192 &&
         "lines begin where they say");
}

SimQueuePair::~SimQueuePair() {
  transport_.abandon_waiting(*this);
  transport_.abandon_held(*this);
  transport_.abandon_held_back(*this);
  transport_.abandon_unanswered(*this);
  transport_.abandon_unheard(*this);
  transport_.remove(*this);
}

void SimQueuePair::complete_at(CompletionQueue& queue) {
  auto& own = static_cast<SimCompletionQueue&>(queue);
  if (&own == send_cq_) return;
  assert(posted_ == 0);
  send_cq_ = &own;
  sender_ = own.add_sender();
}

QpAddress SimQueuePair::address() const {
  QpAddress address;
  address.lid = static_cast<std::uint16_t>(port_.endpoint + 1);
  address.qp_num = number_;
  address.qkey = number_;
  return address;
}

void SimQueuePair::connect(const QpAddress& peer) {
  state_ = QpState::kRts;
  if (type() == QpType::kUd) return;
  peer_number_ = peer.qp_num;
  to_peer_ = transport_.fabric().path(port_.endpoint, peer.lid - 1);
  const SimQueuePair* other = transport_.find(peer.qp_num);
  peer_port_ = other == nullptr ? nullptr : &other->port_;
  peer_context_ = other == nullptr ? 0 : other->context_;
}

void SimQueuePair::reset() {
  state_ = QpState::kReset;
  ++epoch_;
  transport_.count_reset();
  transport_.abandon_held(*this);
  transport_.abandon_held_back(*this);
  transport_.abandon_unanswered(*this);
  transport_.abandon_unheard(*this);
  requests_waiting_ = requests_crossing_ = answers_crossing_ = 0;
  stalled_ = deaf_ = false;
  if (rare_) {
    rare_->last_flush_ps = 0;
    rare_->awaited.clear();
  }
  transport_.abandon_waiting(*this);
  receives_ = {};
  read_done_ps_.reset();
  if (shared_ != nullptr) {
    shared_->reset();
  } else {
    retired() = posted_;
  }
}

std::uint32_t SimQueuePair::room() {
  return shared_ != nullptr ? shared_->room() : max_send_wr_ - (posted_ - retired());
}

PostResult SimQueuePair::post_send(std::span<const SendWr> list) {
  PostResult result;
  const std::uint32_t room = this->room();
  if (state_ == QpState::kError) {
    for (const SendWr& wr : list) {
      if (result.posted == room) return {result.posted, PostError::kQueueFull};
      transport_.flush(*this, wr, posted_++);
      ++result.posted;
    }
    return result;
  }
  if (state_ != QpState::kRts) return {0, PostError::kInvalid};

  std::uint32_t blocks = 0;
  for (const SendWr& wr : list) {
    if (result.posted == room) {
      result.error = PostError::kQueueFull;
      break;
    }
    if (!type_allows(type_, wr, max_inline_b_, transport_.mtu_b())) {
      result.error = PostError::kInvalid;
      break;
    }
    core_->charge(Cost::kPostWr);
    if ((wr.flags & kInline) != 0) core_->charge(Cost::kInlineBlock, models::blocks_of(wr.sge.length));
    blocks += Transport::wqe_blocks(wr, type());
    ++result.posted;
  }
  if (result.posted == 0) return result;
  ring(result.posted, blocks, is_by_pointer(list.front()));
  transport_.post(*this, list.first(result.posted), posted_, blocks, core_->now_ps());
  posted_ += static_cast<std::uint32_t>(result.posted);
  return result;
}

/// Tells the NIC of `requests` new WQEs, under the doorbell register's lock where it has one.
void SimQueuePair::ring(std::size_t requests, std::uint32_t blocks, bool points) {
  // BlueFlame needs the doorbell record and the barriers as well: its blocks take the place of the 8 B store.
  // Both come before the lock, which covers the copy (rdma-core providers/mlx5/qp.c, post_send_db), and what
  // the host's locked_flush_ns says.
  core_->wait_for_stores();
  core_->charge(Cost::kDoorbell);
  const std::int64_t before_ps = core_->now_ps();
  const bool blueflame = port_.nic.takes_blueflame(requests, blocks, points);
  if (blueflame) core_->charge(Cost::kBlueFlame, blocks);
  if (doorbell_ == models::DoorbellRegisters::kOwn || !port_.doorbells->takes_lock(blueflame)) return;
  const auto hold = port_.doorbells->ring(doorbell_, core_->index() % port_.threads, before_ps,
                                          core_->now_ps() - before_ps);
  core_->charge_ps(hold.lock_ps);
  core_->wait_ps(hold.wait_ps);
}

void SimQueuePair::ReceiveRing::push(const RecvWr& wr) {
  ++count_;
  if (first_ < runs_.size()) {
    Run& last = runs_.back();
    const std::uint64_t id_step = wr.wr_id - last.next.wr_id;
    const std::ptrdiff_t address_step = wr.sge.addr - last.next.sge.addr;
    const bool same_kind = wr.sge.length == last.next.sge.length && wr.sge.lkey == last.next.sge.lkey;
    if (last.count == 1 && same_kind) {
      last.id_step = id_step;
      last.address_step = address_step;
      last.count = 2;
      return;
    }
    if (same_kind && id_step == last.count * last.id_step &&
        address_step == static_cast<std::ptrdiff_t>(last.count) * last.address_step) {
      ++last.count;
      return;
    }
  } else {
    runs_.clear();
    first_ = 0;
  }
  if (first_ > runs_.size() / 2) {
    runs_.erase(runs_.begin(), runs_.begin() + first_);
    first_ = 0;
  }
  runs_.push_back({wr, 1, 0, 0});
}

RecvWr SimQueuePair::ReceiveRing::pop() {
  Run& run = runs_[first_];
  const RecvWr wr = run.next;
  run.next.wr_id += run.id_step;
  run.next.sge.addr += run.address_step;
  --count_;
  if (--run.count == 0) ++first_;
  return wr;
}

PostResult SimQueuePair::post_recv(std::span<const RecvWr> list) {
  PostResult result;
  for (const RecvWr& wr : list) {
    if (state_ == QpState::kError) {
      transport_.flush_recv(*this, wr, {core_->now_ps(), 0});
      ++result.posted;
      continue;
    }
    if (receives_.size() >= max_recv_wr_) {
      result.error = PostError::kQueueFull;
      break;
    }
    receives_.push(wr);
    ++result.posted;
  }
  core_->charge(Cost::kPostRecv, result.posted);
  return result;
}

// ---- device

namespace {

class SimMemoryRegion final : public MemoryRegion {
 public:
  SimMemoryRegion(Memory& memory, std::span<std::byte> bytes, unsigned access)
      : memory_(memory), key_(memory.add(bytes, access)) {}
  ~SimMemoryRegion() override { memory_.remove(key_); }
  std::uint32_t lkey() const override { return key_; }
  std::uint32_t rkey() const override { return key_; }

 private:
  Memory& memory_;
  std::uint32_t key_;
};

}  // namespace

DeviceAttributes device_attributes(const models::NicProfile& profile) {
  DeviceAttributes attributes;
  attributes.max_inline_data = static_cast<std::uint32_t>(profile.max_inline_b);
  attributes.max_qp_wr = static_cast<std::uint32_t>(profile.max_send_wr);
  attributes.max_cqe = 1U << 22;
  attributes.max_qp_rd_atom = static_cast<std::uint8_t>(
      std::min(profile.max_rd_atomic, static_cast<double>(SimQueuePair::kReadsMax)));
  attributes.mtu = static_cast<std::uint32_t>(profile.mtu_b);
  return attributes;
}

SimDevice::SimDevice(Transport& transport, Core& core, Port& port, const models::NicProfile& profile)
    : transport_(transport), core_(core), port_(port), attributes_(device_attributes(profile)) {}

std::unique_ptr<CompletionQueue> SimDevice::create_cq(std::uint32_t cqe) {
  check_completion_queue(attributes_, cqe);
  return std::make_unique<SimCompletionQueue>(core_, transport_, cqe);
}

std::unique_ptr<QueuePair> SimDevice::create_qp(const QpInitAttributes& attributes) {
  check_queue_pair(attributes_, attributes);
  return std::make_unique<SimQueuePair>(transport_, core_, port_, attributes);
}

std::unique_ptr<AddressHandle> SimDevice::create_ah(const QpAddress& peer) {
  auto handle = std::make_unique<SimAddressHandle>();
  handle->path = transport_.fabric().path(port_.endpoint, peer.lid - 1);
  return handle;
}

std::unique_ptr<MemoryRegion> SimDevice::register_memory(std::span<std::byte> memory, unsigned access) {
  return std::make_unique<SimMemoryRegion>(*port_.memory, memory, access);
}

}  // namespace verbtwin::sim
