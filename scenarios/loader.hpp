// The loader: from a scenario file and overrides to a validated Scenario.
//
// Pure but for reading files; callable from any thread. Every error is a UserError whose message is one whole
// line: "file:line:column: /pointer: what is wrong; allowed: ...; did you mean ...", or with "--set
// path=value" as its place. Where several things are wrong, the first in the file is told.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/catalog.hpp"
#include "scenarios/document.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/scenario.hpp"

namespace verbtwin::scenarios {

/// `overrides` are "cluster.nodes=80", later ones win. Paths in the file are relative to the file, paths in
/// an override to the current directory.
Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog);

/// The same for a text at hand; the document's label stands for the file.
Scenario load_scenario(Document document, const std::vector<std::string>& overrides, const Catalog& catalog);

/// The same with overrides that have been read already; the document is shared by the points of a sweep.
Scenario resolve_scenario(std::shared_ptr<const Document> document, std::vector<Override> overrides,
                          const Catalog& catalog);

/// The same scenario with one more override, which wins.
Scenario with_override(const Scenario& scenario, Override override, const Catalog& catalog);

/// The one line to show for an error that was found after loading, while the run was put together: its
/// pointer becomes a place in the file or the override that set the value.
std::string describe(const Scenario& scenario, const UserError& error);

}  // namespace verbtwin::scenarios
