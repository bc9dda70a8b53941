#include "backend/verbs.hpp"

#include <string>

#include "backend/user_error.hpp"

namespace verbtwin {

std::string_view to_string(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:
      return "success";
    case WcStatus::kLocLenErr:
      return "local length error";
    case WcStatus::kLocQpOpErr:
      return "local QP operation error";
    case WcStatus::kLocProtErr:
      return "local protection error";
    case WcStatus::kWrFlushErr:
      return "Work Request Flushed Error";
    case WcStatus::kRemInvReqErr:
      return "remote invalid request error";
    case WcStatus::kRemAccessErr:
      return "remote access error";
    case WcStatus::kRemOpErr:
      return "remote operation error";
    case WcStatus::kRetryExcErr:
      return "transport retry counter exceeded";
    case WcStatus::kRnrRetryExcErr:
      return "RNR retry counter exceeded";
    case WcStatus::kBadRespErr:
      return "bad response error";
    case WcStatus::kLocAccessErr:
      return "local access error";
    case WcStatus::kRemAbortErr:
      return "aborted error";
    case WcStatus::kFatalErr:
      return "fatal error";
    case WcStatus::kRespTimeoutErr:
      return "response timeout error";
    case WcStatus::kGeneralErr:
      return "general error";
  }
  return "unknown";
}

std::string_view to_string(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return "send";
    case Opcode::kSendWithImm:
      return "send_with_imm";
    case Opcode::kRdmaWrite:
      return "write";
    case Opcode::kRdmaWriteWithImm:
      return "write_with_imm";
    case Opcode::kRdmaRead:
      return "read";
    case Opcode::kAtomicCmpAndSwp:
      return "compare_swap";
    case Opcode::kAtomicFetchAndAdd:
      return "fetch_add";
  }
  return "unknown";
}

std::string_view to_string(QpType type) {
  switch (type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
  }
  return "unknown";
}

bool type_allows(QpType type, const SendWr& wr, std::uint32_t max_inline_data, std::uint32_t mtu) {
  const bool is_inline = (wr.flags & kInline) != 0;
  if (is_inline && (returns_data(wr.opcode) || wr.sge.length > max_inline_data)) return false;
  switch (type) {
    case QpType::kRc:
      return true;
    case QpType::kUc:
      return !returns_data(wr.opcode);
    case QpType::kUd:
      return is_send(wr.opcode) && wr.ah != nullptr && wr.sge.length <= mtu;
  }
  return false;
}

void check_completion_queue(const DeviceAttributes& device, std::uint32_t cqe) {
  if (cqe > 0 && cqe <= device.max_cqe) return;
  throw UserError("", "a completion queue of " + std::to_string(cqe) + " entries: the device allows 1 to " +
                          std::to_string(device.max_cqe));
}

void check_queue_pair(const DeviceAttributes& device, const QpInitAttributes& wanted) {
  if (wanted.max_inline_data <= device.max_inline_data && wanted.max_send_wr <= device.max_qp_wr &&
      wanted.max_recv_wr <= device.max_qp_wr &&
      (wanted.type != QpType::kRc || wanted.max_rd_atomic <= device.max_qp_rd_atom)) {
    return;
  }
  throw UserError("", "a queue pair of " + std::to_string(wanted.max_send_wr) + " sends, " +
                          std::to_string(wanted.max_recv_wr) + " RECVs, " +
                          std::to_string(wanted.max_inline_data) + " B inline and " +
                          std::to_string(wanted.max_rd_atomic) +
                          " READs in flight: the device allows up to " + std::to_string(device.max_qp_wr) +
                          " sends or RECVs, " + std::to_string(device.max_inline_data) + " B, " +
                          std::to_string(device.max_qp_rd_atom) + " READs");
}

QpInitAttributes connected_queue_pairs(QpInitAttributes wanted, const DeviceAttributes& device) {
  if (wanted.max_inline_data > 0) wanted.max_inline_data = device.max_inline_data;
  wanted.max_rd_atomic = device.max_qp_rd_atom;
  return wanted;
}

}  // namespace verbtwin
