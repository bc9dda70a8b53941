#include "tools/verb_trace.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::tools {

VerbTrace::VerbTrace(const std::filesystem::path& file) : path_(file), file_(std::fopen(file.c_str(), "w")) {
  if (file_ == nullptr) {
    throw UserError("", fmt::format("--trace {}: cannot be written: {}", scenarios::one_line(file.string()),
                                    std::generic_category().message(errno)));
  }
  write("time_ns,node,thread,peer,queue_pair,verb,bytes,to,signalled,list\n");
}

VerbTrace::~VerbTrace() {
  if (file_ != nullptr) std::fclose(file_);
}

WorkerPort& VerbTrace::wrap(WorkerPort& port) {
  ObservedPort::Observer observer;
  observer.posted = [this, &port, list = std::uint64_t{0}](const ObservedPort::Posted& posted) mutable {
    note(port, posted, ++list);
  };
  return ports_.emplace_back(port, std::move(observer));
}

void VerbTrace::note(WorkerPort& port, const ObservedPort::Posted& posted, std::uint64_t list) {
  const bool ud = posted.queue_pair.type() == QpType::kUd;
  const std::string to = posted.peer < 0 ? "" : std::to_string(posted.peer);
  const std::uint64_t base = posted.peer < 0 ? 0 : port.memory().remote(posted.peer, posted.nic).addr;
  for (const SendWr& wr : posted.list) {
    const bool has_address = !ud && wr.opcode != Opcode::kSend && wr.opcode != Opcode::kSendWithImm;
    const std::uint64_t where = ud ? wr.remote_qpn : has_address ? wr.remote_addr - base : 0;
    write(fmt::format("{:.3f},{},{},{},{},{},{},{},{},{}\n", static_cast<double>(port.cpu().now_ps()) / 1000,
                      port.node(), port.thread(), to, posted.queue_pair.address().qp_num,
                      to_string(wr.opcode), wr.sge.length, where, (wr.flags & kSignaled) != 0 ? 1 : 0, list));
  }
}

/// What cannot be written is told at the end: the run goes on without.
void VerbTrace::write(const std::string& text) {
  if (error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
}

std::string VerbTrace::end() {
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  if (error_ != 0) throw std::system_error(error_, std::generic_category(), "cannot write " + path_.string());
  return {};
}

}  // namespace verbtwin::tools
