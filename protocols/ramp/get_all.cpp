// GET_ALL: the last committed version of each key, then, where one of those belongs to a transaction that
// another one should show as well, the version that does.
#include <algorithm>
#include <bitset>
#include <cstring>

#include "protocols/ramp/bloom.hpp"
#include "protocols/ramp/client.hpp"
#include "protocols/ramp/server.hpp"
#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

namespace {
/// What find_needed_by_siblings() takes a core, in cycles: for each sibling (measured with 8 and 64 keys on a
/// recent Xeon: 4), and for each key that one is compared with (2.2).
constexpr std::uint64_t kSiblingCycles = 4, kComparedCycles = 2;
}  // namespace

Task<bool> RampClient::get_all() {
  auto first = first_round();
  if (!co_await first) co_return false;
  WaitGroup group(worker_);
  const std::size_t again = engine_.options.sabotage.skip_second_round ? 0 : ask_again(group);
  if (again > 0) {
    ++rounds_;
    co_await group;
    for (Item& item : reads()) {
      if (item.asked && !take_reply(item, false)) co_return fail(RampAbort::kVersionCollected);
    }
  }
  co_return true;
}

Task<bool> RampClient::first_round() {
  WaitGroup group(worker_);
  for (Item& item : reads()) {
    if (engine_.options.in_place()) {
      read_in_place(item, group);
    } else {
      get_last(item, group);
    }
  }
  if (engine_.options.in_place()) worker_.ring(true);
  co_await group;
  if (group.status() != WcStatus::kSuccess) co_return fail(RampAbort::kVerbFailed);
  // Where a READ found no current version, the server says where there is one.
  bool missed = false;
  for (Item& item : reads()) {
    if (item.asked) {
      take_reply(item, true);
    } else if (!accept_in_place(item)) {
      engine_.addresses->read_in_vain(item.key);
      get_last(item, group);
      missed = true;
    }
  }
  rounds_ = 1;
  if (!missed) co_return true;
  ++rounds_;
  co_await group;
  for (Item& item : reads()) {
    if (item.asked && item.timestamp == kNotRead) take_reply(item, true);
  }
  co_return true;
}

void RampClient::get_last(Item& item, WaitGroup& group) {
  item.asked = true;
  item.timestamp = kNotRead;
  item.reply = Reply(group, item.reply_buffer);
  const bool time_only = engine_.options.algorithm == RampAlgorithm::kSmall;
  const GetArguments arguments{item.key, 0};
  put_head(to(item.node, engine_.gets)
               .call(item.node, id(time_only ? RampMessage::kGetTime : RampMessage::kGetLast),
                     sizeof arguments, item.reply),
           arguments);
}

void RampClient::get_newest_of(Item& item, std::span<const std::uint64_t> timestamps, WaitGroup& group) {
  item.asked = true;
  item.reply = Reply(group, item.reply_buffer);
  const GetArguments arguments{item.key, timestamps.size()};
  const std::span<std::byte> to_fill =
      put_head(to(item.node, engine_.gets)
                   .call(item.node, id(RampMessage::kGetNewestOf), sizeof arguments + timestamps.size_bytes(),
                         item.reply),
               arguments);
  std::memcpy(to_fill.data(), timestamps.data(), timestamps.size_bytes());
}

/// False: what was asked for has been collected.
bool RampClient::take_reply(Item& item, bool first_round) {
  const std::span<const std::byte> bytes = item.reply.bytes();
  const auto head = head_of<VersionReply>(bytes);
  item.status = head.status;
  if (head.status == RampStatus::kCollected) return false;
  if (head.status == RampStatus::kNone) return true;  // a Bloom filter's error: what was read stays
  item.timestamp = head.timestamp;
  item.metadata = bytes.subspan(sizeof head, head.metadata_b);
  item.value = bytes.subspan(sizeof head + head.metadata_b, head.value_b);
  observe(head.timestamp);
  if (first_round) item.last_commit = head.last_commit;
  if (head.place != VersionReply::kNoPlace) engine_.addresses->set(item.key, head.place, head.metadata_b);
  return true;
}

