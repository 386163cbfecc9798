// Graphs from the text that aster_ml_uop_print writes.
#pragma once

#include <string>

#include "cli.h"

namespace cli {

// A node of a context, released at the end.
class OwnedUop {
 public:
  OwnedUop(const aster_ml_context* context, const aster_ml_uop* node)
      : context_(context), node_(node) {}
  OwnedUop(OwnedUop&& other) noexcept
      : context_(other.context_), node_(std::exchange(other.node_, nullptr)) {}
  OwnedUop& operator=(OwnedUop&&) = delete;
  ~OwnedUop() {
    if (node_ != nullptr) aster_ml_uop_release(context_, node_);
  }
  const aster_ml_uop* get() const { return node_; }

 private:
  const aster_ml_context* context_;
  const aster_ml_uop* node_;
};

// The node of the last line. Buffers become Params after those of the text; calls are replaced by
// their bodies. name: of the file, for Failures, which name the line too.
OwnedUop read_graph(const aster_ml_context* context, const std::string& text,
                    const std::string& name);

}  // namespace cli
