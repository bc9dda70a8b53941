// A device that fails where a working one does not: what it refuses says why and leaves nothing behind.
//
// Runs where there is a device (tools/rxe-vm has one), whose refusals are made up here.
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/ibverbs/cluster.hpp"
#include "backend/ibverbs/queue_pair.hpp"
#include "backend/user_error.hpp"

namespace {

ibv_cq* cq_that_does_not_grow = nullptr;
int made_up_error = 0;
std::vector<ibv_event_type> made_up_events;
int acknowledged_events = 0;
ibv_qp_attr modified{};  // what queue pairs were connected with
ibv_qp* last_modified = nullptr;
std::uint32_t inline_of_rc_b =
    UINT32_MAX;  // what RC queue pairs are said to have got, whatever was asked for
std::vector<std::uint16_t> made_up_pkeys;
bool refuse_paths = false;
bool lead_astray = false;
bool refuse_handles = false;
int handles = 0;  // that were made

int refuse_to_send(ibv_qp*, ibv_send_wr* list, ibv_send_wr** refused) {
  *refused = list;
  return made_up_error;
}
int fail_to_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** refused) {
  *refused = nullptr;
  return made_up_error;
}
int fail_to_receive(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** refused) {
  *refused = nullptr;
  return made_up_error;
}
std::uint64_t asked_wr_id = 0;
int take_request(ibv_qp*, ibv_send_wr* list, ibv_send_wr**) {
  asked_wr_id = list->wr_id;
  return 0;
}
int complete_with_failure(ibv_cq*, int, ibv_wc* wc) {
  if (asked_wr_id == 0) return 0;
  *wc = {};
  wc->wr_id = std::exchange(asked_wr_id, 0);
  wc->status = IBV_WC_RETRY_EXC_ERR;
  wc->vendor_err = 0x81;
  return 1;
}
int refuse_to_receive(ibv_qp*, ibv_recv_wr* list, ibv_recv_wr** refused) {
  *refused = list;
  return made_up_error;
}

}  // namespace

/// In front of libibverbs' own.
extern "C" int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (cq == cq_that_does_not_grow) return made_up_error;
  static const auto original = reinterpret_cast<int (*)(ibv_cq*, int)>(dlsym(RTLD_NEXT, "ibv_resize_cq"));
  return original(cq, cqe);
}

extern "C" int ibv_get_async_event(ibv_context*, ibv_async_event* event) {
  if (made_up_events.empty()) return -1;
  event->event_type = made_up_events.front();
  event->element.port_num = 1;
  made_up_events.erase(made_up_events.begin());
  return 0;
}
extern "C" void ibv_ack_async_event(ibv_async_event*) {
  ++acknowledged_events;
}

extern "C" int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  const auto place = static_cast<std::size_t>(index);
  if (place < made_up_pkeys.size()) {
    *pkey = htobe16(made_up_pkeys[place]);
    return 0;
  }
  static const auto original =
      reinterpret_cast<int (*)(ibv_context*, std::uint8_t, int, __be16*)>(dlsym(RTLD_NEXT, "ibv_query_pkey"));
  return original(context, port, index, pkey);
}

extern "C" ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  static const auto original =
      reinterpret_cast<ibv_qp* (*)(ibv_pd*, ibv_qp_init_attr*)>(dlsym(RTLD_NEXT, "ibv_create_qp"));
  ibv_qp* made = original(pd, attributes);
  if (attributes->qp_type == IBV_QPT_RC)
    attributes->cap.max_inline_data = std::min(attributes->cap.max_inline_data, inline_of_rc_b);
  return made;
}

extern "C" int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  last_modified = qp;
  if ((mask & IBV_QP_AV) != 0 && refuse_paths) return made_up_error;
  if ((mask & IBV_QP_AV) != 0) modified.ah_attr = attributes->ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) modified.path_mtu = attributes->path_mtu;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) modified.max_rd_atomic = attributes->max_rd_atomic;
  if ((mask & IBV_QP_DEST_QPN) != 0 && lead_astray) attributes->dest_qp_num ^= 0x800000;
  static const auto original =
      reinterpret_cast<int (*)(ibv_qp*, ibv_qp_attr*, int)>(dlsym(RTLD_NEXT, "ibv_modify_qp"));
  return original(qp, attributes, mask);
}

