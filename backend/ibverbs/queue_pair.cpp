#include "backend/ibverbs/queue_pair.hpp"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <stdexcept>

#include "backend/ibverbs/proof.hpp"
#include "backend/ibverbs/reason.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

/// 0.01 ms, the shortest: a peer without a RECV is asked again soon (ibv_modify_qp(3), min_rnr_timer).
constexpr std::uint8_t kMinRnrTimer = 1;

ibv_qp_type type_of(QpType type) {
  return type == QpType::kRc ? IBV_QPT_RC : type == QpType::kUc ? IBV_QPT_UC : IBV_QPT_UD;
}

ibv_wr_opcode opcode_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return IBV_WR_SEND;
    case Opcode::kSendWithImm:
      return IBV_WR_SEND_WITH_IMM;
    case Opcode::kRdmaWrite:
      return IBV_WR_RDMA_WRITE;
    case Opcode::kRdmaWriteWithImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Opcode::kRdmaRead:
      return IBV_WR_RDMA_READ;
    case Opcode::kAtomicCmpAndSwp:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Opcode::kAtomicFetchAndAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_SEND;
}

unsigned flags_of(std::uint8_t flags) {
  unsigned to = 0;
  if ((flags & kFence) != 0) to |= IBV_SEND_FENCE;
  if ((flags & kSignaled) != 0) to |= IBV_SEND_SIGNALED;
  if ((flags & kInline) != 0) to |= IBV_SEND_INLINE;
  return to;
}

/// How many requests of a list that a post failed with are in the device's queue. Soft-RoCE names none as
/// refused where the kernel does not hear of those that are all in it.
template <typename Request>
std::size_t taken(const Request* list, const Request* refused, std::size_t all) {
  return refused == nullptr ? all : static_cast<std::size_t>(refused - list);
}

}  // namespace

IbvQueuePair::IbvQueuePair(IbvDevice& device, const QpInitAttributes& attributes)
    : device_(device),
      attributes_(attributes),
      send_cq_(static_cast<IbvCompletionQueue&>(*attributes.send_cq)),
      recv_cq_(static_cast<IbvCompletionQueue&>(*attributes.recv_cq)),
      send_room_(send_cq_, attributes.max_send_wr + kExtraSlots),
      recv_room_(recv_cq_, attributes.max_recv_wr),
      qkey_(random_value<std::uint32_t>() >> 1) {
  ibv_qp_init_attr init{};
  init.qp_type = type_of(attributes.type);
  init.send_cq = send_cq_.get();
  init.recv_cq = recv_cq_.get();
  init.cap = {attributes.max_send_wr + kExtraSlots, std::max(1U, attributes.max_recv_wr), 1, 1,
              attributes.max_inline_data};
  qp_.reset(ibv_create_qp(device.context().pd(), &init));
  if (!qp_) {
    throw UserError("", fmt::format("cannot make another {} queue pair: the device has {} at most{}",
                                    to_string(attributes.type), device.context().device_attributes().max_qp,
                                    reason(errno)));
  }
  if (init.cap.max_inline_data < attributes.max_inline_data) {
    throw UserError(
        "", fmt::format("a {} queue pair carries {} B inline, {} B were asked for",
                        to_string(attributes.type), init.cap.max_inline_data, attributes.max_inline_data));
  }
  send_slots_.resize(std::bit_ceil(attributes_.max_send_wr + kExtraSlots));
  recv_slots_.resize(std::bit_ceil(attributes_.max_recv_wr));
  new_life();
}

IbvQueuePair::~IbvQueuePair() {
  if (connected_) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE);
  }
  purge();
}

void IbvQueuePair::purge() {
  send_cq_.take_in(this);
  if (&recv_cq_ != &send_cq_) recv_cq_.take_in(this);
}

void IbvQueuePair::new_life() {
  posted_ = retired_ = recv_posted_ = recv_retired_ = 0;
  // Far from the numbers of the life before, so that none of its packets passes for one of this life.
  psn_ = (psn_ + qp_->qp_num * 7919 + 0x400000) & 0xFFFFFF;
}

QpAddress IbvQueuePair::address() const {
  QpAddress address;
  const Context& context = device_.context();
  std::copy(std::begin(context.gid().raw), std::end(context.gid().raw), address.gid.begin());
  address.lid = context.port_attributes().lid;
  address.qp_num = qp_->qp_num;
  address.qkey = attributes_.type == QpType::kUd ? qkey_ : 0;
  address.psn = psn_;
  address.mtu_b = context.mtu_b();
  address.needs_grh = context.routes_by_gid();
  address.max_rd_atomic = device_.attributes().max_qp_rd_atom;
  return address;
}

