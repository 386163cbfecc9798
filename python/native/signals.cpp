// What the library asks and tells while a call runs without the GIL: signals, lines of its log.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

thread_local bool t_released;

// Asked while the library computes: whether a signal's handler has raised. Only the main thread
// runs handlers.
int32_t signal_raised(void*) {
  if (!t_released || syscall(SYS_gettid) != getpid()) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return raised ? 1 : 0;
}

struct Line {  // the text follows
  Line* next;
  char* text() { return reinterpret_cast<char*>(this + 1); }
};
std::atomic<Line*> g_lines{nullptr};  // the latest first

// Any thread, with or without the GIL: nothing of Python is touched.
void keep_line(void*, int32_t, const char* message) {
  const size_t bytes = std::strlen(message) + 1;
  Line* line = static_cast<Line*>(std::malloc(sizeof(Line) + bytes));
  if (line == nullptr) return;
  std::memcpy(line->text(), message, bytes);
  line->next = g_lines.load();
  while (!g_lines.compare_exchange_weak(line->next, line)) {
  }
}

}  // namespace

Released::Released() : thread_(PyEval_SaveThread()) { t_released = true; }
Released::~Released() {
  t_released = false;
  PyEval_RestoreThread(thread_);
}

const aster_ml_context_options* for_python(aster_ml_context_options* room,
                                           const aster_ml_context_options* given) {
  if (given == nullptr) *room = {};
  room->struct_size = sizeof(*room);
  room->should_cancel = signal_raised;
  room->log = keep_line;
  return room;
}

bool tell_lines() {
  if (g_lines.load(std::memory_order_relaxed) == nullptr || g.warn == nullptr) return true;
  Line* first = nullptr;
  for (Line* line = g_lines.exchange(nullptr); line != nullptr;) {
    Line* next = line->next;
    line->next = first;
    first = line;
    line = next;
  }
  bool told = true;
  while (first != nullptr) {
    Line* next = first->next;
    PyObject* text = told ? text_of(first->text()) : nullptr;
    PyObject* done =
        text == nullptr ? nullptr : PyObject_CallFunctionObjArgs(g.warn, text, nullptr);
    told = done != nullptr;
    Py_XDECREF(done);
    Py_XDECREF(text);
    std::free(first);
    first = next;
  }
  return told;
}

}  // namespace aster::python
