#include "tools/run/provenance.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "calibration/profile_file.hpp"
#include "protocols/checks/history.hpp"
#include "scenarios/document.hpp"
#include "scenarios/validate.hpp"
#include "sim/platform_file.hpp"
#include "sim/simgrid_options.hpp"

namespace verbtwin::tools {

namespace {

/// The notes of one segment; the build's number in hexadecimal digits, or nothing.
std::string build_in(std::span<const std::byte> notes) {
  const auto whole_words = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t at = sizeof note + whole_words(note.n_namesz);
    const std::size_t end = at + whole_words(note.n_descsz);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID) {
      std::string digits;
      for (const std::byte b : notes.subspan(at, note.n_descsz))
        digits += fmt::format("{:02x}", std::to_integer<unsigned>(b));
      return digits;
    }
    notes = notes.subspan(end);
  }
  return "";
}

/// dl_iterate_phdr() begins with the program itself.
int build_of_program(dl_phdr_info* program, std::size_t, void* build) {
  for (const ElfW(Phdr) & segment : std::span(program->dlpi_phdr, program->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(program->dlpi_addr + segment.p_vaddr);
    const std::string found = build_in({notes, segment.p_memsz});
    if (!found.empty()) *static_cast<std::string*>(build) = found;
  }
  return 1;
}

/// What every simulated run writes (tools/RESULT.md), and of what only some do its types: whoever shows a
/// result reads it without a further look.
constexpr const char* kWhole = R"({
  "definitions": {
    "count": {"type": "integer", "minimum": 0},
    "amount": {"type": "number", "minimum": 0},
    "ratio": {"type": ["number", "null"]},
    "counts": {"type": "object", "additionalProperties": {"$ref": "#/definitions/count"}},
    "latency": {"type": "object", "required": ["mean", "p50", "p90", "p99", "p999", "max"],
      "additionalProperties": {"$ref": "#/definitions/amount"}},
    "phases": {"type": "object", "additionalProperties": {"type": "object",
      "required": ["count", "p50_us", "mean_us"],
      "additionalProperties": {"$ref": "#/definitions/amount"}}}
  },
  "required": ["version", "backend", "seed", "window_us", "latency_us", "latency_quantiles_us", "verbs",
    "datagrams_dropped", "packets_lost", "ack_timeouts", "resources", "bottleneck", "checks", "simulator"],
  "anyOf": [
    {"required": ["committed", "committed_per_s", "user_aborts", "aborted_attempts", "abort_ratio", "aborts",
      "phases", "transactions"]},
    {"required": ["operations", "operations_failed", "operations_per_s", "machines"]}
  ],
  "properties": {
    "version": {"const": 1}, "backend": {"const": "sim"},
    "seed": {"$ref": "#/definitions/count"}, "run_index": {"$ref": "#/definitions/count"},
    "window_us": {"$ref": "#/definitions/amount"},
    "latency_us": {"$ref": "#/definitions/latency"},
    "latency_quantiles_us": {"type": "object", "propertyNames": {"pattern": "^[01](\\.[0-9]+)?$"},
      "additionalProperties": {"$ref": "#/definitions/amount"}},
    "latency_uncorrected_us": {"$ref": "#/definitions/latency"},
    "latency_uncorrected_quantiles_us": {"type": "object", "propertyNames": {"pattern": "^[01](\\.[0-9]+)?$"},
      "additionalProperties": {"$ref": "#/definitions/amount"}},
    "verbs": {"type": "object", "required": ["read", "write", "compare_swap", "fetch_add", "send", "recv"],
      "additionalProperties": {"type": "object", "required": ["count", "bytes"],
        "additionalProperties": {"$ref": "#/definitions/count"}}},
    "datagrams_dropped": {"$ref": "#/definitions/count"}, "packets_lost": {"$ref": "#/definitions/count"},
    "ack_timeouts": {"$ref": "#/definitions/count"},
    "resources": {"type": "array", "minItems": 1, "items": {"type": "object",
      "required": ["name", "utilization_mean", "utilization_max"],
      "properties": {"name": {"type": "string"},
        "utilization_mean": {"$ref": "#/definitions/amount"},
        "utilization_max": {"$ref": "#/definitions/amount"},
        "utilization_servers": {"$ref": "#/definitions/amount"},
        "utilization_clients": {"$ref": "#/definitions/amount"},
        "hit_ratio": {"$ref": "#/definitions/ratio"}, "hit_ratio_min": {"$ref": "#/definitions/ratio"}}}},
    "bottleneck": {"type": "object", "required": ["resource"],
      "properties": {"resource": {"type": "string"}, "busiest": {"type": "string"},
        "utilization": {"$ref": "#/definitions/amount"}, "role": {"type": "string"},
        "fullest": {"type": "boolean"}, "waiting_share": {"$ref": "#/definitions/amount"},
        "retry_share": {"$ref": "#/definitions/amount"},
        "also": {"type": "array", "items": {"type": "object", "required": ["resource", "utilization"],
          "properties": {"resource": {"type": "string"}, "utilization": {"$ref": "#/definitions/amount"}}}}}},
    "checks": {"type": "array", "items": {"type": "object",
      "required": ["name", "violations", "examples"],
      "properties": {"name": {"type": "string"}, "transactions": {"$ref": "#/definitions/count"},
        "violations": {"$ref": "#/definitions/count"}, "examples": {"type": "array"},
        "allowed": {"$ref": "#/definitions/counts"}}}},
    "warning": {"type": "array", "items": {"type": "string"}},
    "offered": {"$ref": "#/definitions/count"},
    "simulator": {"required": ["events", "setup_s", "wall_s", "events_per_s", "transactions_per_wall_s",
        "peak_rss_mib"],
      "properties": {"events": {"$ref": "#/definitions/count"}, "setup_s": {"$ref": "#/definitions/amount"},
        "wall_s": {"$ref": "#/definitions/amount"}, "events_per_s": {"$ref": "#/definitions/amount"},
        "transactions_per_wall_s": {"$ref": "#/definitions/amount"},
        "peak_rss_mib": {"$ref": "#/definitions/amount"}}},
    "committed": {"$ref": "#/definitions/count"}, "committed_per_s": {"$ref": "#/definitions/amount"},
    "user_aborts": {"$ref": "#/definitions/count"}, "aborted_attempts": {"$ref": "#/definitions/count"},
    "abort_ratio": {"$ref": "#/definitions/amount"}, "aborts": {"$ref": "#/definitions/counts"},
    "phases": {"$ref": "#/definitions/phases"},
    "transactions": {"type": "object", "additionalProperties": {"type": "object",
      "required": ["committed", "user_aborts", "latency_us", "phases"],
      "properties": {"committed": {"$ref": "#/definitions/count"},
        "user_aborts": {"$ref": "#/definitions/count"},
        "latency_us": {"$ref": "#/definitions/latency"}, "phases": {"$ref": "#/definitions/phases"}}}},
    "location_cache": {"type": "object", "properties": {"hit_ratio": {"$ref": "#/definitions/ratio"}}},
    "operations": {"$ref": "#/definitions/count"}, "operations_failed": {"$ref": "#/definitions/count"},
    "operations_per_s": {"$ref": "#/definitions/amount"}, "machines": {"type": "integer", "minimum": 1}
  }
})";