/// GET*: by READ where the address is known.
void RampClient::read_in_place(Item& item, WaitGroup& group) {
  cpu_.charge(Cost::kCacheLookup);
  const auto place = item.node == worker_.port().node() ? std::nullopt : engine_.addresses->find(item.key);
  if (!place) {
    get_last(item, group);
    return;
  }
  item.asked = false;
  item.landing_b = engine_.layout.image_b(engine_.addresses->metadata_b());
  Channel& channel = worker_.channel(item.node, worker_.nic());
  SendWr read;
  read.opcode = Opcode::kRdmaRead;
  read.sge = {item.landing, item.landing_b, engine_.lkey};
  read.remote_addr = channel.remote.addr + engine_.layout.place_offset(*place);
  read.rkey = channel.remote.rkey;
  worker_.stage(channel, read, &group);
  ++in_place_;
}

/// What a READ found, unless it is not this key's current version, or only half of one: the READ may have met
/// the server copying a version to the place.
bool RampClient::accept_in_place(Item& item) {
  const RampOptions::Sabotage& sabotage = engine_.options.sabotage;
  const auto head = head_of<VersionHead>({item.landing, item.landing_b});
  if ((head.stamp & kInvalidVersion) != 0 && !sabotage.ignore_invalid_bit) return false;
  if (head.timestamp() == 0) {  // never written
    item.value = {item.reply_buffer.data(), engine_.layout.value_b};
    fill_value(item.key, 0, item.reply_buffer.first(engine_.layout.value_b));
    item.metadata = {};
  } else {
    if (head.key != item.key || head.value_b != engine_.layout.value_b) return false;
    if (engine_.layout.image_b(head.metadata_b) > item.landing_b) return false;
    const std::byte* body = item.landing + sizeof head;
    item.metadata = {body, head.metadata_b};
    item.value = {body + head.metadata_b, head.value_b};
    cpu_.charge(Cost::kCopyBlock, item.landing_b / kCacheLineBytes);  // the digest
    if (version_digest(head, item.metadata, item.value) != head.digest && !sabotage.accept_torn) return false;
  }
  item.timestamp = item.last_commit = head.timestamp();
  observe(item.timestamp);
  ++in_place_accepted_;
  engine_.addresses->read_well(item.key);
  return true;
}

/// The second round, of the keys that need one; returns how many.
std::size_t RampClient::ask_again(WaitGroup& group) {
  std::size_t asked = 0;
  if (engine_.options.algorithm == RampAlgorithm::kFast) find_needed_by_siblings();
  for (Item& item : reads()) {
    wanted_.clear();
    switch (engine_.options.algorithm) {
      case RampAlgorithm::kFast:
        if (item.needed > item.timestamp) wanted_.push_back(item.needed);
        break;
      case RampAlgorithm::kHybrid:
        needed_by_filters(item);
        break;
      default:
        for (const Item& other : reads()) wanted_.push_back(other.timestamp);
    }
    item.asked = !wanted_.empty();
    if (!item.asked) continue;
    get_newest_of(item, wanted_, group);
    ++asked;
  }
  return asked;
}

/// For each key read, the largest timestamp among the returned versions that name it as their sibling, if it
/// is larger than the key's own. Most siblings are no keys that were read: few bits tell.
void RampClient::find_needed_by_siblings() {
  std::bitset<512> read;
  const auto bit_of = [&read](std::uint64_t key) { return spread(key) % read.size(); };
  for (Item& item : reads()) {
    item.needed = item.timestamp;
    read.set(bit_of(item.key));
  }
  std::uint64_t siblings = 0, compared = 0;
  for (const Item& other : reads()) {
    for (auto left = other.metadata; left.size() >= sizeof(SiblingKey);
         left = left.subspan(sizeof(SiblingKey))) {
      ++siblings;
      const auto key = head_of<SiblingKey>(left);
      if (!read[bit_of(key)]) continue;
      compared += read_count_;
      for (Item& item : reads()) {
        if (item.key == key) item.needed = std::max(item.needed, other.timestamp);
      }
    }
  }
  cpu_.charge_cycles(kSiblingCycles * siblings + kComparedCycles * compared);
}

void RampClient::needed_by_filters(const Item& item) {
  for (const Item& other : reads()) {
    if (other.timestamp <= item.timestamp) continue;
    const RampOptions& options = engine_.options;
    const bool holds = bloom_holds(other.metadata, options.bloom_bits, options.bloom_hashes, item.key);
    cpu_.charge_cycles(kBloomBitCycles * (holds ? options.bloom_hashes : 1));  // most end at the first bit
    if (holds) wanted_.push_back(other.timestamp);
  }
}

}  // namespace verbtwin::protocols
