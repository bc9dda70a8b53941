#include "protocols/rpc/tcp_rpc.hpp"

#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string>

#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

TcpRpc::TcpRpc(Worker& worker)
    : cpu_(worker.cpu()),
      sockets_(worker.port().sockets()),
      peers_(static_cast<std::size_t>(worker.port().shape().nodes)),
      ready_(2 * peers_.size()),
      received_(kReceiveBytes) {}

std::span<std::byte> TcpRpc::append(int node, const Header& header) {
  assert(header.bytes <= kPayloadMaxBytes);
  Peer& to = peer(node);
  if (!to.listed) {
    to.listed = true;
    to_flush_.push_back(node);
  }
  const std::size_t at = to.out.size();
  to.out.resize(at + sizeof header + header.bytes);
  std::memcpy(to.out.data() + at, &header, sizeof header);
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, header.bytes / kCacheLineBytes);
  return {to.out.data() + at + sizeof header, header.bytes};
}

std::span<std::byte> TcpRpc::call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) {
  return append(node, {static_cast<std::uint32_t>(bytes), calls_.add(node, reply), handler, Kind::kCall});
}

std::span<std::byte> TcpRpc::reply(const RpcOrigin& origin, std::size_t bytes) {
  return append(origin.node, {static_cast<std::uint32_t>(bytes), origin.slot, 0, Kind::kReply});
}

void TcpRpc::flush() {
  for (const std::int32_t node : to_flush_) {
    peer(node).listed = false;
    // Behind what did not fit: it leaves when there is room.
    if (!peer(node).room_wanted) write(node);
  }
  to_flush_.clear();
}

void TcpRpc::write(int node) {
  Peer& to = peer(node);
  while (to.sent < to.out.size()) {
    const std::size_t taken = sockets_.send(node, std::span(to.out).subspan(to.sent));
    if (taken == 0) break;
    to.sent += taken;
  }
  const bool full = to.sent < to.out.size();
  if (!full) {
    to.out.clear();
    to.sent = 0;
  } else if (to.sent >= to.out.size() / 2) {
    to.out.erase(to.out.begin(), to.out.begin() + static_cast<std::ptrdiff_t>(to.sent));
    to.sent = 0;
  }
  if (full == to.room_wanted) return;
  to.room_wanted = full;
  sockets_.want_room(node, full);
}

bool TcpRpc::poll() {
  const std::size_t count = sockets_.poll(ready_);
  for (std::size_t i = 0; i < count; ++i) {
    if (ready_[i].readable) receive(ready_[i].node);
    if (ready_[i].writable) write(ready_[i].node);
  }
  return count > 0;
}

void TcpRpc::receive(int node) {
  const std::size_t length = sockets_.receive(node, received_);
  std::span<const std::byte> bytes = std::span<const std::byte>(received_).first(length);
  std::vector<std::byte>& part = peer(node).part;
  if (part.empty()) {
    bytes = take_messages(node, bytes);
    part.assign(bytes.begin(), bytes.end());
    return;
  }
  part.insert(part.end(), bytes.begin(), bytes.end());
  // Its own storage while messages are served: replies to them go elsewhere, and nobody receives meanwhile.
  const std::size_t left = take_messages(node, part).size();
  part.erase(part.begin(), part.end() - static_cast<std::ptrdiff_t>(left));
}

/// Serves the whole messages in front of `bytes`; returns what is left of them.
std::span<const std::byte> TcpRpc::take_messages(int node, std::span<const std::byte> bytes) {
  while (bytes.size() >= sizeof(Header)) {
    const Header header = checked_header(node, bytes);
    if (bytes.size() < sizeof header + header.bytes) break;
    serve(node, header, bytes.subspan(sizeof header, header.bytes));
    bytes = bytes.subspan(sizeof header + header.bytes);
  }
  return bytes;
}

TcpRpc::Header TcpRpc::checked_header(int node, std::span<const std::byte> bytes) const {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.bytes > kPayloadMaxBytes) refuse(node, "is longer than any may be");
  if (header.kind == Kind::kCall) {
    if (header.handler >= handlers_.size() || handlers_[header.handler].function == nullptr) {
      refuse(node, "calls a handler that there is not");
    }
  } else if (header.kind == Kind::kReply) {
    if (!calls_.awaits(header.slot, node)) refuse(node, "answers a call that was not made");
  } else {
    refuse(node, "is neither call nor reply");
  }
  return header;
}

void TcpRpc::serve(int node, const Header& header, std::span<const std::byte> body) {
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, body.size() / kCacheLineBytes);
  if (header.kind == Kind::kReply) {
    calls_.take(header.slot).on_reply(body);
  } else {
    handlers_[header.handler](RpcCall({node, header.slot}, body));
  }
}

void TcpRpc::refuse(int node, const char* what) {
  throw std::runtime_error("a message of node " + std::to_string(node) + " on its TCP connection " + what);
}

}  // namespace verbtwin::protocols