bool is_whole(const nlohmann::json& result, const scenarios::Scenario& scenario) {
  static const nlohmann::json schema = nlohmann::json::parse(kWhole);
  const bool has_offered = scenario.run.offered_per_s == 0 ||
                           (result.contains("offered") && result.contains("latency_uncorrected_us") &&
                            result.contains("latency_uncorrected_quantiles_us"));
  return has_offered && !scenarios::judge(result, schema);
}

}  // namespace

std::string program_name() {
  std::string build;
  dl_iterate_phdr(build_of_program, &build);
  return VERBTWIN_VERSION + (build.empty() ? "" : ", build " + build);
}

nlohmann::json file_digests(const scenarios::Cluster& c) {
  using calibration::ProfileKind;
  nlohmann::json digests = nlohmann::json::object();
  const auto add = [&digests](const char* field, const std::filesystem::path& file,
                              const std::set<std::filesystem::path>& more = {}) {
    std::string text = scenarios::read_text(file);
    for (const std::filesystem::path& other : more) text += '\0' + scenarios::read_text(other);
    digests[field] = fmt::format("{:016x}", protocols::value_digest(std::as_bytes(std::span(text))));
  };
  add("cluster.nic", calibration::find_profile(c.nic, ProfileKind::kNic));
  add("cluster.host", calibration::find_profile(c.host, ProfileKind::kHost));
  if (!c.sockets.empty()) add("cluster.sockets", calibration::find_profile(c.sockets, ProfileKind::kSocket));
  const std::string& platform = c.network.platform;
  if (!platform.empty())
    add("cluster.network.platform", platform, sim::read_platform_file(platform).profiles);
  return digests;
}

bool is_outcome_of(const nlohmann::json& result, const scenarios::Scenario& scenario) {
  if (!result.is_object() || result.value("format", nlohmann::json()) != "verbtwin-result") return false;
  if (result.value("partial", nlohmann::json()) != false || result.contains("failure")) return false;
  const nlohmann::json simulator = result.value("simulator", nlohmann::json::object());
  return result.value("scenario", nlohmann::json()) == scenario.resolved && simulator.is_object() &&
         simulator.value("program", nlohmann::json()) == program_name() &&
         simulator.value("files", nlohmann::json()) == file_digests(scenario.cluster) &&
         simulator.value("simgrid_cfg", nlohmann::json::array()) == nlohmann::json(sim::simgrid_cfg()) &&
         is_whole(result, scenario);
}

}  // namespace verbtwin::tools
