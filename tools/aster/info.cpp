// aster info, aster cache info, aster cache clear.
#include <cstdio>
#include <limits>
#include <sstream>

#include "cli.h"
#include "json.h"

namespace cli {
namespace {

struct Machine {
  Machine() {
    check(aster_ml_context_init(context.get(), nullptr));
    found.struct_size = sizeof(found);
    check(aster_ml_runtime_get(&found, context.get()));
  }
  Context context;
  aster_ml_runtime_info found{};
};

// Devices with a name from the start that memory can be allocated on.
std::vector<std::string> devices() {
  std::vector<std::string> out;
  for (const int32_t device : {ASTER_ML_DEVICE_CPU, ASTER_ML_DEVICE_OPENCL,
                               ASTER_ML_DEVICE_REFERENCE, ASTER_ML_DEVICE_CUDA}) {
    char name[48];
    if (aster_ml_device_is_available(device) == 0) continue;
    check(aster_ml_device_to_name(name, sizeof(name), device));
    out.emplace_back(name);
  }
  return out;
}

// What OpenCL's devices tell of themselves, one after another.
std::vector<aster_ml_device_info> opencl_devices() {
  std::vector<aster_ml_device_info> out;
  for (int32_t device = ASTER_ML_DEVICE_OPENCL; aster_ml_device_is_available(device) != 0;
       ++device) {
    aster_ml_device_info info{};
    info.struct_size = sizeof(info);
    check(aster_ml_device_describe(&info, device));
    out.push_back(info);
  }
  return out;
}

std::string opencl_text(const aster_ml_device_info& info) {
  const auto has = [&](uint32_t flag, const char* name) {
    return (info.flags & flag) != 0 ? std::string(", ") + name : std::string();
  };
  return std::string(info.name) + " (" + info.driver + "): " + std::to_string(info.compute_units) +
         " units, vectors of " + std::to_string(info.vector_bytes) + " bytes, " +
         megabytes(info.memory_bytes) + has(ASTER_ML_DEVICE_FP64, "fp64") +
         has(ASTER_ML_DEVICE_FP16, "fp16") + has(ASTER_ML_DEVICE_FMA, "fma") +
         has(ASTER_ML_DEVICE_UNIFIED, "the host's memory") +
         has(ASTER_ML_DEVICE_OUT_OF_ORDER, "out of order");
}

std::string opencl_json(const std::vector<aster_ml_device_info>& all) {
  std::string out;
  for (const aster_ml_device_info& info : all) {
    Json one;
    one.set("name", info.name).set("driver", info.driver);
    one.set("compute_units", info.compute_units).set("vector_bytes", info.vector_bytes);
    one.set("memory_bytes", info.memory_bytes).set("local_bytes", info.local_bytes);
    one.set("fp64", (info.flags & ASTER_ML_DEVICE_FP64) != 0);
    one.set("fp16", (info.flags & ASTER_ML_DEVICE_FP16) != 0);
    out += (out.empty() ? "" : ", ") + one.text();
  }
  return "[" + out + "]";
}

const char* or_none(const char* text) { return text[0] == '\0' ? "none" : text; }

Json cache_json(const aster_ml_runtime_info& found) {
  Json out;
  out.set("path", found.cache_dir).set("entries", found.cache_entries);
  out.set("bytes", found.cache_bytes).set("limit_bytes", found.cache_limit);
  return out.set("problem", found.cache_problem);
}

std::string cache_text(const aster_ml_runtime_info& found) {
  if (found.cache_dir[0] == '\0') return "none";
  std::string out = std::string(found.cache_dir) + ": " + std::to_string(found.cache_entries) +
                    " files, " + megabytes(found.cache_bytes) + " of " +
                    megabytes(found.cache_limit);
  if (found.cache_problem[0] != '\0')
    out += std::string(" (not used: ") + found.cache_problem + ")";
  return out;
}

// What a device is taken to do well, a line a number: its name, the number, what it is.
int model(const std::string& name, bool json) {
  const Machine machine;
  int32_t device = 0;
  check(aster_ml_device_from_name(&device, name.c_str()));
  const std::string text = text_of([&](char* out, size_t* length, size_t capacity) {
    return aster_ml_codegen_model(out, length, capacity, machine.context.get(), device);
  });
  if (!json) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  Json numbers;
  std::istringstream lines(text);
  std::string key, number;
  while (lines >> key >> number && lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    numbers.raw(key, number);
  std::printf("%s\n", Json().set("device", name).raw("model", numbers.text()).text().c_str());
  return 0;
}

}  // namespace

int info(const Arguments& arguments) {
  if (arguments.has("model")) return model(arguments.get("model", ""), arguments.json);
  const Machine machine;
  const aster_ml_runtime_info& found = machine.found;
  std::string names, quoted;
  for (const std::string& device : devices()) {
    names += (names.empty() ? "" : ", ") + device;
    quoted += (quoted.empty() ? "" : ", ") + Json::quote(device);
  }
  if (arguments.json) {
    Json out;
    out.set("version", aster_ml_version()).set("cpu_features", found.cpu);
    out.set("vector_bytes", found.vector_bytes).set("threads", found.threads);
    out.raw("devices", "[" + quoted + "]").raw("opencl", opencl_json(opencl_devices()));
    Json compiler, blas;
    compiler.set("path", found.compiler).set("version", found.compiler_version);
    blas.set("path", found.blas).set("config", found.blas_config);
    out.raw("compiler", compiler.text()).raw("blas", blas.text());
    std::printf("%s\n", out.raw("cache", cache_json(found).text()).text().c_str());
    return 0;
  }
  std::printf("aster_ml  %s\n", aster_ml_version());
  std::printf("CPU       %s\n", found.cpu);
  std::printf("vectors   %d bytes\n", found.vector_bytes);
  std::printf("threads   %d\n", found.threads);
  std::printf("devices   %s\n", names.c_str());
  int index = 0;
  for (const aster_ml_device_info& one : opencl_devices()) {
    std::printf("OPENCL:%d  %s\n", index++, opencl_text(one).c_str());
  }
  std::printf("compiler  %s%s%s\n", or_none(found.compiler),
              found.compiler[0] == '\0' ? "; kernels are interpreted" : ": ",
              found.compiler_version);
  std::printf("BLAS      %s%s%s\n", or_none(found.blas), found.blas[0] == '\0' ? "" : ": ",
              found.blas_config);
  std::printf("cache     %s\n", cache_text(found).c_str());
  return 0;
}

int cache_info(const Arguments& arguments) {
  const Machine machine;
  const std::string text =
      arguments.json ? cache_json(machine.found).text() : cache_text(machine.found);
  std::printf("%s\n", text.c_str());
  return 0;
}

int cache_clear(const Arguments& arguments) {
  Machine machine;
  check(aster_ml_cache_clear(machine.context.get()));
  const aster_ml_runtime_info before = machine.found;
  check(aster_ml_runtime_get(&machine.found, machine.context.get()));
  const uint64_t entries = before.cache_entries - machine.found.cache_entries;
  if (arguments.json) {
    Json out;
    out.set("path", before.cache_dir).set("removed_entries", entries);
    out.set("removed_bytes", before.cache_bytes - machine.found.cache_bytes);
    std::printf("%s\n", out.text().c_str());
  } else {
    std::printf("%s: %llu files removed\n", or_none(before.cache_dir),
                static_cast<unsigned long long>(entries));
  }
  return 0;
}

}  // namespace cli
