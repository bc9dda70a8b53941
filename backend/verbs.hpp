// The verbs-shaped interface: what protocols see of an RDMA device, whichever binding is below it.
//
// Names, meanings and numeric values follow libibverbs (rdma-core); where a comment says "as ibv_x", the
// manual page of that call is the specification. Two bindings implement it: sim/ (models on a simulated
// clock) and backend/ibverbs/ (real devices).
//
// Ownership: whoever creates an object owns it (unique_ptr) and destroys it before the Device that made it.
// Threads: a Device and everything made from it belong to one worker thread; no call here may be made by
// another. Errors: a call that is refused says so in its result (PostError); a request that fails says so in
// its completion (WcStatus). Neither throws and neither exits. What cannot be created at all throws
// UserError. Units: lengths and addresses in bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace verbtwin {

/// Reliable connected, unreliable connected, unreliable datagram.
enum class QpType : std::uint8_t { kRc, kUc, kUd };

/// As ibv_qp_state.
enum class QpState : std::uint8_t { kReset, kInit, kRtr, kRts, kError };

/// As ibv_wr_opcode.
enum class Opcode : std::uint8_t {
  kSend,
  kSendWithImm,
  kRdmaWrite,
  kRdmaWriteWithImm,
  kRdmaRead,
  kAtomicCmpAndSwp,
  kAtomicFetchAndAdd,
};
inline constexpr std::size_t kOpcodes = static_cast<std::size_t>(Opcode::kAtomicFetchAndAdd) + 1;

constexpr bool is_send(Opcode op) {
  return op == Opcode::kSend || op == Opcode::kSendWithImm;
}
constexpr bool is_write(Opcode op) {
  return op == Opcode::kRdmaWrite || op == Opcode::kRdmaWriteWithImm;
}
constexpr bool is_atomic(Opcode op) {
  return op == Opcode::kAtomicCmpAndSwp || op == Opcode::kAtomicFetchAndAdd;
}
constexpr bool has_imm(Opcode op) {
  return op == Opcode::kSendWithImm || op == Opcode::kRdmaWriteWithImm;
}
/// Whether its answer brings something to memory here; else the request carries the payload.
constexpr bool returns_data(Opcode op) {
  return op == Opcode::kRdmaRead || is_atomic(op);
}

/// As ibv_wc_opcode: what a completion completes.
enum class WcOpcode : std::uint8_t {
  kSend,
  kRdmaWrite,
  kRdmaRead,
  kCompSwap,
  kFetchAdd,
  kRecv,
  kRecvRdmaWithImm
};

/// As ibv_wc_status, with its values.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kRemAbortErr = 16,
  kFatalErr = 19,
  kRespTimeoutErr = 20,
  kGeneralErr = 21,
};

/// As ibv_wc_status_str: the words libibverbs uses.
std::string_view to_string(WcStatus status);
std::string_view to_string(Opcode opcode);
std::string_view to_string(QpType type);

/// As ibv_access_flags.
enum Access : unsigned {
  kAccessLocalWrite = 1,
  kAccessRemoteWrite = 2,
  kAccessRemoteRead = 4,
  kAccessRemoteAtomic = 8,
};
inline constexpr unsigned kAccessAll =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

/// As ibv_send_flags.
enum SendFlags : std::uint8_t {
  kFence = 1,     // wait for earlier READs and ATOMICs of this queue pair
  kSignaled = 2,  // write a completion
  kInline = 8,    // the payload is copied into the WQE: its buffer is free when post_send returns
};

/// Bytes that precede the payload in every UD receive buffer (the Global Routing Header).
inline constexpr std::uint32_t kGrhBytes = 40;