extern "C" ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  if (refuse_handles) {
    errno = made_up_error;
    return nullptr;
  }
  ++handles;
  static const auto original =
      reinterpret_cast<ibv_ah* (*)(ibv_pd*, ibv_ah_attr*)>(dlsym(RTLD_NEXT, "ibv_create_ah"));
  return original(pd, attributes);
}

namespace verbtwin::ibverbs {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The parameter: an errno that a device may fail with.
class DeviceFailure : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { made_up_error = GetParam(); }
  void TearDown() override { cq_that_does_not_grow = nullptr; }

  std::unique_ptr<QueuePair> make(QpInitAttributes attributes = {}) {
    attributes.send_cq = send_cq_.get();
    attributes.recv_cq = recv_cq_.get();
    return device_.create_qp(attributes);
  }
  static std::string why() { return " (" + std::string(std::strerror(GetParam())) + ")"; }

  IbvDevice device_{PortChoice{}};
  std::unique_ptr<CompletionQueue> send_cq_ = device_.create_cq(16);
  std::unique_ptr<CompletionQueue> recv_cq_ = device_.create_cq(16);
};

TEST_P(DeviceFailure, AFatalEventIsToldAndOthersAreNot) {
  acknowledged_events = 0;
  Context& context = device_.context();
  const std::string name = ibv_get_device_name(context.context()->device);
  EXPECT_EQ(context.failed_event(), "");
  made_up_events = {IBV_EVENT_COMM_EST, IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR};
  EXPECT_EQ(context.failed_event(), name + " reports: local catastrophic error");
  EXPECT_EQ(context.failed_event(), name + " reports: CQ error");
  EXPECT_EQ(context.failed_event(), "");
  EXPECT_EQ(acknowledged_events, 4) << "an event that is not acknowledged keeps its queue pair from going";
}

TEST_P(DeviceFailure, APortThatStaysDownIsTold) {
  Context& context = device_.context();
  const std::string down =
      std::string(ibv_get_device_name(context.context()->device)) + " reports: port 1 is down";
  const auto begin = std::chrono::steady_clock::now();
  const auto at_s = [&](int s) { return context.failed_event(begin + std::chrono::seconds(s)); };
  made_up_events = {IBV_EVENT_PORT_ERR};
  EXPECT_EQ(at_s(0), "");
  EXPECT_EQ(at_s(9), "");
  made_up_events = {IBV_EVENT_PORT_ACTIVE};
  EXPECT_EQ(at_s(11), "") << "it came up again";
  made_up_events = {IBV_EVENT_PORT_ERR};
  EXPECT_EQ(at_s(12), "");
  EXPECT_EQ(at_s(21), "");
  EXPECT_EQ(at_s(22), down);
}

/// Events are asked for ten times a second by a thread that has more to do.
TEST_P(DeviceFailure, NobodyWaitsForEvents) {
  EXPECT_NE(fcntl(device_.context().context()->async_fd, F_GETFL) & O_NONBLOCK, 0);
}

TEST_P(DeviceFailure, ACompletionQueueThatDoesNotGrowSaysWhy) {
  cq_that_does_not_grow = static_cast<IbvCompletionQueue&>(*recv_cq_).get();
  try {
    make();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a completion queue does not grow to 128 completions" + why()));
    EXPECT_THAT(error.what(), Not(HasSubstr("more queue pairs")));
  }
}

/// Some drivers cannot resize: who knows how many requests there will be says so first.
TEST_P(DeviceFailure, ACompletionQueueThatIsLargeEnoughNeedNotGrow) {
  const QpInitAttributes attributes;
  auto& send_cq = static_cast<IbvCompletionQueue&>(*send_cq_);
  auto& recv_cq = static_cast<IbvCompletionQueue&>(*recv_cq_);
  send_cq.reserve_more(3 * (attributes.max_send_wr + IbvQueuePair::kExtraSlots));
  recv_cq.reserve_more(3 * attributes.max_recv_wr);
  std::vector<std::unique_ptr<QueuePair>> made;
  for (IbvCompletionQueue* none : {&send_cq, &recv_cq}) {
    cq_that_does_not_grow = none->get();
    EXPECT_NO_THROW(made.push_back(make()));
  }
}

