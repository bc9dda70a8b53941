#include "backend/verbs.hpp"

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

}  // namespace verbtwin
