#include "scenarios/schema.hpp"

namespace verbtwin::scenarios {

// clang-format off
std::string_view scenario_schema_text() {
  return R"json({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "verbtwin scenario",
  "description": "One run: a cluster, a protocol, a workload, what to measure. `verbtwin schema` prints this schema with the names and parameters of every protocol and workload filled in.",
  "type": "object",
  "additionalProperties": false,
  "required": ["cluster", "protocol", "workload"],
  "properties": {
    "$schema": {
      "description": "This schema, so that editors complete and check the file.",
      "type": "string",
      "maxLength": 4096
    },
    "name": {
      "description": "What reports call the run; empty: the file's name without its ending.",
      "type": "string",
      "maxLength": 200,
      "default": ""
    },
    "description": {
      "description": "Free text for readers.",
      "type": "string",
      "maxLength": 10000,
      "default": ""
    },
    "backend": {
      "description": "Where the run takes place: on simulated hardware or on real verbs.",
      "type": "string",
      "enum": ["sim", "ibverbs"],
      "default": "sim"
    },
    "cluster": {
      "description": "The machines and what joins them.",
      "type": "object",
      "additionalProperties": false,
      "required": ["nodes"],
      "properties": {
        "nodes": {
          "description": "Machines.",
          "type": "integer",
          "minimum": 1,
          "maximum": 4096
        },
        "threads": {
          "description": "Worker threads per machine, one core each.",
          "type": "integer",
          "minimum": 1,
          "maximum": 256,
          "default": 24
        },
        "coroutines": {
          "description": "Transactions in flight per thread: worker coroutines, the scheduler not counted.",
          "type": "integer",
          "minimum": 1,
          "maximum": 1024,
          "default": 8
        },
        "replicas": {
          "description": "Copies of each record, the primary counted; at most `nodes`.",
          "type": "integer",
          "minimum": 1,
          "maximum": 16,
          "default": 3
        },
        "nic": {
          "description": "NIC profile: a name that `verbtwin list` shows, or a path ending in .json (in the file: relative to the file).",
          "type": "string",
          "minLength": 1,
          "maxLength": 4096,
          "default": "connectx-4"
        },
        "nics_per_node": {
          "description": "NICs per machine; threads are dealt to them in equal blocks; at most `threads`.",
          "type": "integer",
          "minimum": 1,
          "maximum": 8,
          "default": 2
        },
        "host": {
          "description": "Host profile: a name that `verbtwin list` shows, or a path ending in .json (in the file: relative to the file).",
          "type": "string",
          "minLength": 1,
          "maxLength": 4096,
          "default": "xeon-e5-2650v4"
        },
        "qps_per_peer": {
          "description": "RC queue pairs from each thread to each remote NIC.",
          "type": "integer",
          "minimum": 1,
          "maximum": 64,
          "default": 1
        },
        "network": {
          "description": "The fabric: a topology made from the fields below, or a SimGrid platform file.",
          "type": "object",
          "additionalProperties": false,
          "default": {},
          "properties": {
            "topology": {
              "description": "Shape of the fabric; star: every NIC port on one switch.",
              "type": "string",
              "enum": ["star"],
              "default": "star"
            },
            "platform": {
              "description": "SimGrid platform XML (in the file: relative to the file) in place of a topology; its hosts, in file order, become the nodes. Empty: none.",
              "type": "string",
              "maxLength": 4096,
              "default": ""
            },
            "model": {
              "description": "How messages cross the fabric; fifo: packets queue on each link; simgrid: one SimGrid communication per message (slow, for cross-checks on small clusters).",
              "type": "string",
              "enum": ["fifo", "simgrid"],
              "default": "fifo"
            },
            "link_gbps": {
              "description": "Data rate of each link; 0: the NIC's own.",
              "type": "number",
              "minimum": 0,
              "maximum": 1600,
              "default": 0
            },
            "cable_ns": {
              "description": "Propagation delay of one cable.",
              "type": "number",
              "minimum": 0,
              "maximum": 1000000,
              "default": 25
            },
            "switch_ns": {
              "description": "Latency of one switch, port to port, without serialisation.",
              "type": "number",
              "minimum": 0,
              "maximum": 1000000,
              "default": 130
            }
          }
        }
      }
    },
    "protocol": {
      "description": "The transaction protocol: its name, and beside it the parameters of that protocol.",
      "type": "object",
      "additionalProperties": true,
      "required": ["name"],
      "properties": {
        "name": {
          "description": "A protocol that `verbtwin list` shows.",
          "type": "string"
        }
      }
    },
    "workload": {
      "description": "What the transactions do: the workload's name, and beside it the parameters of that workload.",
      "type": "object",
      "additionalProperties": true,
      "required": ["name"],
      "properties": {
        "name": {
          "description": "A workload that `verbtwin list` shows.",
          "type": "string"
        }
      }
    },
    "run": {
      "description": "What to measure and what to check.",
      "type": "object",
      "additionalProperties": false,
      "default": {},
      "properties": {
        "warmup_us": {
          "description": "Time before the measured window.",
          "type": "number",
          "minimum": 0,
          "maximum": 1000000000,
          "default": 200
        },
        "measure_us": {
          "description": "Length of the measured window.",
          "type": "number",
          "exclusiveMinimum": 0,
          "maximum": 1000000000,
          "default": 1000
        },
        "seed": {
          "description": "Seed of every random choice; the same scenario and seed give the same result.",
          "type": "integer",
          "minimum": 0,
          "maximum": 9223372036854775807,
          "default": 1
        },
        "check": {
          "description": "Isolation to check at the end of the run.",
          "type": "string",
          "enum": ["serializable", "none"],
          "default": "serializable"
        }
      }
    }
  }
}
)json";
}
// clang-format on

const nlohmann::json& scenario_schema() {
  static const nlohmann::json schema = nlohmann::json::parse(scenario_schema_text());
  return schema;
}

}  // namespace verbtwin::scenarios
