#include "backend/ibverbs/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>

#include "backend/ibverbs/keepalive.hpp"

namespace verbtwin::ibverbs {

namespace asio = boost::asio;

Link::Link(Socket socket, std::uint64_t limit_b) : socket_(std::move(socket)), limit_b_(limit_b) {
  boost::system::error_code ignored;  // of a connection that has gone already: the first read tells
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  notice_lost_machines(socket_.native_handle());
}

void Link::remember_address() {
  boost::system::error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  address_ = error ? "an address that is gone" : endpoint.address().to_string();
}

std::string Link::local_address() const {
  return socket_.local_endpoint().address().to_string();
}

void Link::close() {
  lost_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Link::close_when_sent() {
  closing_ = true;
  if (outbox_.empty()) close();
}

/// To the end, as by default; `bytes`, a member of this link, tells how far it is.
auto Link::counting(std::uint64_t& bytes) {
  return [self = shared_from_this(), &bytes, before = bytes](const boost::system::error_code& error,
                                                             std::size_t done) {
    bytes = before + done;
    return asio::transfer_all()(error, done);
  };
}

void Link::read_header() {
  asio::async_read(socket_, asio::buffer(&header_, sizeof header_),
                   [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                     const Header& h = self->header_;
                     const bool known = h.kind >= Frame::Kind::kHello && h.kind <= Frame::Kind::kProof;
                     if (error || h.magic != kMagic || !known || h.bytes > self->limit_b_) {
                       self->close();
                       return;
                     }
                     self->body_.clear();
                     self->read_body();
                   });
}

/// In pieces, so that memory is taken as bytes arrive and not as a header claims.
void Link::read_body() {
  const std::size_t have = body_.size();
  if (have == header_.bytes) {
    inbox_.push_back({header_.kind, header_.phase, std::move(body_)});
    body_ = {};
    read_header();
    return;
  }
  body_.resize(have + std::min<std::size_t>(kChunkBytes, header_.bytes - have));
  asio::async_read(socket_, asio::buffer(body_.data() + have, body_.size() - have), counting(read_b_),
                   [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                     if (error) {
                       self->close();
                     } else {
                       self->read_body();
                     }
                   });
}

void Link::send(Frame frame) {
  if (frame.body.size() > kDataMaxBytes) {
    constexpr double kGiB = std::uint64_t{1} << 30;
    throw std::runtime_error(fmt::format(
        "{:.1f} GiB for another rank are more than the {:.0f} GiB that one message "
        "may have: measure for a shorter time",
        static_cast<double>(frame.body.size()) / kGiB, static_cast<double>(kDataMaxBytes) / kGiB));
  }
  const Header header{kMagic, frame.kind, frame.phase, 0, frame.body.size()};
  outbox_.push_back({header, std::move(frame.body)});
  if (outbox_.size() == 1) write_next();
}

void Link::write_next() {
  const Outgoing& out = outbox_.front();
  const std::array<asio::const_buffer, 2> buffers{asio::buffer(&out.header, sizeof out.header),
                                                  asio::buffer(out.body)};
  asio::async_write(socket_, buffers, counting(written_b_),
                    [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                      if (error) {
                        self->close();
                        return;
                      }
                      self->outbox_.pop_front();
                      if (!self->outbox_.empty()) {
                        self->write_next();
                      } else if (self->closing_) {
                        self->close();
                      }
                    });
}

}  // namespace verbtwin::ibverbs
