// aster graph: what a program computes, at every level.
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "digits.h"
#include "ir_text.h"
#include "json.h"
#include "page.h"

namespace cli {
namespace {

constexpr std::array<const char*, 7> kLevels = {"tensor", "prepared", "schedule", "kernel",
                                                "source", "plan",     "program"};
constexpr const char kPage[] =
#include "graph_page.inc"
    ;

// Text of a level in a format.
using Show = std::function<std::string(int32_t level, int32_t format)>;

Lazy random(const aster_ml_context* context, std::initializer_list<int64_t> shape) {
  Lazy out;
  check(aster_ml_lazy_rand(out.get(), context, 0, shape.size(), shape.begin()));
  aster_ml_lazy* all[] = {out.get()};
  check(aster_ml_lazy_realize(all, 1));
  return out;
}

std::vector<Lazy> softmax(const aster_ml_context* context) {
  std::vector<Lazy> out(1);
  const Lazy x = random(context, {64, 1000});
  check(aster_ml_lazy_softmax(out[0].get(), x.get(), -1));
  return out;
}

std::vector<Lazy> attention(const aster_ml_context* context) {
  std::vector<Lazy> out(1);
  const Lazy q = random(context, {8, 128, 64}), k = random(context, {8, 128, 64}),
             v = random(context, {8, 128, 64});
  check(aster_ml_lazy_scaled_dot_product_attention(out[0].get(), q.get(), k.get(), v.get(), nullptr,
                                                   0, 1, 0, 0));
  return out;
}

// Loss and gradients of a network of two layers.
std::vector<Lazy> mlp(const aster_ml_context* context) {
  std::vector<Lazy> out(3);
  const Lazy x = random(context, {128, 784}), first = random(context, {784, 256}),
             second = random(context, {256, 10});
  Lazy hidden, positive, logits, best, losses;
  check(aster_ml_lazy_matmul(hidden.get(), x.get(), first.get()));
  check(aster_ml_lazy_relu(positive.get(), hidden.get()));
  check(aster_ml_lazy_matmul(logits.get(), positive.get(), second.get()));
  check(aster_ml_lazy_log_softmax(losses.get(), logits.get(), -1));
  check(aster_ml_lazy_mean(out[0].get(), losses.get(), 0, nullptr, 0));
  const aster_ml_lazy* targets[] = {first.get(), second.get()};
  aster_ml_lazy gradients[2] = {};
  check(aster_ml_gradient(gradients, out[0].get(), targets, 2, nullptr));
  *out[1].get() = gradients[0];
  *out[2].get() = gradients[1];
  return out;
}

struct Example {
  const char* name;
  std::vector<Lazy> (*make)(const aster_ml_context* context);
};
constexpr Example kExamples[] = {
    {"softmax", softmax}, {"attention", attention}, {"mlp", mlp}, {"digits", digits_step}};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  if (!file) throw Failure{1, path + " cannot be read"};
  return out.str();
}

std::string whole_page(const Show& show, const std::string& title, const std::string& level) {
  std::string levels;
  for (size_t i = 0; i < kLevels.size(); ++i) {
    levels += (i == 0 ? "" : ", ") + show(static_cast<int32_t>(i), ASTER_ML_GRAPH_JSON);
  }
  const std::string data = script_json(
      Json().set("title", title).set("first", level).raw("levels", "[" + levels + "]").text());
  const std::string_view page = kPage;
  const std::string_view mark = "/*DATA*/";
  const size_t at = page.find(mark);
  return std::string(page.substr(0, at)) + data + std::string(page.substr(at + mark.size()));
}

int answer(const Arguments& arguments, const Show& show, const std::string& title) {
  const std::string level = arguments.get("level", "tensor");
  size_t number = 0;
  while (number < kLevels.size() && level != kLevels[number]) ++number;
  if (number == kLevels.size()) {
    throw Failure{
        2, "--level " + level + ": tensor, prepared, schedule, kernel, source, plan or program"};
  }
  if (arguments.has("html")) {
    NewFile file(arguments.get("html", ""));
    file.write(whole_page(show, title, level));
    return 0;
  }
  const std::string text =
      show(static_cast<int32_t>(number), arguments.json ? ASTER_ML_GRAPH_JSON : ASTER_ML_GRAPH_DOT);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

int graph(const Arguments& arguments) {
  Context context;
  check(aster_ml_context_init(context.get(), nullptr));
  if (arguments.has("file")) {
    if (arguments.has("of")) throw Failure{2, "--of and --file: one of them"};
    const std::string path = arguments.get("file", "");
    const OwnedUop root = read_graph(context.get(), read_file(path), path);
    return answer(
        arguments,
        [&](int32_t level, int32_t format) {
          return text_of([&](char* out, size_t* length, size_t capacity) {
            return aster_ml_engine_graph_uop(out, length, capacity, context.get(), root.get(),
                                             level, format);
          });
        },
        "Graph of " + path);
  }
  const std::string name = arguments.get("of", "softmax");
  for (const Example& example : kExamples) {
    if (name != example.name) continue;
    const std::vector<Lazy> made = example.make(context.get());
    std::vector<const aster_ml_lazy*> roots;
    for (const Lazy& root : made) roots.push_back(root.get());
    return answer(
        arguments,
        [&](int32_t level, int32_t format) {
          return text_of([&](char* out, size_t* length, size_t capacity) {
            return aster_ml_engine_graph(out, length, capacity, context.get(), roots.data(),
                                         roots.size(), level, format);
          });
        },
        "Graph of " + name);
  }
  throw Failure{2, "--of " + name + ": softmax, attention, mlp or digits"};
}

}  // namespace cli