/// One piece of registered local memory.
struct Sge {
  std::byte* addr = nullptr;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

/// A UD destination's path, as ibv_ah. Made and owned through a Device.
class AddressHandle {
 public:
  virtual ~AddressHandle() = default;
};

/// One send work request. Only the members that `opcode` uses are read.
struct SendWr {
  std::uint64_t wr_id = 0;
  Opcode opcode = Opcode::kSend;
  std::uint8_t flags = 0;         // SendFlags
  std::uint32_t imm_data = 0;     // *WithImm
  Sge sge;                        // payload; for READ and ATOMIC where the result lands (8 B for ATOMIC)
  std::uint64_t remote_addr = 0;  // READ, WRITE, ATOMIC; ATOMIC needs 8 B alignment
  std::uint32_t rkey = 0;         // READ, WRITE, ATOMIC
  std::uint32_t remote_qpn = 0;   // UD
  std::uint32_t remote_qkey = 0;  // UD
  AddressHandle* ah = nullptr;    // UD
  std::uint64_t compare_add = 0;  // CmpAndSwp: expected value; FetchAndAdd: addend
  std::uint64_t swap = 0;         // CmpAndSwp
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  Sge sge;  // UD: kGrhBytes + payload
};

/// One completion, as ibv_wc. On an error only wr_id, status and qp_num are valid.
struct WorkCompletion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  bool has_imm = false;
  std::uint32_t byte_len = 0;  // RECV: bytes received, the GRH of UD included
  std::uint32_t imm_data = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t src_qp = 0;  // UD RECV
};

/// Why post_send or post_recv took fewer requests than it was given.
enum class PostError : std::uint8_t {
  kNone,
  kQueueFull,  // as ENOMEM: no free slot; retire completions and post the rest again
  kInvalid,    // as EINVAL: the queue pair's state, type or limits forbid this request
  kFailed,     // as any other errno: no fault of the request; the binding reports the device
};

struct PostResult {
  std::size_t posted = 0;  // requests taken; the first one refused is the one at this index
  PostError error = PostError::kNone;
};

/// Where a queue pair can be reached: what two ends exchange before they connect.
struct QpAddress {
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t qkey = 0;  // UD
  std::uint32_t psn = 0;   // RC, UC: its first packet's number, another one in each life (24 bits)
  // Of its device, so that two unlike ones agree; 0: the same as everybody's.
  std::uint32_t mtu_b = 0;
  std::uint8_t max_rd_atomic = 0;  // READs and ATOMICs that it answers at a time
  bool needs_grh = false;          // InfiniBand: it takes no packet without a global route header
};

class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual std::uint32_t lkey() const = 0;
  virtual std::uint32_t rkey() const = 0;
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  /// As ibv_poll_cq: takes up to wc.size() completions, in the order they were written; returns how many.
  virtual std::size_t poll(std::span<WorkCompletion> wc) = 0;
};

/// A send queue and a receive queue. Requests execute in the order posted; RC completions come in that order
/// too. An unsignalled request is retired by the next signalled one behind it.
class QueuePair {
 public:
  virtual ~QueuePair() = default;

  /// As ibv_post_send with a linked list: takes the requests in order and rings the doorbell once.
  virtual PostResult post_send(std::span<const SendWr> list) = 0;
  virtual PostResult post_recv(std::span<const RecvWr> list) = 0;

  virtual QpAddress address() const = 0;
  virtual QpType type() const = 0;
  virtual QpState state() const = 0;

  /// RC, UC: RESET -> INIT -> RTR -> RTS towards `peer`. UD: to RTS, `peer` is ignored.
  virtual void connect(const QpAddress& peer) = 0;

  /// Any state -> RESET: what is queued vanishes without a completion. connect() brings it back.
  virtual void reset() = 0;
};

