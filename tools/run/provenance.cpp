#include "tools/run/provenance.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>

#include "calibration/profile_file.hpp"
#include "protocols/checks/history.hpp"
#include "scenarios/document.hpp"

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

}  // namespace

std::string program_name() {
  std::string build;
  dl_iterate_phdr(build_of_program, &build);
  return VERBTWIN_VERSION + (build.empty() ? "" : ", build " + build);
}

nlohmann::json file_digests(const scenarios::Cluster& c) {
  using calibration::ProfileKind;
  nlohmann::json digests = nlohmann::json::object();
  const auto add = [&digests](const char* field, const std::filesystem::path& file) {
    const std::string text = scenarios::read_text(file);
    digests[field] = fmt::format("{:016x}", protocols::value_digest(std::as_bytes(std::span(text))));
  };
  add("cluster.nic", calibration::find_profile(c.nic, ProfileKind::kNic));
  add("cluster.host", calibration::find_profile(c.host, ProfileKind::kHost));
  if (!c.sockets.empty()) add("cluster.sockets", calibration::find_profile(c.sockets, ProfileKind::kSocket));
  if (!c.network.platform.empty()) add("cluster.network.platform", c.network.platform);
  return digests;
}

bool is_outcome_of(const nlohmann::json& result, const scenarios::Scenario& scenario) {
  if (!result.is_object() || result.value("format", nlohmann::json()) != "verbtwin-result") return false;
  if (result.value("partial", nlohmann::json()) != false || result.contains("failure")) return false;
  const nlohmann::json simulator = result.value("simulator", nlohmann::json::object());
  return result.value("scenario", nlohmann::json()) == scenario.resolved && simulator.is_object() &&
         simulator.value("program", nlohmann::json()) == program_name() &&
         simulator.value("files", nlohmann::json()) == file_digests(scenario.cluster);
}

}  // namespace verbtwin::tools
