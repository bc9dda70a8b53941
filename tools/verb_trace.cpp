#include "tools/verb_trace.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::tools {

class VerbTrace::TracedQueuePair final : public QueuePair {
 public:
  /// `peer`: its node; below 0: not known. `base`: where that registered its memory.
  TracedQueuePair(Port& port, QueuePair& inner, int peer, std::uint64_t base,
                  std::unique_ptr<QueuePair> owned)
      : port_(port), inner_(inner), owned_(std::move(owned)), peer_(peer), base_(base) {}

  PostResult post_send(std::span<const SendWr> list) override;
  PostResult post_recv(std::span<const RecvWr> list) override { return inner_.post_recv(list); }
  QpAddress address() const override { return inner_.address(); }
  QpType type() const override { return inner_.type(); }
  QpState state() const override { return inner_.state(); }
  void connect(const QpAddress& peer) override { inner_.connect(peer); }
  void reset() override { inner_.reset(); }

 private:
  Port& port_;
  QueuePair& inner_;
  std::unique_ptr<QueuePair> owned_;
  int peer_;
  std::uint64_t base_;
};

class VerbTrace::TracedDevice final : public Device {
 public:
  TracedDevice(Port& port, Device& inner) : port_(port), inner_(inner) {}

  const DeviceAttributes& attributes() const override { return inner_.attributes(); }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override { return inner_.create_cq(cqe); }
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override {
    std::unique_ptr<QueuePair> made = inner_.create_qp(attributes);
    QueuePair& inner = *made;
    return std::make_unique<TracedQueuePair>(port_, inner, -1, 0, std::move(made));
  }
  std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) override { return inner_.create_ah(peer); }
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) override {
    return inner_.register_memory(memory, access);
  }

 private:
  Port& port_;
  Device& inner_;
};

class VerbTrace::Port final : public WorkerPort {
 public:
  Port(WorkerPort& inner, std::FILE* file) : inner_(inner), file_(file), device_(*this, inner.device()) {}

  void note(std::span<const SendWr> posted, const QueuePair& queue_pair, int peer, std::uint64_t base,
            std::int64_t rung_ps) {
    ++lists_;
    const bool ud = queue_pair.type() == QpType::kUd;
    const std::string to = peer < 0 ? "" : std::to_string(peer);
    for (const SendWr& wr : posted) {
      const bool has_address = !ud && wr.opcode != Opcode::kSend && wr.opcode != Opcode::kSendWithImm;
      const std::uint64_t where = ud ? wr.remote_qpn : has_address ? wr.remote_addr - base : 0;
      fmt::print(file_, "{:.3f},{},{},{},{},{},{},{},{},{}\n", static_cast<double>(rung_ps) / 1000, node(),
                 thread(), to, queue_pair.address().qp_num, to_string(wr.opcode), wr.sge.length, where,
                 (wr.flags & kSignaled) != 0 ? 1 : 0, lists_);
    }
  }

  const ClusterShape& shape() const override { return inner_.shape(); }
  int node() const override { return inner_.node(); }
  int thread() const override { return inner_.thread(); }
  Cpu& cpu() override { return inner_.cpu(); }
  Device& device() override { return device_; }
  NodeMemory& memory() override { return inner_.memory(); }
  QueuePair& rc_queue_pair(int node, int nic, int index) override {
    auto& traced = queue_pairs_[{node, nic, index}];
    if (!traced) {
      traced = std::make_unique<TracedQueuePair>(*this, inner_.rc_queue_pair(node, nic, index), node,
                                                 memory().remote(node, nic).addr, nullptr);
    }
    return *traced;
  }
  void use_queue_pairs(const QpInitAttributes& wanted) override { inner_.use_queue_pairs(wanted); }
  void watch(std::span<const std::byte> memory) override { inner_.watch(memory); }
  void wake(int thread) override { inner_.wake(thread); }
  Sockets& sockets() override { return inner_.sockets(); }
  void publish_ud(const QpAddress& address) override { inner_.publish_ud(address); }
  QpAddress ud_address(int node, int thread) override { return inner_.ud_address(node, thread); }

 private:
  WorkerPort& inner_;
  std::FILE* file_;
  TracedDevice device_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<TracedQueuePair>> queue_pairs_;
  std::uint64_t lists_ = 0;
};

PostResult VerbTrace::TracedQueuePair::post_send(std::span<const SendWr> list) {
  const PostResult result = inner_.post_send(list);
  if (result.posted > 0) port_.note(list.first(result.posted), inner_, peer_, base_, port_.cpu().now_ps());
  return result;
}

VerbTrace::VerbTrace(const std::filesystem::path& file) : path_(file), file_(std::fopen(file.c_str(), "w")) {
  if (file_ == nullptr) {
    throw UserError("", fmt::format("--trace {}: cannot be written: {}", scenarios::one_line(file.string()),
                                    std::generic_category().message(errno)));
  }
  fmt::print(file_, "time_ns,node,thread,peer,queue_pair,verb,bytes,to,signalled,list\n");
}

VerbTrace::~VerbTrace() {
  if (file_ != nullptr) std::fclose(file_);
}

WorkerPort& VerbTrace::wrap(WorkerPort& port) {
  return *ports_.emplace_back(std::make_unique<Port>(port, file_));
}

void VerbTrace::end() {
  const bool written = std::ferror(file_) == 0 && std::fflush(file_) == 0;
  if (!written) throw std::system_error(errno, std::generic_category(), "cannot write " + path_.string());
}

}  // namespace verbtwin::tools
