// How a machine that is gone without a word (no power, no cable) is noticed on a TCP connection.
//
// A free function, callable from any thread.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verbtwin::ibverbs {

/// What a peer's machine has not acknowledged for so long breaks the connection, as does a peer that takes
/// nothing in for so long while something waits for it.
inline constexpr unsigned kPeerTimeout_ms = 10'000;

/// An idle connection is asked every second. How many answers may be missing is kPeerTimeout_ms's to say
/// (tcp(7): TCP_USER_TIMEOUT overrides keepalive). A system without one of these has the connection anyway.
inline void notice_lost_machines(int connection) {
  const int on = 1, second = 1;
  setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &kPeerTimeout_ms, sizeof kPeerTimeout_ms);
}

}  // namespace verbtwin::ibverbs