QpState IbvQueuePair::state() const {
  if (!connected_) return QpState::kReset;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(qp_.get(), &attributes, IBV_QP_STATE, &init) != 0) return QpState::kError;
  switch (attributes.qp_state) {
    case IBV_QPS_RESET:
      return QpState::kReset;
    case IBV_QPS_INIT:
      return QpState::kInit;
    case IBV_QPS_RTR:
      return QpState::kRtr;
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
      return QpState::kRts;
    default:
      return QpState::kError;
  }
}

void IbvQueuePair::modify(ibv_qp_attr& attributes, int mask, const char* state, const std::string& way) {
  if (const int error = ibv_modify_qp(qp_.get(), &attributes, mask); error != 0) {
    throw UserError("", fmt::format("a queue pair{} does not go to {}{}", way, state, reason(error)));
  }
}

void IbvQueuePair::to_init() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.context().port();
  attributes.pkey_index = device_.context().pkey_index();
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (attributes_.type == QpType::kUd) {
    attributes.qkey = qkey_;
    mask |= IBV_QP_QKEY;
  } else {
    const bool reliable = attributes_.type == QpType::kRc;
    attributes.qp_access_flags =
        reliable ? device_.context().access_all() : kAccessLocalWrite | kAccessRemoteWrite;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  modify(attributes, mask, "INIT");
}

void IbvQueuePair::to_ready_to_receive(const QpAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  int mask = IBV_QP_STATE;
  if (attributes_.type != QpType::kUd) {
    attributes.path_mtu = device_.context().mtu_with(peer.mtu_b);
    attributes.dest_qp_num = peer.qp_num;
    attributes.rq_psn = peer.psn;
    attributes.ah_attr = path_to(device_.context(), qp_->qp_num, peer);
    mask |= IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_AV;
  }
  if (attributes_.type == QpType::kRc) {
    attributes.max_dest_rd_atomic = device_.attributes().max_qp_rd_atom;
    attributes.min_rnr_timer = kMinRnrTimer;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  modify(attributes, mask, "RTR",
         attributes_.type == QpType::kUd ? "" : device_.context().way_to(peer, peer_node_));
}

void IbvQueuePair::to_ready_to_send(const QpAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn_;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (attributes_.type == QpType::kRc) {
    attributes.max_rd_atomic = attributes_.max_rd_atomic;
    if (peer.max_rd_atomic > 0)
      attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, peer.max_rd_atomic);
    attributes.timeout = attributes_.timeout;
    attributes.retry_cnt = attributes_.retry_cnt;
    attributes.rnr_retry = attributes_.rnr_retry;
    mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  }
  modify(attributes, mask, "RTS");
}

void IbvQueuePair::connect(const QpAddress& peer) {
  to_init();
  to_ready_to_receive(peer);
  to_ready_to_send(peer);
  connected_ = true;
}

void IbvQueuePair::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  modify(attributes, IBV_QP_STATE, "RESET");
  connected_ = false;
  purge();
  new_life();
}

void IbvQueuePair::fill(const SendWr& from, ibv_send_wr& to, ibv_sge& sge) {
  sge = {reinterpret_cast<std::uint64_t>(from.sge.addr), from.sge.length, device_.key_of(from.sge.lkey)};
  to.next = nullptr;
  to.sg_list = &sge;
  to.num_sge = from.sge.length > 0 ? 1 : 0;
  to.opcode = opcode_of(from.opcode);
  to.send_flags = flags_of(from.flags);
  to.imm_data = htobe32(from.imm_data);
  switch (from.opcode) {
    case Opcode::kAtomicCmpAndSwp:
    case Opcode::kAtomicFetchAndAdd:
      to.wr.atomic = {from.remote_addr, from.compare_add, from.swap, from.rkey};
      break;
    case Opcode::kSend:
    case Opcode::kSendWithImm:
      if (attributes_.type != QpType::kUd) break;
      to.wr.ud = {static_cast<IbvAddressHandle*>(from.ah)->get(), from.remote_qpn, from.remote_qkey};
      break;
    default:
      to.wr.rdma = {from.remote_addr, from.rkey};
  }
}