/// As ibv_qp_init_attr with the ibv_qp_attr members that matter to performance.
struct QpInitAttributes {
  QpType type = QpType::kRc;
  CompletionQueue* send_cq = nullptr;  // not owned; outlives the queue pair
  CompletionQueue* recv_cq = nullptr;  // not owned; outlives the queue pair
  std::uint32_t max_send_wr = 128;
  std::uint32_t max_recv_wr = 128;
  std::uint32_t max_inline_data = 60;
  std::uint8_t max_rd_atomic = 16;  // READs and ATOMICs in flight (RC)
  std::uint8_t rnr_retry = 7;       // RC SEND that finds no RECV: 7 retries for ever, as in the specification
  std::uint8_t timeout = 14;        // RC: a lost ACK is missed after 4.096 us * 2^timeout
  std::uint8_t retry_cnt = 6;       // RC: and given up after that many retries
};

/// Whether a queue pair of this type may be given this request at all: what its type can do, what may be
/// inline, and a datagram's destination and size. The same in every binding.
bool type_allows(QpType type, const SendWr& wr, std::uint32_t max_inline_data, std::uint32_t mtu);

/// What the device allows, as ibv_device_attr and ibv_port_attr.
struct DeviceAttributes {
  std::uint32_t max_inline_data = 0;
  std::uint32_t max_qp_wr = 0;
  std::uint32_t max_cqe = 0;
  std::uint8_t max_qp_rd_atom = 0;
  std::uint32_t mtu = 4096;
};

/// Throw UserError where a device makes no such queue or queue pair. The same in every binding.
void check_completion_queue(const DeviceAttributes& device, std::uint32_t cqe);
void check_queue_pair(const DeviceAttributes& device, const QpInitAttributes& wanted);
/// A worker's connected queue pairs as a port makes them: all that the device reads at a time, and all that
/// it inlines, unless they inline nothing: every request has the room for it.
QpInitAttributes connected_queue_pairs(QpInitAttributes wanted, const DeviceAttributes& device);

/// Requests posted and messages received since the start, by kind.
struct VerbCounts {
  struct Count {
    std::uint64_t count = 0, bytes = 0;
    void add(std::uint64_t more_bytes) {
      ++count;
      bytes += more_bytes;
    }
    Count& operator+=(const Count& more) {
      count += more.count;
      bytes += more.bytes;
      return *this;
    }
    Count operator-(const Count& less) const { return {count - less.count, bytes - less.bytes}; }
  };
  std::array<Count, kOpcodes> by_opcode;
  Count recv;
  // Where the binding can know:
  std::uint64_t datagrams_dropped = 0;  // for want of a RECV
  std::uint64_t packets_lost = 0;       // on the way, of any message
  std::uint64_t ack_timeouts = 0;       // RC queue pairs that sent again because nothing came back

  /// A request.
  void add(Opcode opcode, std::uint64_t bytes) { by_opcode[static_cast<std::size_t>(opcode)].add(bytes); }
  VerbCounts& operator+=(const VerbCounts& more) {
    for (std::size_t i = 0; i < by_opcode.size(); ++i) by_opcode[i] += more.by_opcode[i];
    recv += more.recv;
    datagrams_dropped += more.datagrams_dropped;
    packets_lost += more.packets_lost;
    ack_timeouts += more.ack_timeouts;
    return *this;
  }
  VerbCounts operator-(const VerbCounts& less) const {
    VerbCounts difference;
    for (std::size_t i = 0; i < by_opcode.size(); ++i) {
      difference.by_opcode[i] = by_opcode[i] - less.by_opcode[i];
    }
    difference.recv = recv - less.recv;
    difference.datagrams_dropped = datagrams_dropped - less.datagrams_dropped;
    difference.packets_lost = packets_lost - less.packets_lost;
    difference.ack_timeouts = ack_timeouts - less.ack_timeouts;
    return difference;
  }
};

/// An opened device with one protection domain, used by one thread (a context per thread, as fast systems do
/// it).
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceAttributes& attributes() const = 0;
  virtual std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) = 0;
  virtual std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) = 0;
  virtual std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) = 0;
  /// As ibv_reg_mr: the memory stays the caller's and must outlive the region.
  virtual std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) = 0;
};

}  // namespace verbtwin