TEST_P(DeviceFailure, ThePKeyOfAPortIsItsFirstFullOne) {
  EXPECT_EQ(device_.context().pkey_index(), 0);
  EXPECT_EQ(device_.context().fabric().pkey, 0xFFFF);
  made_up_pkeys = {0x8001};
  EXPECT_EQ(Context(PortChoice{}).fabric().pkey, 0x8001);
  made_up_pkeys.clear();
  device_.context().use_partition(0x7FFF);
  EXPECT_EQ(device_.context().pkey_index(), 0);
  device_.context().use_partition(1);
  EXPECT_EQ(device_.context().fabric().pkey, 0xFFFF) << "it is not in that one";
}

TEST_P(DeviceFailure, UnlikeEndsAgreeOnTheSmaller) {
  const auto made = make({.max_rd_atomic = 4});
  QpAddress peer = made->address();
  EXPECT_EQ(peer.mtu_b, device_.attributes().mtu);
  made->connect(peer);
  EXPECT_EQ(128U << modified.path_mtu, device_.attributes().mtu);
  EXPECT_EQ(modified.max_rd_atomic, 4);
  made->reset();
  peer = made->address();
  peer.mtu_b = 256;
  peer.max_rd_atomic = 2;
  made->connect(peer);
  EXPECT_EQ(modified.path_mtu, IBV_MTU_256);
  EXPECT_EQ(modified.max_rd_atomic, 2);
}

TEST_P(DeviceFailure, APathThatIsRefusedIsNamed) {
  const auto made = make();
  static_cast<IbvQueuePair&>(*made).set_peer_node(7);
  QpAddress peer = made->address();
  peer.gid = {0xFE, 0x80};
  refuse_paths = true;
  try {
    made->connect(peer);
    ADD_FAILURE();
  } catch (const UserError& error) {
    const Context& context = device_.context();
    EXPECT_EQ(error.what(), "a queue pair from GID " + context.description().gid + " (index " +
                                std::to_string(context.gid_index()) +
                                ") to GID fe80:: of rank 7 does not go to RTR" + why());
  }
  refuse_paths = false;
}

TEST_P(DeviceFailure, WhoIsNotReachedIsKnownBeforeTheRun) {
  RendezvousOptions alone;
  Rendezvous rendezvous(alone);
  for (const bool astray : {false, true}) {
    lead_astray = astray;
    ClusterParameters parameters;
    parameters.nics = {PortChoice{}};
    Cluster cluster(parameters);
    const auto cq = cluster.port(0).device().create_cq(1);
    QpInitAttributes wanted;
    wanted.send_cq = wanted.recv_cq = cq.get();
    cluster.port(0).use_queue_pairs(wanted);
    std::string told;
    try {
      cluster.connect(rendezvous, std::chrono::seconds(30));
    } catch (const std::runtime_error& error) {
      told = error.what();
    }
    EXPECT_THAT(told, HasSubstr(astray ? "rank 0 is not reached from " : ""));
    const std::string gid = gid_text(device_.context().gid().raw);
    EXPECT_THAT(told, HasSubstr(astray ? ") to GID " + gid + ": transport retry counter exceeded" : ""));
    EXPECT_EQ(told.empty(), !astray) << told;
    cluster.disconnect();
  }
  lead_astray = false;
}

/// Datagrams: of the handles that a run needs none is made in it.
TEST_P(DeviceFailure, AddressHandlesAreMadeBeforeTheRunAndNameWhoseIsRefused) {
  RendezvousOptions alone;
  Rendezvous rendezvous(alone);
  for (const bool refuse : {false, true}) {
    refuse_handles = refuse;
    ClusterParameters parameters;
    parameters.nics = {PortChoice{}};
    Cluster cluster(parameters);
    NodePort& port = cluster.port(0);
    const auto cq = port.device().create_cq(1);
    QpInitAttributes wanted;
    wanted.type = QpType::kUd;
    wanted.send_cq = wanted.recv_cq = cq.get();
    const auto datagrams = port.device().create_qp(wanted);
    datagrams->connect({});
    port.publish_ud(datagrams->address());
    std::string told;
    try {
      cluster.agree_on_ports(rendezvous, std::chrono::seconds(30));
      cluster.connect(rendezvous, std::chrono::seconds(30));
    } catch (const UserError& error) {
      told = error.what();
    }
    if (refuse) {
      const std::string gid = cluster.descriptions().front().gid;
      EXPECT_THAT(told, testing::StartsWith("an address handle from GID " + gid + " (index "));
      EXPECT_THAT(told, testing::EndsWith(") to GID " + gid + " of rank 0 cannot be made" + why()));
    } else {
      EXPECT_EQ(told, "");
      const int before = handles;
      EXPECT_NE(port.device().create_ah(port.ud_address(0, 0)), nullptr);
      EXPECT_EQ(handles, before);
    }
  }
  refuse_handles = false;
}

