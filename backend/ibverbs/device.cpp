#include "backend/ibverbs/device.hpp"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "backend/ibverbs/queue_pair.hpp"
#include "backend/ibverbs/reason.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

/// Four WQE blocks of a UD SEND: more would take room from every queue for a copy that DMA does better.
constexpr std::uint32_t kInlineMax = 188;

WcOpcode opcode_of(ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_RDMA_WRITE:
      return WcOpcode::kRdmaWrite;
    case IBV_WC_RDMA_READ:
      return WcOpcode::kRdmaRead;
    case IBV_WC_COMP_SWAP:
      return WcOpcode::kCompSwap;
    case IBV_WC_FETCH_ADD:
      return WcOpcode::kFetchAdd;
    case IBV_WC_RECV:
      return WcOpcode::kRecv;
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return WcOpcode::kRecvRdmaWithImm;
    default:
      return WcOpcode::kSend;
  }
}

/// libibverbs does not tell the limit: it is tried out. Drivers refuse what is too much, or give less.
std::uint32_t probe_inline(const Context& context, ibv_qp_type type) {
  const std::unique_ptr<ibv_cq, Freer<ibv_destroy_cq>> cq(
      ibv_create_cq(context.context(), 1, nullptr, nullptr, 0));
  if (!cq) return 0;
  for (std::uint32_t bytes : {kInlineMax, 128U, 96U, 60U, 28U}) {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = type;
    attributes.send_cq = attributes.recv_cq = cq.get();
    attributes.cap = {1, 1, 1, 1, bytes};
    if (ibv_qp* qp = ibv_create_qp(context.pd(), &attributes)) {
      ibv_destroy_qp(qp);
      return std::min(bytes, attributes.cap.max_inline_data);
    }
  }
  return 0;
}

/// "transport retry counter exceeded (vendor error 0x81)": the NIC's own number, by which its vendor tells
/// more.
std::string failure_of(const ibv_wc& wc) {
  const auto status = std::string(to_string(static_cast<WcStatus>(wc.status)));
  return wc.vendor_err == 0 ? status : fmt::format("{} (vendor error {:#x})", status, wc.vendor_err);
}

class IbvMemoryRegion final : public MemoryRegion {
 public:
  explicit IbvMemoryRegion(ibv_mr* mr) : mr_(mr) {}
  std::uint32_t lkey() const override { return mr_->lkey; }
  std::uint32_t rkey() const override { return mr_->rkey; }

 private:
  std::unique_ptr<ibv_mr, Freer<ibv_dereg_mr>> mr_;
};

}  // namespace

ibv_ah_attr path_to(const Context& context, std::uint32_t qp_num, const QpAddress& peer) {
  ibv_ah_attr path{};
  path.dlid = peer.lid;
  path.sl = context.sl();
  path.port_num = context.port();
  path.is_global = context.routes_by_gid() || peer.needs_grh ? 1 : 0;
  std::copy(peer.gid.begin(), peer.gid.end(), path.grh.dgid.raw);
  path.grh.sgid_index = context.gid_index();
  path.grh.hop_limit = 64;
  path.grh.traffic_class = context.traffic_class();
  if (context.is_roce()) path.grh.flow_label = flow_label(qp_num, peer.qp_num);
  return path;
}

IbvDevice::IbvDevice(const PortChoice& choice) : context_(choice) {
  const ibv_device_attr& device = context_.device_attributes();
  attributes_.max_inline_data =
      std::min(probe_inline(context_, IBV_QPT_RC), probe_inline(context_, IBV_QPT_UD));
  attributes_.max_qp_wr = static_cast<std::uint32_t>(device.max_qp_wr) - IbvQueuePair::kExtraSlots;
  attributes_.max_cqe = static_cast<std::uint32_t>(device.max_cqe);
  attributes_.max_qp_rd_atom =
      static_cast<std::uint8_t>(std::min({device.max_qp_rd_atom, device.max_qp_init_rd_atom, 255}));
  attributes_.mtu = context_.mtu_b();
}

std::unique_ptr<CompletionQueue> IbvDevice::create_cq(std::uint32_t cqe) {
  check_completion_queue(attributes_, cqe);
  return std::make_unique<IbvCompletionQueue>(*this, cqe);
}

std::unique_ptr<QueuePair> IbvDevice::create_qp(const QpInitAttributes& wanted) {
  check_queue_pair(attributes_, wanted);
  auto made = std::make_unique<IbvQueuePair>(*this, wanted);
  if (wanted.type == QpType::kUd) ud_qp_num_ = made->address().qp_num;
  return made;
}

std::unique_ptr<AddressHandle> IbvDevice::create_ah(const QpAddress& peer) {
  const auto known = introduced_.find(key_of_peer(peer));
  return std::make_unique<IbvAddressHandle>(known == introduced_.end() ? make_ah(-1, peer) : known->second);
}

void IbvDevice::introduce(int node, const QpAddress& peer) {
  introduced_[key_of_peer(peer)] = make_ah(node, peer);
}

std::shared_ptr<ibv_ah> IbvDevice::make_ah(int node, const QpAddress& peer) {
  ibv_ah_attr path = path_to(context_, ud_qp_num_, peer);
  ibv_ah* ah = ibv_create_ah(context_.pd(), &path);
  if (ah == nullptr) {
    throw UserError(
        "", fmt::format("an address handle{} cannot be made{}", context_.way_to(peer, node), reason(errno)));
  }
  return {ah, Freer<ibv_destroy_ah>()};
}

