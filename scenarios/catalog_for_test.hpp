// A small catalog for the tests of this folder.
#pragma once

#include "scenarios/catalog.hpp"

namespace verbtwin::scenarios {

inline Catalog test_catalog() {
  Catalog catalog;
  catalog.nics = {"connectx-4", "connectx-5"};
  catalog.hosts = {"xeon-e5-2650v4"};
  catalog.protocols = {{"fasst-occ", "every phase by RPC", nlohmann::json::object()},
                       {"drtmh", "hybrid of one-sided verbs and RPC", nlohmann::json::parse(R"({
    "properties": {
      "lock": {"description": "how records are locked", "type": "string", "enum": ["cas", "rpc"], "default": "cas"},
      "cache_bytes": {"description": "location cache", "type": "integer", "minimum": 0, "default": 1048576},
      "batching": {"description": "what is batched", "properties": {
        "doorbell": {"description": "one doorbell per batch", "type": "boolean", "default": true},
        "requests": {"description": "per message", "type": "integer", "minimum": 1, "maximum": 64, "default": 8}}},
      "odd": {"description": "a keyword that only the judge knows", "type": "integer", "multipleOf": 2, "default": 4}
    }})")}};
  catalog.workloads = {{"smallbank", "six small bank transactions", nlohmann::json::parse(R"({
    "properties": {
      "accounts_per_thread": {"description": "accounts", "type": "integer", "minimum": 1, "maximum": 1000000000,
                              "default": 100000},
      "hot_ratio": {"description": "share of hot accounts", "type": "number", "minimum": 0, "maximum": 1,
                    "default": 0.04},
      "weights": {"description": "mix", "type": "array", "items": {"type": "number", "minimum": 0},
                  "default": [1, 2]}
    }})")}};
  return catalog;
}

}  // namespace verbtwin::scenarios
