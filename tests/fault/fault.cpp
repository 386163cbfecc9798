#include "fault.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../sanitizers.h"

namespace fault {
namespace {

// Of how many requests that are to fail one does: under ASan, which takes thirty times as long,
// others fail than without it.
#ifdef ASTER_TEST_ASAN
constexpr int64_t kOneOf = 3;
#else
constexpr int64_t kOneOf = 1;
#endif

// Requests that fail after the first in the second mode, so that what cleans up is hit as well.
constexpr int64_t kBurst = 24;

int64_t setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : -1;
}
const int64_t kOnly = setting("ASTER_ML_FAULT_AT");
const bool kTrace = setting("ASTER_ML_FAULT_TRACE") > 0;

std::vector<void*> here() {
  std::vector<void*> stack(24);
  stack.resize(static_cast<size_t>(backtrace(stack.data(), static_cast<int>(stack.size()))));
  return stack;
}
void print(const std::vector<void*>& stack) {
  backtrace_symbols_fd(stack.data(), static_cast<int>(stack.size()), 2);
}

class Held {
 public:
  explicit Held(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Held() { flag_.clear(std::memory_order_release); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

Allocator::Allocator() {
  table.struct_size = sizeof(table);
  table.self = this;
  table.allocate = [](void* self, size_t bytes, size_t alignment) {
    return static_cast<Allocator*>(self)->allocate(bytes, alignment);
  };
  table.release = [](void* self, void* pointer, size_t bytes, size_t alignment) {
    static_cast<Allocator*>(self)->release(pointer, bytes, alignment);
  };
}

Allocator::~Allocator() {
  for (auto& entry : live_) std::free(entry.first);
}

void Allocator::fail(int64_t first, int64_t length) {
  first_ = requests_ + first;
  length_ = length;
}

void* Allocator::allocate(size_t bytes, size_t alignment) {
  const Held held(lock_);
  const int64_t number = requests_++;
  if (number >= first_ && number < first_ + length_) {
    ++failed_;
    if (kOnly >= 0 && failed_ == 1) print(here());
    return nullptr;
  }
  const size_t unit = std::max<size_t>(alignment, 16);
  void* pointer = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (pointer != nullptr)
    live_[pointer] = {bytes, alignment, number, kTrace ? here() : std::vector<void*>()};
  return pointer;
}

void Allocator::release(void* pointer, size_t bytes, size_t alignment) {
  const Held held(lock_);
  const auto found = live_.find(pointer);
  if (found == live_.end() || found->second.bytes != bytes ||
      found->second.alignment != alignment) {
    sound_ = false;
    if (kOnly >= 0) print(here());
    return;
  }
  live_.erase(found);
  std::free(pointer);
}

std::string Allocator::describe_live() const {
  std::string text;
  for (const auto& [pointer, request] : live_) {
    text +=
        " #" + std::to_string(request.number) + ": " + std::to_string(request.bytes) + " bytes;";
    if (kTrace)
      std::fprintf(stderr, "leaked #%lld\n", static_cast<long long>(request.number)),
          print(request.stack);
  }
  return text;
}

Pass::~Pass() {
  for (aster_ml_workspace& x : workspaces_) EXPECT_EQ(aster_ml_workspace_free(&x), 0);
  for (aster_ml_program& x : programs_) EXPECT_EQ(aster_ml_program_free(&x), 0);
  for (aster_ml_lazy& x : lazies_) EXPECT_EQ(aster_ml_lazy_free(&x), 0);
  for (aster_ml_optimizer& x : optimizers_) EXPECT_EQ(aster_ml_optimizer_free(&x), 0);
  for (aster_ml_layer& x : layers_) EXPECT_EQ(aster_ml_layer_free(&x), 0);
  for (aster_ml_state& x : states_) EXPECT_EQ(aster_ml_state_free(&x), 0);
  for (aster_ml_tensor& x : tensors_) EXPECT_EQ(aster_ml_tensor_free(&x), 0);
  for (aster_ml_buffer& x : buffers_) EXPECT_EQ(aster_ml_buffer_free(&x), 0);
}

bool Pass::check(const char* function, int32_t status) {
  if (status == ASTER_ML_OK) return true;
  if (failed_) return go_on_;  // what an empty handle makes of a call is its own affair
  failed_ = true;
  aster_ml_error error{};
  EXPECT_EQ(aster_ml_error_last(&error), 0);
  EXPECT_EQ(status, ASTER_ML_MEMORY)
      << function << ": " << error.message << " (" << error.file << ":" << error.line << ")";
  EXPECT_GT(memory_.failed(), 0) << function << " failed by itself: " << error.message;
  EXPECT_EQ(error.code, status);
  EXPECT_STREQ(error.function, function);
  EXPECT_STRNE(error.message, "");
  return go_on_;
}

namespace {

struct Outcome {
  bool hit = false;   // a request failed
  bool made = false;  // the context
  int64_t requests = 0;
  std::vector<float> values;
};

// A fresh context, the program under failures, then the same once more without.
Outcome attempt(const Body& body, aster_ml_context_options options, int64_t first, int64_t length,
                bool go_on) {
  auto memory = std::make_unique<Allocator>();
  Outcome out;
  options.struct_size = sizeof(options);
  options.allocator = &memory->table;
  options.arena_block_bytes = 1;  // every request to an arena is one to the allocator
  if (options.threads == 0) options.threads = 1;
  aster_ml_error_clear();
  memory->fail(first, length);
  aster_ml_context context{};
  {
    Pass run(context, *memory, go_on);
    if (run.check("aster_ml_context_init", aster_ml_context_init(&context, &options))) body(run);
    out.requests = memory->requests();
    out.hit = memory->failed() != 0;
    out.made = context.impl != nullptr;
    if (!run.failed()) out.values = run.values;
  }
  memory->fail(0, 0);
  if (out.hit && context.impl != nullptr) {
    aster_ml_error_clear();
    Pass run(context, *memory, false);
    body(run);
    EXPECT_FALSE(run.failed()) << "the context cannot be used any more";
    if (!out.values.empty()) {
      EXPECT_EQ(out.values, run.values) << "a run that a failure did not stop";
    }
    out.values = run.values;
  }
  EXPECT_EQ(aster_ml_context_free(&context), 0);
  EXPECT_TRUE(memory->sound()) << "memory was released that was not allocated like that";
  EXPECT_EQ(memory->live(), 0u) << "leaked" << memory->describe_live();
  if (memory->live() != 0) (void)memory.release();  // objects may still be used
  return out;
}

}  // namespace

void sweep(const Body& body, const aster_ml_context_options& options, int64_t most) {
  attempt(body, options, 0, 0, false);  // fills the disk cache
  const Outcome sound = attempt(body, options, 0, 0, false);
  ASSERT_FALSE(sound.hit);
  if (testing::Test::HasFailure()) return;
  const int64_t full = setting("ASTER_ML_FAULT_FULL");
  const int64_t step = full > 0 ? 1 : std::max<int64_t>(1, sound.requests / most) * kOneOf;
  int bad = 0;
  for (const bool burst : {false, true}) {
    int64_t tried = 0;
    for (int64_t n = burst ? step / 2 : 0;; n += step) {
      if (kOnly >= 0) n = kOnly;
      SCOPED_TRACE("request " + std::to_string(n) + " of " + std::to_string(sound.requests) +
                   (burst ? ", burst" : ""));
      if (kTrace)
        std::fprintf(stderr, "request %lld%s\n", static_cast<long long>(n), burst ? ", burst" : "");
      const Outcome out = attempt(body, options, n, burst ? kBurst : 1, burst);
      ++tried;
      if (out.made) {
        EXPECT_EQ(out.values, sound.values);
      }
      if (testing::Test::HasFailure() && ++bad >= 3) return;
      if (!out.hit || kOnly >= 0) break;
    }
    testing::Test::RecordProperty(burst ? "bursts" : "requests", std::to_string(tried));
  }
}

}  // namespace fault
