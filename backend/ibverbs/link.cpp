#include "backend/ibverbs/link.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

namespace verbtwin::ibverbs {

namespace asio = boost::asio;

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

void Link::read_header() {
  asio::async_read(socket_, asio::buffer(&header_, sizeof header_),
                   [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                     const Header& h = self->header_;
                     const bool known = h.kind >= Frame::Kind::kHello && h.kind <= Frame::Kind::kGiveUp;
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
  asio::async_read(socket_, asio::buffer(body_.data() + have, body_.size() - have),
                   [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                     if (error) {
                       self->close();
                     } else {
                       self->read_body();
                     }
                   });
}

void Link::send(Frame frame) {
  const Header header{kMagic, frame.kind, frame.phase, 0, frame.body.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += frame.body;
  outbox_.push_back(std::move(bytes));
  if (outbox_.size() == 1) write_next();
}

void Link::write_next() {
  asio::async_write(socket_, asio::buffer(outbox_.front()),
                    [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                      if (error) {
                        self->close();
                        return;
                      }
                      self->outbox_.pop_front();
                      if (!self->outbox_.empty()) self->write_next();
                    });
}

}  // namespace verbtwin::ibverbs
