#include "models/profile.hpp"

namespace verbtwin::models {

namespace {

using N = NicProfile;
using H = HostProfile;

constexpr Parameter<N> kNicParameters[] = {
    {"link_gbps", "Gb/s", 1, 1600, &N::link_gbps, "data rate of the port"},
    {"pcie_gbps", "Gb/s", 1, 4000, &N::pcie_gbps, "raw rate of the slot, each direction"},
    {"pcie_tlp_header_b", "B", 0, 64, &N::pcie_tlp_header_b, "header and framing of one TLP"},
    {"pcie_payload_b", "B", 64, 4096, &N::pcie_payload_b, "payload of one write TLP at most"},
    {"pcie_completion_b", "B", 64, 4096, &N::pcie_completion_b, "payload of one read completion TLP at most"},
    {"dma_read_ns", "ns", 0, 10000, &N::dma_read_ns, "host memory read by the NIC, idle, first byte back"},
    {"dma_write_ns", "ns", 0, 10000, &N::dma_write_ns, "host memory write by the NIC until a CPU can see it"},
    {"dma_reads_outstanding", "count", 1, 4096, &N::dma_reads_outstanding, "DMA reads in flight at most"},
    {"mmio_ns", "ns", 0, 10000, &N::mmio_ns, "a CPU store to the device until the NIC has it"},
    {"doorbell_registers_dedicated", "count", 0, 4096, &N::doorbell_registers_dedicated,
     "doorbell registers of a device context that one queue pair has for itself"},
    {"doorbell_registers_shared", "count", 1, 4096, &N::doorbell_registers_shared,
     "doorbell registers of a device context that the other queue pairs share under a lock"},
    {"blueflame_b", "B", 0, 4096, &N::blueflame_b, "largest request copied to the device whole; 0: none"},
    {"blueflame_pointers", "count", 0, 1, &N::blueflame_pointers,
     "1: so are requests that name a payload to send by a pointer; 0: those are fetched"},
    {"max_inline_b", "B", 0, 1024, &N::max_inline_b, "largest inline payload"},
    {"max_send_wr", "count", 1, 32768, &N::max_send_wr, "send queue depth a queue pair may ask for"},
    {"max_rd_atomic", "count", 1, 16, &N::max_rd_atomic, "READs and ATOMICs in flight per queue pair"},
    {"send_wqe_ns", "ns", 0, 10000, &N::send_wqe_ns, "send engine occupancy of one request"},
    {"send_wqe_block_ns", "ns", 0, 10000, &N::send_wqe_block_ns,
     "send engine occupancy of each 64 B WQE block"},
    {"send_fetch_ns", "ns", 0, 10000, &N::send_fetch_ns,
     "send engine occupancy of starting to fetch a payload from host memory"},
    {"send_fetch_block_ns", "ns", 0, 10000, &N::send_fetch_block_ns,
     "send engine occupancy of each 64 B of payload that is fetched from host memory"},
    {"send_response_ns", "ns", 0, 10000, &N::send_response_ns,
     "response engine occupancy of a READ or ATOMIC response"},
    {"send_response_block_ns", "ns", 0, 10000, &N::send_response_block_ns,
     "response engine occupancy of each 64 B of its payload"},
    {"send_response_tlp_ns", "ns", 0, 10000, &N::send_response_tlp_ns,
     "response engine occupancy of each further pcie_payload_b of its payload: a DMA read of its own"},
    {"send_ack_ns", "ns", 0, 10000, &N::send_ack_ns, "send engine occupancy of an ACK"},
    {"queue_pair_gap_ns", "ns", 0, 10000, &N::queue_pair_gap_ns,
     "between two requests of one queue pair (its processing unit)"},
    {"send_pipeline_ns", "ns", 0, 10000, &N::send_pipeline_ns, "fixed latency from engine to wire"},
    {"recv_packet_ns", "ns", 0, 10000, &N::recv_packet_ns,
     "receive engine occupancy of one request or response"},
    {"recv_ack_ns", "ns", 0, 10000, &N::recv_ack_ns, "receive engine occupancy of an ACK"},
    {"recv_wqe_ns", "ns", 0, 10000, &N::recv_wqe_ns, "added occupancy of taking a RECV WQE"},
    {"recv_imm_ns", "ns", 0, 10000, &N::recv_imm_ns, "added occupancy of a WRITE that takes a RECV WQE"},
    {"recv_queue_cache_entries", "count", 1, 1e7, &N::recv_queue_cache_entries,
     "receive queues whose next WQEs are held on the NIC"},
    {"recv_queue_miss_ns", "ns", 0, 10000, &N::recv_queue_miss_ns,
     "added occupancy of taking a RECV WQE of another receive queue"},
    {"recv_tlp_ns", "ns", 0, 10000, &N::recv_tlp_ns,
     "added occupancy of each TLP beyond the first that a message's payload takes to host memory"},
    {"recv_pipeline_ns", "ns", 0, 10000, &N::recv_pipeline_ns, "fixed latency from wire to engine"},
    {"qp_cache_entries", "count", 1, 1e7, &N::qp_cache_entries, "queue-pair contexts held on the NIC"},
    {"qp_miss_ns", "ns", 0, 10000, &N::qp_miss_ns, "latency that a context miss adds to its request"},
    {"qp_miss_occupancy_ns", "ns", 0, 10000, &N::qp_miss_occupancy_ns,
     "engine occupancy that a context miss adds (pipelined misses add little, serial ones their latency)"},
    {"qp_miss_growth_ns", "ns", 0, 1000, &N::qp_miss_growth_ns,
     "more of it for each context that exists: the NIC's own tables in host memory are cached worse"},
    {"wqe_cache_entries", "count", 1, 1e7, &N::wqe_cache_entries,
     "requests kept on the NIC from fetch to answer; older ones are fetched again"},
    {"wqe_miss_response_ns", "ns", 0, 10000, &N::wqe_miss_response_ns,
     "receive engine occupancy of a READ or ATOMIC response whose request is not on the NIC any more"},
    {"wqe_miss_ack_ns", "ns", 0, 10000, &N::wqe_miss_ack_ns, "the same of an ACK"},
    {"translation_cache_entries", "count", 1, 1e7, &N::translation_cache_entries,
     "address translations held on the NIC"},
    {"translation_page_b", "B", 4096, 1 << 30, &N::translation_page_b, "memory that one translation covers"},
    {"translation_miss_ns", "ns", 0, 10000, &N::translation_miss_ns,
     "latency that a translation miss adds to its request"},
    {"translation_miss_occupancy_ns", "ns", 0, 10000, &N::translation_miss_occupancy_ns,
     "receive engine occupancy that a translation miss adds"},
    {"atomic_locks", "count", 1, 65536, &N::atomic_locks,
     "locks of the atomic unit, picked by low address bits"},
    {"atomic_engine_ns", "ns", 0, 10000, &N::atomic_engine_ns, "atomic unit occupancy of one operation"},
    {"mtu_b", "B", 256, 4096, &N::mtu_b, "payload of one packet at most"},
    {"wire_header_b", "B", 0, 256, &N::wire_header_b,
     "bytes that every packet carries beyond InfiniBand's (RoCEv2: 56)"},
};

constexpr Parameter<H> kHostParameters[] = {
    {"clock_ghz", "GHz", 0.1, 10, &H::clock_ghz, "core clock"},
    {"turbo_few_ghz", "GHz", 0.1, 10, &H::turbo_few_ghz, "clock with one or two cores of a socket busy"},
    {"turbo_all_ghz", "GHz", 0.1, 10, &H::turbo_all_ghz, "clock with all of them busy, for which costs hold"},
    {"turbo_cores", "count", 3, 4096, &H::turbo_cores, "busy cores from which that is the clock"},
    {"post_wr_ns", "ns", 0, 10000, &H::post_wr_ns, "build one send WQE"},
    {"doorbell_ns", "ns", 0, 10000, &H::doorbell_ns,
     "doorbell record, barriers and an 8 B store to the device"},
    {"blueflame_ns", "ns", 0, 10000, &H::blueflame_ns,
     "added by each 64 B block copied to the device (BlueFlame)"},
    {"inline_block_ns", "ns", 0, 10000, &H::inline_block_ns, "copy one 64 B block of inline payload"},
    {"post_recv_ns", "ns", 0, 10000, &H::post_recv_ns, "build one RECV WQE"},
    {"poll_ns", "ns", 0, 10000, &H::poll_ns, "look at a completion queue, whatever is there"},
    {"poll_cqe_ns", "ns", 0, 10000, &H::poll_cqe_ns, "take one completion"},
    {"coroutine_switch_ns", "ns", 0, 10000, &H::coroutine_switch_ns, "resume a coroutine"},
    {"rpc_send_ns", "ns", 0, 10000, &H::rpc_send_ns, "build one RPC message"},
    {"poll_slot_ns", "ns", 0, 10000, &H::poll_slot_ns,
     "look whether a message has been written to a place in memory"},
    {"rpc_receive_ns", "ns", 0, 10000, &H::rpc_receive_ns,
     "take one RPC message apart and find who it is for"},
    {"index_lookup_ns", "ns", 0, 10000, &H::index_lookup_ns, "hash look-up in local memory"},
    {"cache_lookup_ns", "ns", 0, 10000, &H::cache_lookup_ns, "location cache look-up"},
    {"local_atomic_ns", "ns", 0, 10000, &H::local_atomic_ns, "CPU compare-and-swap on a shared word"},
    {"cores_per_socket", "count", 1, 4096, &H::cores_per_socket,
     "cores that share a socket, in the order of the worker threads"},
    {"lock_ns", "ns", 0, 10000, &H::lock_ns, "take a free lock that this core held last, and give it back"},
    {"lock_handover_ns", "ns", 0, 10000, &H::lock_handover_ns,
     "added where another core of the socket held it last"},
    {"lock_handover_far_ns", "ns", 0, 10000, &H::lock_handover_far_ns,
     "added where a core of another socket held it last"},
    {"copy_block_ns", "ns", 0, 10000, &H::copy_block_ns, "copy 64 B between buffers"},
    {"transaction_begin_ns", "ns", 0, 10000, &H::transaction_begin_ns, "draw and set up one transaction"},
    {"transaction_end_ns", "ns", 0, 10000, &H::transaction_end_ns, "tear one down"},
};

}  // namespace

std::span<const Parameter<NicProfile>> nic_parameters() {
  return kNicParameters;
}
std::span<const Parameter<HostProfile>> host_parameters() {
  return kHostParameters;
}

}  // namespace verbtwin::models