PostResult IbvQueuePair::post_send(std::span<const SendWr> list) {
  if (!connected_) return {0, PostError::kInvalid};
  PostResult result;
  send_wrs_.resize(std::max(send_wrs_.size(), list.size()));
  sges_.resize(std::max(sges_.size(), list.size()));
  for (const SendWr& wr : list) {
    if (posted_ + result.posted - retired_ >= attributes_.max_send_wr) result.error = PostError::kQueueFull;
    if (result.error == PostError::kNone &&
        !type_allows(attributes_.type, wr, attributes_.max_inline_data, device_.attributes().mtu)) {
      result.error = PostError::kInvalid;
    }
    if (result.error == PostError::kNone && is_atomic(wr.opcode) && !device_.context().has_atomics()) {
      device_.note_failure({peer_node_, "the device has no atomic operations"});
      result.error = PostError::kFailed;
    }
    if (result.error != PostError::kNone) break;
    const std::uint64_t position = posted_ + result.posted;
    Slot& slot = slot_of(send_slots_, position);
    slot = {this, wr.wr_id, position, Slot::Kind::kSend, (wr.flags & kSignaled) != 0};
    ibv_send_wr& to = send_wrs_[result.posted];
    fill(wr, to, sges_[result.posted]);
    to.wr_id = reinterpret_cast<std::uint64_t>(&slot);
    if (result.posted > 0) send_wrs_[result.posted - 1].next = &to;
    device_.counts().add(wr.opcode, wr.sge.length);
    ++result.posted;
  }
  if (result.posted == 0) return result;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(qp_.get(), send_wrs_.data(), &refused); error != 0) {
    result.posted = taken(send_wrs_.data(), refused, result.posted);
    result.error = refused_with(error, refused != nullptr);
  }
  posted_ += result.posted;
  return result;
}

PostError IbvQueuePair::refused_with(int error, bool one_request) {
  if (error == ENOMEM && one_request) return PostError::kQueueFull;
  // Some drivers say so too of a queue pair that has failed, which is no fault of the request.
  if (error == EINVAL && one_request && device_.first_failure().what.empty() && state() != QpState::kError)
    return PostError::kInvalid;
  device_.note_failure({peer_node_, "the device takes no requests" + reason(error)});
  return PostError::kFailed;
}

PostResult IbvQueuePair::post_recv(std::span<const RecvWr> list) {
  PostResult result;
  recv_wrs_.resize(std::max(recv_wrs_.size(), list.size()));
  sges_.resize(std::max(sges_.size(), list.size()));
  for (const RecvWr& wr : list) {
    const std::uint64_t position = recv_posted_ + result.posted;
    if (position - recv_retired_ >= attributes_.max_recv_wr) {
      result.error = PostError::kQueueFull;
      break;
    }
    Slot& slot = slot_of(recv_slots_, position);
    slot = {this, wr.wr_id, position, Slot::Kind::kRecv};
    ibv_sge& sge = sges_[result.posted];
    sge = {reinterpret_cast<std::uint64_t>(wr.sge.addr), wr.sge.length, device_.key_of(wr.sge.lkey)};
    recv_wrs_[result.posted] = {reinterpret_cast<std::uint64_t>(&slot), nullptr, &sge,
                                wr.sge.length > 0 ? 1 : 0};
    if (result.posted > 0) recv_wrs_[result.posted - 1].next = &recv_wrs_[result.posted];
    ++result.posted;
  }
  if (result.posted == 0) return result;
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(qp_.get(), recv_wrs_.data(), &refused); error != 0) {
    result.posted = taken(recv_wrs_.data(), refused, result.posted);
    result.error = refused_with(error, refused != nullptr);
  }
  recv_posted_ += result.posted;
  return result;
}

std::size_t IbvQueuePair::awaited() const {
  std::size_t count = 0;
  for (std::uint64_t i = retired_; i < posted_; ++i) count += slot_of(send_slots_, i).signalled;
  return count;
}

void IbvQueuePair::post_fence() {
  Slot& slot = slot_of(send_slots_, posted_);
  slot = {this, 0, posted_, Slot::Kind::kFence};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uint64_t>(&slot);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(qp_.get(), &wr, &refused); error != 0) {
    throw std::runtime_error("a fence cannot be posted" + reason(error));
  }
  ++posted_;
}

}  // namespace verbtwin::ibverbs
