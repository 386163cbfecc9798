// aster tune: plans of a program's kernels, searched for.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli.h"
#include "json.h"
#include "loaded_program.h"

namespace cli {
namespace {

double milliseconds_of(LoadedProgram& program) {
  using namespace std::chrono;
  const auto start = steady_clock::now();
  program.run();
  return duration<double, std::milli>(steady_clock::now() - start).count();
}

double median(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::vector<aster_ml_tuned> tuned_kernels(const Context& context) {
  size_t count = 0;
  check(aster_ml_codegen_count_tuned(&count, context.get()));
  std::vector<aster_ml_tuned> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i].struct_size = sizeof(out[i]);
    check(aster_ml_codegen_get_tuned(&out[i], context.get(), i));
  }
  std::sort(out.begin(), out.end(), [](const aster_ml_tuned& a, const aster_ml_tuned& b) {
    return a.planned_ns - a.best_ns > b.planned_ns - b.best_ns;
  });
  return out;
}

}  // namespace

int tune(const Arguments& arguments) {
  if (arguments.words.size() != 1)
    throw Failure{2, "tune needs one FILE, a portable program (.aster)"};
  const std::string& path = arguments.words[0];
  const int64_t runs = arguments.number("runs", 20, 1, 1000000);
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = static_cast<int32_t>(arguments.number("threads", 0, 0, 1024));
  Context plain, searching;
  check(aster_ml_context_init(plain.get(), &options));
  check(aster_ml_context_set_beam(plain.get(), 0));
  check(aster_ml_context_init(searching.get(), &options));
  check(aster_ml_context_set_beam(searching.get(),
                                  static_cast<int32_t>(arguments.number("beam", 4, 1, 64))));
  LoadedProgram planned(plain, path), found(searching, path);
  planned.run();
  found.run();
  std::vector<double> times[2];
  for (int64_t run = 0; run < runs; ++run) {
    times[0].push_back(milliseconds_of(planned));
    times[1].push_back(milliseconds_of(found));
  }
  const double before = median(times[0]), after = median(times[1]);
  const std::vector<aster_ml_tuned> kernels = tuned_kernels(searching);
  if (arguments.json) {
    std::string list;
    for (const aster_ml_tuned& one : kernels) {
      list += (list.empty() ? "" : ", ") + Json()
                                               .set("kernel", one.title)
                                               .set("planned_us", one.planned_ns / 1e3)
                                               .set("best_us", one.best_ns / 1e3)
                                               .set("plans", uint64_t{one.plans})
                                               .set("kept", uint64_t{one.kept != 0})
                                               .text();
    }
    std::printf("%s\n", Json()
                            .raw("kernels", "[" + list + "]")
                            .set("planned_ms", before)
                            .set("best_ms", after)
                            .text()
                            .c_str());
    return 0;
  }
  std::printf("%-52s %12s %12s %7s %6s\n", "kernel, by one thread", "planned us", "best us",
              "ratio", "plans");
  for (const aster_ml_tuned& one : kernels) {
    std::printf("%-52s %12.1f %12.1f %7.2f %6u%s\n", one.title, one.planned_ns / 1e3,
                one.best_ns / 1e3, one.planned_ns / std::max(one.best_ns, 1.0), one.plans,
                one.kept != 0 ? " (before)" : "");
  }
  std::printf("a run: %.3f ms by the planner's plans, %.3f ms by those found\n", before, after);
  return 0;
}

}  // namespace cli
