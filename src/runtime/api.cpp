// The public functions of aster_ml/runtime.h.
#include "aster_ml/runtime.h"

#include <algorithm>

#include "base/options.h"
#include "base/pool.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/limits.h"
#include "runtime/cpu/llvm_provider.h"
#include "runtime/state.h"

namespace aster::runtime {
namespace {

template <size_t N>
void copy(char (&out)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  out[size] = '\0';
}

Status fill(aster_ml_runtime_info* info, Context& context) {
  cpu::KernelLibrary* kernels = nullptr;
  ASTER_TRY(kernel_library(context, &kernels));
  info->threads = pool::threads_of(context);
  info->vector_bytes = kernels->features().vector_bytes;
  Text features(context.heap());
  cpu::write_features(features, kernels->features());
  ASTER_TRY(features.status());
  copy(info->cpu, features.view());
  const cpu::Llvm* const llvm = kernels->llvm();
  const cpu::CompilerInfo* compiler = nullptr;
  const SavedError before;
  const Status found = kernels->compiler(&compiler);
  if (llvm != nullptr) {
    copy(info->compiler, llvm->path);
    copy(info->compiler_version, "LLVM");
    if (!found.ok()) before.restore();
  } else if (found.ok()) {
    copy(info->compiler, compiler->path);
    copy(info->compiler_version, compiler->version);
  } else if (found.code != ASTER_ML_UNSUPPORTED) {
    return found;
  } else {
    before.restore();
  }
  const cpu::Blas& blas = cpu::blas();
  if (blas.available && context.options().no_library == 0) {
    copy(info->blas, blas.path);
    copy(info->blas_config, blas.config);
  }
  if (context.options().no_disk_cache != 0) return kOk;
  const cpu::Cache::Info cache = kernels->cache().info();
  copy(info->cache_dir, kernels->cache().path());
  if (const char* problem = kernels->cache().problem()) copy(info->cache_problem, problem);
  info->cache_entries = cache.entries;
  info->cache_bytes = cache.bytes;
  info->cache_limit = cache.limit;
  return kOk;
}

}  // namespace
}  // namespace aster::runtime

int32_t aster_ml_runtime_get(aster_ml_runtime_info* info, const aster_ml_context* context) {
  ASTER_ENTER(aster::context_of(context));
  if (info == nullptr || info->struct_size < sizeof(info->struct_size)) {
    return ASTER_FAIL(kARGUMENT, "info is null, or its struct_size is not set");
  }
  aster_ml_runtime_info all = {};
  ASTER_TRY(aster::runtime::fill(&all, *aster::context_of(context)));
  aster::write_struct(info, all);
  return aster::kOk;
}

int32_t aster_ml_runtime_measure(aster_ml_runtime_limits* limits, const aster_ml_context* context) {
  ASTER_ENTER(aster::context_of(context));
  if (limits == nullptr || limits->struct_size < sizeof(uint32_t))
    return ASTER_FAIL(kARGUMENT, "null limits, or struct_size not set");
  aster::Context& c = *aster::context_of(context);
  const int threads = aster::pool::threads_of(c);
  aster::runtime::cpu::Limits found;
  ASTER_TRY(aster::runtime::cpu::limits_of(&found, c, threads));
  aster_ml_runtime_limits now{};
  now.threads = threads;
  now.gflops = found.gflops;
  now.gbytes = found.gbytes;
  aster::write_struct(limits, now);
  return aster::kOk;
}

int32_t aster_ml_cache_clear(const aster_ml_context* context) {
  ASTER_ENTER(aster::context_of(context));
  aster::runtime::cpu::KernelLibrary* kernels = nullptr;
  ASTER_TRY(aster::runtime::kernel_library(*aster::context_of(context), &kernels));
  return kernels->cache().clear();
}
