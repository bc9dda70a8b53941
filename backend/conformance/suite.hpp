// The verbs conformance suite: what protocols rely on, checked through backend/verbs.hpp alone. To be
// included by one file of a test program, which names the bindings to run it on (see binding.hpp).
#pragma once

// IWYU pragma: begin_exports
#include "backend/conformance/atomics.hpp"
#include "backend/conformance/datagrams.hpp"
#include "backend/conformance/errors.hpp"
#include "backend/conformance/life_cycle.hpp"
#include "backend/conformance/messages.hpp"
#include "backend/conformance/ordering.hpp"
#include "backend/conformance/posting.hpp"
#include "backend/conformance/receivers.hpp"
// IWYU pragma: end_exports
