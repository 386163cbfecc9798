// The page of the digits' demo.
#include "digits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "page.h"

namespace cli {
namespace {

constexpr size_t kClasses = DigitsRun::kClasses, kSide = DigitsRun::kSide;
constexpr size_t kLeastSure = 10;

constexpr char kStyle[] = R"css(
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr));
  gap: .75rem; padding: 0; margin: 1.2rem 0 0; }
.figures div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .7rem .9rem; }
.figures dt { color: var(--quiet); font-size: .85rem; }
.figures dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.figures small { display: block; font-size: .8rem; color: var(--quiet); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr));
  gap: 1.25rem; }
figure { margin: 0; }
.charts figure { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .9rem; }
.chart { width: 100%; height: auto; display: block; }
.chart text { fill: var(--quiet); font-size: 13px; }
.grid { stroke: var(--line); }
polyline { fill: none; stroke: var(--blue); stroke-width: 2; stroke-linejoin: round; }
polyline.faint { stroke: var(--quiet); stroke-width: 1; opacity: .45; }
polyline.accuracy { stroke: var(--orange); }
.mark { fill: var(--blue); } .mark.accuracy { fill: var(--orange); }
.scroll { overflow-x: auto; }
.confusion { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
.confusion caption { text-align: left; color: var(--quiet); margin-bottom: .4rem; }
.confusion th { font-weight: 600; color: var(--quiet); padding: .2rem .4rem; }
.confusion td { min-width: 2.35rem; height: 2.2rem; text-align: center; border-radius: .25rem; }
.confusion .none { color: var(--quiet); opacity: .6; }
.confusion .right { background: rgb(var(--good) / calc(.12 + .3 * var(--share))); }
.confusion .wrong { background: rgb(var(--bad) / .34); font-weight: 600; }
.confusion td a { color: inherit; display: block; padding: .3rem 0; }
.digits { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 1rem;
  padding: 0; margin: 0; list-style: none; }
.digits figure { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .7rem; height: 100%; }
.digits figure:target { border-color: var(--orange); box-shadow: 0 0 0 2px var(--orange); }
.digit { width: 100%; display: block; background: #fff; border-radius: .25rem; }
.digits figcaption { font-size: .85rem; margin-top: .4rem; line-height: 1.4; }
.digits b { color: var(--text); }
details { margin-top: .8rem; } summary { cursor: pointer; }
.data { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
.data th, .data td { padding: .15rem .9rem .15rem 0; text-align: right; }
@media print { :root { --ground: #fff; --card: #fff; --text: #000; --quiet: #333; --line: #bbb;
  --blue: #1f5fa8; --orange: #b4530a; --good: 31 95 168; --bad: 180 83 10; }
  .charts figure, .digits li, .figures div, tr { break-inside: avoid; }
  h2 { break-after: avoid; } td { print-color-adjust: exact; } .skip, details { display: none; } }
)css";

std::string percent(double share, const char* format = "%.1f %%") {
  char text[32];
  std::snprintf(text, sizeof(text), format, share * 100);
  return text;
}

// What the network made of one digit.
struct Reading {
  size_t index;
  size_t truth, best;
  double confidence, truth_confidence;
};

std::vector<Reading> read(const DigitsRun& run) {
  std::vector<Reading> out;
  for (size_t i = 0; i < run.labels.size(); ++i) {
    const float* p = &run.probabilities[i * kClasses];
    const auto best = static_cast<size_t>(std::max_element(p, p + kClasses) - p);
    const auto truth = static_cast<size_t>(run.labels[i]);
    out.push_back({i, truth, best, static_cast<double>(p[best]), static_cast<double>(p[truth])});
  }
  return out;
}

std::string image(const DigitsRun& run, const Reading& r, const std::string& label) {
  std::string out =
      "<svg class=\"digit\" role=\"img\" viewBox=\"0 0 8 8\" shape-rendering=\"crispEdges\" "
      "aria-label=\"" +
      escape(label) + "\">";
  for (size_t p = 0; p < kSide * kSide; ++p) {
    const float ink = run.pixels[r.index * kSide * kSide + p];
    if (ink <= 0) continue;
    char rect[112];
    const int grey = 255 - static_cast<int>(std::lround(ink * 255));
    std::snprintf(rect, sizeof(rect),
                  "<rect x=\"%zu\" y=\"%zu\" width=\"1\" height=\"1\" fill=\"#%02x%02x%02x\"/>",
                  p % kSide, p / kSide, static_cast<unsigned>(grey), static_cast<unsigned>(grey),
                  static_cast<unsigned>(grey));
    out += rect;
  }
  return out + "</svg>";
}

std::string cell_id(size_t truth, size_t best) {
  return "read-" + std::to_string(truth) + "-as-" + std::to_string(best);
}

std::string gallery(const DigitsRun& run, const std::vector<Reading>& readings, bool wrong) {
  std::string out = "<ul class=\"digits\">";
  std::array<bool, kClasses * kClasses> named{};
  for (const Reading& r : readings) {
    const std::string truth = std::to_string(r.truth), best = std::to_string(r.best);
    const std::string label = "A " + truth + ", read as " + best + " with " + percent(r.confidence);
    bool& seen = named[r.truth * kClasses + r.best];
    const std::string id = wrong && !seen ? " id=\"" + cell_id(r.truth, r.best) + "\"" : "";
    seen = true;
    out += "<li><figure" + id + (wrong ? " class=\"wrong\"" : "") + " tabindex=\"-1\">" +
           image(run, r, label) + "<figcaption>";
    if (wrong) {
      out += "true <b>" + truth + "</b>, read <b>" + best + "</b><br>" + percent(r.confidence) +
             " sure; " + percent(r.truth_confidence) + " for " + truth;
    } else {
      out += "a <b>" + truth + "</b><br>" + percent(r.confidence) + " sure";
    }
    out += "</figcaption></figure></li>";
  }
  return out + "</ul>";
}

std::string confusion(const std::vector<Reading>& readings) {
  std::array<std::array<size_t, kClasses>, kClasses> count{};
  std::array<size_t, kClasses> total{};
  for (const Reading& r : readings) {
    ++count[r.truth][r.best];
    ++total[r.truth];
  }
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">"
      "<table class=\"confusion\" id=\"confusion\"><caption>Rows: the digit. Columns: what it was "
      "read as. Mistakes lead to their images.</caption><thead><tr><th scope=\"col\">true</th>";
  for (size_t c = 0; c < kClasses; ++c) out += "<th scope=\"col\">" + std::to_string(c) + "</th>";
  out += "<th scope=\"col\">right</th></tr></thead><tbody>";
  for (size_t t = 0; t < kClasses; ++t) {
    out += "<tr><th scope=\"row\">" + std::to_string(t) + "</th>";
    for (size_t c = 0; c < kClasses; ++c) {
      const std::string n = std::to_string(count[t][c]);
      if (t == c) {
        const double share =
            total[t] == 0 ? 0 : static_cast<double>(count[t][c]) / static_cast<double>(total[t]);
        out += "<td class=\"right\" style=\"--share:" + percent(share / 100, "%.3f") + "\">" + n +
               "</td>";
      } else if (count[t][c] == 0) {
        out += "<td class=\"none\">0</td>";
      } else {
        out += "<td class=\"wrong\"><a href=\"#" + cell_id(t, c) + "\" aria-label=\"" + n +
               " of digit " + std::to_string(t) + " read as " + std::to_string(c) + "\">" + n +
               "</a></td>";
      }
    }
    const double right =
        total[t] == 0 ? 0 : static_cast<double>(count[t][t]) / static_cast<double>(total[t]);
    out += "<th scope=\"row\" class=\"share\">" + percent(right, "%.0f %%") + "</th></tr>";
  }
  return out + "</tbody></table></div>";
}

std::vector<double> epoch_means(const DigitsRun& run) {
  std::vector<double> out;
  const auto steps = static_cast<size_t>(run.steps_per_epoch);
  for (size_t i = 0; i + steps <= run.step_loss.size(); i += steps) {
    double sum = 0;
    for (size_t s = 0; s < steps; ++s) sum += run.step_loss[i + s];
    out.push_back(sum / static_cast<double>(steps));
  }
  return out;
}

std::string charts(const DigitsRun& run) {
  const std::vector<double> means = epoch_means(run);
  Series steps{"loss of a step", "faint", {}, run.step_loss, false};
  for (size_t i = 0; i < run.step_loss.size(); ++i) {
    steps.x.push_back(static_cast<double>(i + 1) / static_cast<double>(run.steps_per_epoch));
  }
  Series loss{"mean loss", "loss", {}, means},
      accuracy{"accuracy", "accuracy", {}, run.epoch_accuracy};
  for (size_t i = 0; i < means.size(); ++i) loss.x.push_back(static_cast<double>(i + 1));
  for (size_t i = 0; i < accuracy.y.size(); ++i) {
    accuracy.x.push_back(static_cast<double>(i + 1));
  }
  std::string out =
      "<section aria-labelledby=\"learning\"><h2 id=\"learning\">Learning</h2><div "
      "class=\"charts\"><figure>" +
      draw({"loss",
            "Loss of every step and its mean over each epoch, logarithmic",
            "epoch",
            "loss",
            {steps, loss},
            true,
            false}) +
      "<figcaption>Loss: each step (grey) and the mean of each epoch, on a logarithmic scale."
      "</figcaption></figure><figure>" +
      draw({"accuracy",
            "Accuracy on the test digits after each epoch",
            "epoch",
            "accuracy",
            {accuracy},
            false,
            true}) +
      "<figcaption>Accuracy on the digits held out, after each epoch.</figcaption></figure></div>"
      "<details><summary>The numbers</summary><div class=\"scroll\"><table class=\"data\"><thead>"
      "<tr><th scope=\"col\">epoch</th><th scope=\"col\">mean loss</th><th scope=\"col\">accuracy"
      "</th></tr></thead><tbody>";
  for (size_t i = 0; i < means.size(); ++i) {
    char mean[32];
    std::snprintf(mean, sizeof(mean), "%.4g", means[i]);
    out += "<tr><td>" + std::to_string(i + 1) + "</td><td>" + mean + "</td><td>" +
           percent(run.epoch_accuracy[i], "%.2f %%") + "</td></tr>";
  }
  return out + "</tbody></table></div></details></section>";
}

}  // namespace

std::string digits_page(const DigitsRun& run) {
  const std::vector<Reading> all = read(run);
  std::vector<Reading> wrong, right;
  for (const Reading& r : all) (r.truth == r.best ? right : wrong).push_back(r);
  std::stable_sort(wrong.begin(), wrong.end(),
                   [](const Reading& a, const Reading& b) { return a.confidence > b.confidence; });
  std::stable_sort(right.begin(), right.end(),
                   [](const Reading& a, const Reading& b) { return a.confidence < b.confidence; });
  if (right.size() > kLeastSure) right.erase(right.begin() + kLeastSure, right.end());

  std::string body =
      "<a class=\"skip\" href=\"#main\">To the results</a><header><h1>Reading handwritten "
      "digits</h1><p class=\"quiet\">" +
      escape(run.network) + "</p></header><main id=\"main\"><dl class=\"figures\">";
  for (const DigitsRun::Figure& figure : run.figures) {
    body += "<div><dt>" + escape(figure.name) + "</dt><dd>" + escape(figure.value) +
            (figure.note.empty() ? "" : "<small>" + escape(figure.note) + "</small>") +
            "</dd></div>";
  }
  body += "</dl>" + charts(run) +
          "<section aria-labelledby=\"mistaken\"><h2 id=\"mistaken\">What is taken for what</h2>" +
          confusion(all) + "</section>";
  body += "<section aria-labelledby=\"misread\"><h2 id=\"misread\">Misread: " +
          std::to_string(wrong.size()) + " of " + std::to_string(all.size()) + "</h2>" +
          (wrong.empty() ? "<p>Every test digit was read right.</p>" : gallery(run, wrong, true)) +
          "</section><section aria-labelledby=\"unsure\"><h2 id=\"unsure\">Right, but least sure"
          "</h2>" +
          gallery(run, right, false) + "</section></main><footer>Made by aster_ml " +
          escape(aster_ml_version()) + ". Digits: see examples/data/README.md.</footer>";
  return page("aster: handwritten digits", body, kStyle);
}

}  // namespace cli