std::unique_ptr<MemoryRegion> IbvDevice::register_memory(std::span<std::byte> memory, unsigned access) {
  // Access has the values of ibv_access_flags.
  ibv_mr* mr = ibv_reg_mr(context_.pd(), memory.data(), memory.size(), static_cast<int>(access));
  if (mr == nullptr) {
    throw UserError("", fmt::format("cannot register {} KiB of memory, as every worker thread does{}",
                                    memory.size() >> 10, reason(errno)));
  }
  return std::make_unique<IbvMemoryRegion>(mr);
}

IbvCompletionQueue::IbvCompletionQueue(IbvDevice& device, std::uint32_t cqe)
    : device_(device),
      cq_(ibv_create_cq(device.context().context(), static_cast<int>(cqe), nullptr, nullptr, 0)) {
  if (!cq_) throw UserError("", fmt::format("cannot make a completion queue of {}{}", cqe, reason(errno)));
}

void IbvCompletionQueue::reserve_more(std::uint64_t requests) {
  if (promised_ > 0) return;
  // Too many for the device are refused with the first queue pair that finds no room.
  const std::uint64_t cqe =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(cq_->cqe) + requests, device_.attributes().max_cqe);
  ibv_cq* larger = ibv_create_cq(device_.context().context(), static_cast<int>(cqe), nullptr, nullptr, 0);
  if (larger == nullptr) {
    throw UserError("", fmt::format("cannot make a completion queue of {}{}", cqe, reason(errno)));
  }
  cq_.reset(larger);
}

void IbvCompletionQueue::add_room(std::uint32_t requests) {
  promised_ += requests;
  if (promised_ <= static_cast<std::uint32_t>(cq_->cqe)) return;
  const std::uint32_t most = device_.attributes().max_cqe;
  const std::uint32_t wanted = std::min(std::max(promised_, std::bit_ceil(promised_)), most);
  const bool fits = wanted >= promised_;
  const int error = fits ? ibv_resize_cq(cq_.get(), static_cast<int>(wanted)) : 0;
  if (fits && error == 0) return;
  const std::uint32_t needed = promised_;
  promised_ -= requests;
  if (fits) {
    throw UserError(
        "", fmt::format("a completion queue does not grow to {} completions{}", wanted, reason(error)));
  }
  throw UserError("", fmt::format("more queue pairs than a completion queue of this device holds: {} "
                                  "completions, at most {}; use fewer nodes, threads or cluster.qps_per_peer",
                                  needed, most));
}

std::size_t IbvCompletionQueue::poll(std::span<WorkCompletion> wc) {
  std::size_t taken = 0;
  while (taken < wc.size() && !held_.empty()) {
    wc[taken++] = held_.front().wc;
    held_.pop_front();
  }
  if (taken == wc.size()) return taken;
  const auto most = static_cast<int>(std::min<std::size_t>(kBatch, wc.size() - taken));
  const int count = ibv_poll_cq(cq_.get(), most, batch_.data());
  if (count < 0) throw std::runtime_error("ibv_poll_cq failed: the completion queue is broken");
  for (int i = 0; i < count; ++i) {
    if (translate(batch_[static_cast<std::size_t>(i)], wc[taken])) ++taken;
  }
  return taken;
}

bool IbvCompletionQueue::translate(const ibv_wc& from, WorkCompletion& to) {
  const Slot& slot = *reinterpret_cast<const Slot*>(from.wr_id);
  to.wr_id = slot.wr_id;
  to.status = static_cast<WcStatus>(from.status);
  to.qp_num = from.qp_num;
  if (from.status == IBV_WC_SUCCESS) {
    to.opcode = opcode_of(from.opcode);
    to.has_imm = (from.wc_flags & IBV_WC_WITH_IMM) != 0;
    to.byte_len = from.byte_len;
    to.imm_data = to.has_imm ? be32toh(from.imm_data) : 0;
    to.src_qp = from.src_qp;
  } else if (from.status != IBV_WC_WR_FLUSH_ERR) {
    device_.note_failure({slot.owner->peer_node(), failure_of(from)});
  }
  if (slot.kind == Slot::Kind::kRecv && from.status == IBV_WC_SUCCESS) {
    device_.counts().recv.add(from.byte_len - (slot.owner->type() == QpType::kUd ? kGrhBytes : 0));
  }
  slot.owner->retire(slot);
  return slot.kind != Slot::Kind::kFence;
}

void IbvCompletionQueue::take_in(const IbvQueuePair* gone) {
  std::erase_if(held_, [&](const Held& held) { return held.owner == gone; });
  // A broken one has nothing more to give, and whoever asks it next hears of it.
  for (int count = 1; count > 0;) {
    count = ibv_poll_cq(cq_.get(), kBatch, batch_.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& from = batch_[static_cast<std::size_t>(i)];
      const IbvQueuePair* owner = reinterpret_cast<const Slot*>(from.wr_id)->owner;
      Held held{owner, {}};
      if (owner != gone && translate(from, held.wc)) held_.push_back(held);
    }
  }
}

}  // namespace verbtwin::ibverbs
