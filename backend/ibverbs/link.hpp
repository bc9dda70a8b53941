// Link: one TCP connection between two ranks, as frames: what has come is in an inbox, what is to go in an
// outbox, and both move while the io_context runs.
//
// Owned by the rendezvous through a shared_ptr (Asio's handlers hold one too); the thread that runs the
// io_context. A frame that is longer than the limit, or of no known kind, ends the link; send() throws
// std::runtime_error for one that no peer would take.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace verbtwin::ibverbs {

struct Frame {
  enum class Kind : std::uint32_t {
    kHello = 1,
    kWelcome,
    kRefused,
    kData,
    kStop,
    kGiveUp,
    kChallenge,
    kProof
  };
  Kind kind = Kind::kData;
  std::uint32_t phase = 0;  // kData: a hash of the phase's name
  std::string body;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  /// A guard against nonsense, no room that is set aside: rank 0 has to hold what all ranks report.
  static constexpr std::uint64_t kDataMaxBytes = std::uint64_t{64} << 30;

  /// What is in front of each frame.
  static constexpr std::size_t kHeaderBytes = 24;

  /// Until admit(), no frame may be longer than `limit_b`.
  Link(Socket socket, std::uint64_t limit_b);

  void start() { read_header(); }
  void send(Frame frame);
  void admit() { limit_b_ = kDataMaxBytes; }
  void close();
  /// Once all that was sent so far is out.
  void close_when_sent();

  const std::deque<Frame>& inbox() const { return inbox_; }
  /// The first of the inbox, which is not empty.
  Frame take_frame() {
    Frame frame = std::move(inbox_.front());
    inbox_.pop_front();
    return frame;
  }
  bool sent_all() const { return outbox_.empty() || lost_; }
  bool lost() const { return lost_; }
  /// Bytes of frames in both directions so far: what grows is alive.
  std::uint64_t moved_b() const { return read_b_ + written_b_; }
  const std::string& address() const { return address_; }
  void remember_address();
  std::string local_address() const;

 private:
  struct Header {
    std::uint32_t magic;
    Frame::Kind kind;
    std::uint32_t phase;
    std::uint32_t reserved;
    std::uint64_t bytes;
  };
  static_assert(sizeof(Header) == kHeaderBytes);
  static constexpr std::uint32_t kMagic = 0x31575456;  // "VTW1"
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

  void read_header();
  void read_body();
  void write_next();
  auto counting(std::uint64_t& bytes);

  Socket socket_;
  std::uint64_t limit_b_;
  bool lost_ = false, closing_ = false;
  std::uint64_t read_b_ = 0, written_b_ = 0;
  std::string address_;
  Header header_{};
  std::string body_;
  std::deque<Frame> inbox_;
  struct Outgoing {
    Header header;
    std::string body;
  };
  std::deque<Outgoing> outbox_;
};

}  // namespace verbtwin::ibverbs