TEST_P(DeviceFailure, QueuePairsOfDatagramsHaveKeysOfTheirOwn) {
  QpInitAttributes wanted;
  wanted.type = QpType::kUd;
  const auto one = make(wanted), another = make(wanted);
  EXPECT_NE(one->address().qkey, another->address().qkey);
  EXPECT_LT(one->address().qkey, 1U << 31);
}

TEST_P(DeviceFailure, ThePathIsAsItWasAskedFor) {
  PortChoice choice;
  choice.sl = 5;
  choice.traffic_class = 106;
  IbvDevice device(choice);
  const auto cq = device.create_cq(1);
  QpInitAttributes attributes;
  attributes.send_cq = attributes.recv_cq = cq.get();
  const auto made = device.create_qp(attributes);
  made->connect(made->address());
  EXPECT_EQ(modified.ah_attr.sl, 5);
  EXPECT_EQ(modified.ah_attr.grh.traffic_class, 106);
  EXPECT_EQ(modified.ah_attr.grh.flow_label, flow_label(made->address().qp_num, made->address().qp_num));
}

/// Drivers make queue pairs that carry less than was asked for, and say so.
TEST_P(DeviceFailure, InlineIsWhatADeviceGives) {
  ASSERT_GE(device_.attributes().max_inline_data, 60U);
  inline_of_rc_b = 12;
  EXPECT_EQ(IbvDevice(PortChoice{}).attributes().max_inline_data, 12U);
  QpInitAttributes wanted;
  wanted.max_inline_data = 60;
  try {
    make(wanted);
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("carries 12 B inline, 60 B were asked for"));
  }
  inline_of_rc_b = UINT32_MAX;
  EXPECT_NO_THROW(make(wanted));
}

TEST_P(DeviceFailure, AQueuePairThatCannotBeMadeTakesNoRoom) {
  const std::uint32_t most = device_.attributes().max_cqe;
  QpInitAttributes large;
  large.max_send_wr = std::min(device_.attributes().max_qp_wr, most / 2);
  cq_that_does_not_grow = static_cast<IbvCompletionQueue&>(*recv_cq_).get();
  for (std::uint32_t taken = 0; taken <= most; taken += large.max_send_wr) {
    EXPECT_THROW(make(large), UserError);
  }
  cq_that_does_not_grow = nullptr;
  EXPECT_NO_THROW(make(large));
}

TEST_P(DeviceFailure, AFenceThatIsRefusedIsNotTakenForOneThatIsDone) {
  const auto made = make();
  auto& queue_pair = static_cast<IbvQueuePair&>(*made);
  queue_pair.connect(queue_pair.address());
  device_.context().context()->ops.post_send = refuse_to_send;
  try {
    queue_pair.post_fence();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), "a fence cannot be posted" + why());
  }
}

TEST_P(DeviceFailure, AFailedCompletionHasTheVendorsNumber) {
  const auto made = make();
  static_cast<IbvQueuePair&>(*made).set_peer_node(7);
  made->connect(made->address());
  ibv_context_ops& ops = device_.context().context()->ops;
  ops.post_send = take_request;
  ops.poll_cq = complete_with_failure;
  SendWr wr;
  wr.opcode = Opcode::kRdmaWrite;
  EXPECT_EQ(made->post_send({&wr, 1}).posted, 1U);
  WorkCompletion wc;
  EXPECT_EQ(send_cq_->poll({&wc, 1}), 1U);
  EXPECT_EQ(device_.first_failure().what, "transport retry counter exceeded (vendor error 0x81)");
  EXPECT_EQ(device_.first_failure().peer, 7);
}

