/* aster_ml::trace: what is compiled, run and computed, looked at; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_TRACE_HPP
#define ASTER_ML_CPP_TRACE_HPP

#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/trace.h"

namespace aster_ml {

/* Begins a trace of the current context in the place of one that is there; null ends it. */
inline bool trace(const aster_ml_trace_config* config) {
  const detail::Root root = Context::current().root();
  return detail::good(aster_ml_trace_configure(root.get(), config));
}

/* Names what this thread realises and replays while it lives (aster_ml_trace_scope_begin). */
class TraceScope {
 public:
  explicit TraceScope(const std::string& name)
      : open_(detail::good(aster_ml_trace_scope_begin(name.c_str()))) {}
  ~TraceScope() {
    if (open_) aster_ml_trace_scope_end();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  bool ok() const { return open_; }

 private:
  bool open_;
};

}  // namespace aster_ml
#endif
