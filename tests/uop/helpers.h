// What the tests of this module share: a second evaluator of scalars, and allocators that fail.
#pragma once

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "uop/uop.h"

namespace aster::uop::test {

__extension__ typedef __int128 Wide;
using Env = std::map<Node, int64_t>;

// Integer scalars, written from the meanings in ops.def rather than from its values.
inline int64_t value_of(Node x, const Env& env) {
  const auto at = [&](size_t i) { return value_of(x->src(i), env); };
  const auto u = [&](size_t i) { return static_cast<uint64_t>(at(i)); };
  const auto floordiv = [](Wide a, Wide b) -> int64_t {
    if (b == 0) return 0;
    Wide q = a / b;
    if (q * b != a && (a < 0) != (b < 0)) --q;
    return static_cast<int64_t>(static_cast<uint64_t>(q));
  };
  if (auto found = env.find(x); found != env.end()) return found->second;
  const std::string name = info(x->op).name;
  if (name == "Const") return x->arg(0);
  if (name == "Cast") return at(0);
  if (name == "Neg") return static_cast<int64_t>(-u(0));
  if (name == "Not") return x->dtype == DType::kBool ? !at(0) : ~at(0);
  if (name == "Where") return at(0) != 0 ? at(1) : at(2);
  if (name == "Add") return static_cast<int64_t>(u(0) + u(1));
  if (name == "Sub") return static_cast<int64_t>(u(0) - u(1));
  if (name == "Mul") return static_cast<int64_t>(u(0) * u(1));
  if (name == "Max") return std::max(at(0), at(1));
  if (name == "Min") return std::min(at(0), at(1));
  if (name == "And") return at(0) & at(1);
  if (name == "Or") return at(0) | at(1);
  if (name == "Xor") return at(0) ^ at(1);
  if (name == "CmpLt") return at(0) < at(1);
  if (name == "CmpLe") return at(0) <= at(1);
  if (name == "CmpEq") return at(0) == at(1);
  if (name == "CmpNe") return at(0) != at(1);
  if (name == "FloorDiv") return floordiv(at(0), at(1));
  if (name == "FloorMod") {
    const Wide a = at(0), b = at(1);
    if (b == 0) return at(0);
    const Wide r = a % b;
    return static_cast<int64_t>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
  if (name == "CDiv") {
    const Wide a = at(0), b = at(1);
    return b == 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a / b));
  }
  if (name == "CMod") {
    const Wide a = at(0), b = at(1);
    return b == 0 ? at(0) : static_cast<int64_t>(a % b);
  }
  std::fprintf(stderr, "value_of: %s\n", name.c_str());
  std::abort();
}

// Every assignment of ranges to their values, at most limit of them (then random ones).
template <typename F>
void for_each_point(const std::vector<Node>& ranges, std::mt19937_64& random, size_t limit, F&& f) {
  size_t total = 1;
  for (Node r : ranges) {
    total = std::min<size_t>(total * static_cast<size_t>(r->arg(1)), limit * 16);
  }
  Env env;
  for (size_t point = 0; point < std::min(total, limit); ++point) {
    size_t rest = point;
    for (Node r : ranges) {
      const size_t size = static_cast<size_t>(r->arg(1));
      env[r] = static_cast<int64_t>(total <= limit ? rest % size : random() % size);
      rest /= size;
    }
    f(env);
  }
}

// Fails the request numbered `fail_at` (from 1); counts what is held.
struct FailingAllocator {
  size_t requests = 0, fail_at = 0, held = 0;
  aster_ml_allocator table{sizeof(aster_ml_allocator), this, allocate, release};

  static void* allocate(void* self, size_t bytes, size_t alignment) {
    auto* a = static_cast<FailingAllocator*>(self);
    if (++a->requests == a->fail_at) return nullptr;
    void* p = nullptr;
    if (posix_memalign(&p, std::max<size_t>(alignment, sizeof(void*)), bytes + 1) != 0)
      return nullptr;
    a->held += bytes;
    return p;
  }
  static void release(void* self, void* pointer, size_t bytes, size_t) {
    static_cast<FailingAllocator*>(self)->held -= bytes;
    std::free(pointer);
  }
};

}  // namespace aster::uop::test
