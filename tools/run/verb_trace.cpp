#include "tools/run/verb_trace.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace verbtwin::tools {

VerbTrace::VerbTrace(std::filesystem::path file)
    : file_(std::move(file), OutputFile::Replaces::kPlain),
      lines_("time_ns,node,thread,peer,queue_pair,verb,bytes,to,signalled,list\n") {}

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
    lines_ +=
        fmt::format("{:.3f},{},{},{},{},{},{},{},{},{}\n", static_cast<double>(port.cpu().now_ps()) / 1000,
                    port.node(), port.thread(), to, posted.queue_pair.address().qp_num, to_string(wr.opcode),
                    wr.sge.length, where, (wr.flags & kSignaled) != 0 ? 1 : 0, list);
  }
  constexpr std::size_t kAtOnceB = 64 << 10;
  if (lines_.size() >= kAtOnceB) write_lines();
}

/// What cannot be written is told at the end: the run goes on without.
void VerbTrace::write_lines() {
  try {
    if (!failure_) file_.write(lines_);
  } catch (const std::system_error& failed) {
    failure_ = failed;
  }
  lines_.clear();
}

std::string VerbTrace::end() {
  write_lines();
  if (failure_) throw std::system_error(*failure_);
  file_.commit();
  return {};
}

}  // namespace verbtwin::tools