TEST_P(DeviceFailure, WhatADeviceTakesNoMoreIsNoFaultOfTheRequest) {
  const auto made = make();
  auto& queue_pair = static_cast<IbvQueuePair&>(*made);
  queue_pair.set_peer_node(7);
  queue_pair.connect(queue_pair.address());
  EXPECT_EQ(device_.first_failure().what, "");

  ibv_context_ops& ops = device_.context().context()->ops;
  ops.post_send = refuse_to_send;
  ops.post_recv = refuse_to_receive;
  SendWr wr;
  wr.opcode = Opcode::kRdmaWrite;
  const RecvWr to_take{};
  made_up_error = EINVAL;
  EXPECT_EQ(queue_pair.post_send({&wr, 1}).error, PostError::kInvalid);
  EXPECT_EQ(queue_pair.post_recv({&to_take, 1}).error, PostError::kInvalid);
  made_up_error = ENOMEM;
  EXPECT_EQ(queue_pair.post_send({&wr, 1}).error, PostError::kQueueFull);
  EXPECT_EQ(queue_pair.post_recv({&to_take, 1}).error, PostError::kQueueFull);
  EXPECT_EQ(device_.first_failure().what, "");

  made_up_error = GetParam();
  for (const PostResult& result : {queue_pair.post_send({&wr, 1}), queue_pair.post_recv({&to_take, 1})}) {
    EXPECT_EQ(result.error, PostError::kFailed);
    EXPECT_EQ(result.posted, 0U);
  }
  EXPECT_EQ(device_.first_failure().what, "the device takes no requests" + why());
  EXPECT_EQ(device_.first_failure().peer, 7);
  made_up_error = EINVAL;  // as some drivers say of a queue pair that has failed
  EXPECT_EQ(queue_pair.post_send({&wr, 1}).error, PostError::kFailed);
  EXPECT_EQ(queue_pair.post_recv({&to_take, 1}).error, PostError::kFailed);
}

/// As soft-RoCE fails when the kernel does not hear of what is in its queue.
TEST_P(DeviceFailure, AListOfWhichNoRequestIsNamedAsRefusedIsInTheQueue) {
  const auto made = make();
  made->connect(made->address());
  ibv_context_ops& ops = device_.context().context()->ops;
  ops.post_send = fail_to_send;
  ops.post_recv = fail_to_receive;
  std::vector<SendWr> writes(2);
  for (SendWr& wr : writes) wr.opcode = Opcode::kRdmaWrite;
  const std::vector<RecvWr> receives(3);
  for (const int error : {GetParam(), ENOMEM, EINVAL}) {
    made_up_error = error;
    const PostResult sent = made->post_send(writes);
    EXPECT_EQ(sent.error, PostError::kFailed);
    EXPECT_EQ(sent.posted, 2U);
    const PostResult to_receive = made->post_recv(receives);
    EXPECT_EQ(to_receive.error, PostError::kFailed);
    EXPECT_EQ(to_receive.posted, 3U);
  }
  EXPECT_EQ(device_.first_failure().what, "the device takes no requests" + why());
}

TEST_P(DeviceFailure, AFailedQueuePairThatTakesNothingIsNoFaultOfTheRequest) {
  const auto made = make();
  auto& queue_pair = static_cast<IbvQueuePair&>(*made);
  queue_pair.connect(queue_pair.address());
  ibv_qp_attr failed{};
  failed.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(last_modified, &failed, IBV_QP_STATE), 0);
  device_.context().context()->ops.post_send = refuse_to_send;
  made_up_error = EINVAL;
  SendWr wr;
  wr.opcode = Opcode::kRdmaWrite;
  EXPECT_EQ(queue_pair.post_send({&wr, 1}).error, PostError::kFailed);
  EXPECT_THAT(device_.first_failure().what, HasSubstr("the device takes no requests"));
}

INSTANTIATE_TEST_SUITE_P(Ibverbs, DeviceFailure, testing::Values(EIO, ENODEV),
                         [](const auto& error) { return error.param == EIO ? "io" : "gone"; });

}  // namespace
}  // namespace verbtwin::ibverbs
