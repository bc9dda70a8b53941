// run_on_ibverbs() of a build without libibverbs.
#include "backend/user_error.hpp"
#include "tools/ranks/ibverbs_run.hpp"

namespace verbtwin::tools {

nlohmann::json run_on_ibverbs(const scenarios::Scenario&, const RankOptions&, const RunControl&) {
  throw UserError(
      "/backend",
      "this build has no libibverbs binding: install libibverbs-dev and ibverbs-providers, then build "
      "again; allowed: \"sim\"");
}

}  // namespace verbtwin::tools
