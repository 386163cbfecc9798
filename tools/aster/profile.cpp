// aster profile: where the time of a portable program goes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

#include "cli.h"
#include "json.h"
#include "loaded_program.h"
#include "page.h"

namespace cli {
namespace {

constexpr const char kPage[] =
#include "profile_page.inc"
    ;

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

struct Launch {
  std::string name, device, stored;
  double start, us;
  uint64_t operations, bytes, held;
  int32_t operands, replayed;
};
struct Launches {
  double began = 0;
  int64_t run = 0;
  std::vector<Launch> all;
  std::vector<int64_t> runs;  // of each launch
  static void add(void* self, const aster_ml_launch* launch) {
    auto& to = *static_cast<Launches*>(self);
    char device[48] = "";
    aster_ml_device_to_name(device, sizeof(device), launch->device);
    const double us = static_cast<double>(launch->nanoseconds) / 1e3;
    to.all.push_back({launch->name, device, launch->cut, now_us() - us - to.began, us,
                      launch->operations, launch->bytes, launch->held_bytes, launch->operands,
                      launch->replayed});
    to.runs.push_back(to.run);
  }
};

std::string launches_json(const Launches& launches) {
  std::string out = "[";
  for (size_t i = 0; i < launches.all.size(); ++i) {
    const Launch& l = launches.all[i];
    char numbers[200];
    std::snprintf(numbers, sizeof(numbers), ", %.3f, %.3f, %llu, %llu, %llu, ", l.start, l.us,
                  static_cast<unsigned long long>(l.operations),
                  static_cast<unsigned long long>(l.bytes),
                  static_cast<unsigned long long>(l.held));
    out += (i == 0 ? "[" : ", [") + Json::quote(l.name) + numbers + Json::quote(l.device) + ", " +
           std::to_string(l.operands) + ", " + (l.replayed != 0 ? "true" : "false") +
           ", \"\", \"run " + std::to_string(launches.runs[i]) + "\", " + Json::quote(l.stored) +
           "]";
  }
  return out + "]";
}

std::string chrome_json(const Launches& launches) {
  std::string out = "{\"traceEvents\": [";
  for (size_t i = 0; i < launches.all.size(); ++i) {
    const Launch& l = launches.all[i];
    char text[160];
    std::snprintf(text, sizeof(text),
                  ", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": 1, \"tid\": 1}", l.start,
                  l.us);
    out += std::string(i == 0 ? "" : ", ") + "{\"name\": " + Json::quote(l.name) + text;
  }
  return out + "]}\n";
}

void print_table(const Launches& launches, const aster_ml_runtime_limits& limits, bool json) {
  struct Row {
    std::string name, stored;
    uint64_t calls = 0, operations = 0, bytes = 0;
    double us = 0;
  };
  std::map<std::string, Row> by_name;
  double busy = 0;
  for (const Launch& l : launches.all) {
    Row& row = by_name[l.name];
    row.name = l.name;
    row.stored = l.stored;
    ++row.calls;
    row.operations += l.operations;
    row.bytes += l.bytes;
    row.us += l.us;
    busy += l.us;
  }
  std::vector<Row> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.us > b.us; });
  std::string list;
  if (!json)
    std::printf("%-44s %6s %10s %6s %10s %9s %8s %7s  %s\n", "kernel", "calls", "ms", "%",
                "mean us", "GFLOP/s", "GB/s", "% limit", "why it is stored");
  for (const Row& row : rows) {
    const double us = std::max(row.us, 1e-9),
                 flops = static_cast<double>(row.operations) / us / 1e3,
                 rate = static_cast<double>(row.bytes) / us / 1e3,
                 limit = 100 * std::max(flops / limits.gflops, rate / limits.gbytes);
    if (json) {
      list += (list.empty() ? "" : ", ") + Json()
                                               .set("kernel", row.name)
                                               .set("calls", row.calls)
                                               .set("ms", row.us / 1e3)
                                               .set("gflops", flops)
                                               .set("gbs", rate)
                                               .set("limit", limit)
                                               .set("stored", row.stored)
                                               .set("bytes", row.bytes)
                                               .text();
    } else {
      std::printf("%-44s %6llu %10.3f %6.1f %10.1f %9.1f %8.1f %7.1f  %s\n", row.name.c_str(),
                  static_cast<unsigned long long>(row.calls), row.us / 1e3,
                  busy > 0 ? 100 * row.us / busy : 0, row.us / static_cast<double>(row.calls),
                  flops, rate, limit, row.stored.c_str());
    }
  }
  if (!json)
    std::printf("limits with %d threads: %.1f GFLOP/s (float32), %.1f GB/s\n", limits.threads,
                limits.gflops, limits.gbytes);
  if (json) std::printf("%s\n", Json().raw("kernels", "[" + list + "]").text().c_str());
}

}  // namespace

int profile(const Arguments& arguments) {
  if (arguments.words.size() != 1)
    throw Failure{2, "profile needs one FILE, a portable program (.aster)"};
  const std::string& path = arguments.words[0];
  const int64_t runs = arguments.number("runs", 10, 1, 1000000);
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = static_cast<int32_t>(arguments.number("threads", 0, 0, 1024));
  Context context;
  check(aster_ml_context_init(context.get(), &options));
  LoadedProgram program(context, path);
  const auto run = [&] { program.run(); };
  run();  // the first one takes what is not in the caches
  Launches launches;
  check(aster_ml_engine_trace(context.get(), Launches::add, &launches));
  launches.began = now_us();
  for (; launches.run < runs; ++launches.run) run();
  check(aster_ml_engine_trace(context.get(), nullptr, nullptr));
  aster_ml_runtime_limits limits{};
  limits.struct_size = sizeof(limits);
  check(aster_ml_runtime_measure(&limits, context.get()));
  if (arguments.has("trace")) NewFile(arguments.values.at("trace")).write(chrome_json(launches));
  if (arguments.has("html")) {
    const std::string data = Json()
                                 .set("title", path)
                                 .raw("launches", launches_json(launches))
                                 .raw("totals", Json().set("runs", std::to_string(runs)).text())
                                 .raw("limits", "[" + std::to_string(limits.gflops) + ", " +
                                                    std::to_string(limits.gbytes) + "]")
                                 .raw("graph", "null")
                                 .text();
    std::string page = kPage;
    const std::string place = "/*DATA*/";
    page.replace(page.find(place), place.size(), script_json(data));
    NewFile(arguments.values.at("html")).write(page);
  }
  print_table(launches, limits, arguments.json);
  return 0;
}

}  // namespace cli
