#include "page.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "cli.h"

namespace cli {
namespace {

// Colours: text on ground is at least 7 to 1, lines at least 3 to 1, in both schemes.
constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --ground: #fbfbf9; --card: #ffffff; --text: #1c2024;
  --quiet: #545c66; --line: #d6d9dd; --blue: #1f5fa8; --orange: #b4530a; --good: 31 95 168;
  --bad: 180 83 10; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2025; --text: #e9ebee;
  --quiet: #a9b1bb; --line: #3a4149; --blue: #7fb5f0; --orange: #f2a25c; --good: 127 181 240;
  --bad: 242 162 92; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .8rem; }
p { margin: 0 0 .8rem; max-width: 44rem; }
.quiet, figcaption, footer { color: var(--quiet); }
a { color: var(--blue); }
:focus-visible { outline: 3px solid var(--orange); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--card); padding: .5rem 1rem; }
footer { margin-top: 3rem; padding-bottom: 2rem; font-size: .85rem; }
)css";

constexpr double kWidth = 560, kHeight = 300, kLeft = 58, kRight = 14, kTop = 12, kBottom = 42;

std::string number(double value, const char* format = "%.6g") {
  char text[40];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Steps of 1, 2 or 5 times a power of ten, about five of them.
double tick_step(double span) {
  const double raw = span / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1., 2., 5.}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

// One axis: from values to places.
struct Axis {
  double low, high, from, to;
  bool logarithmic;
  double operator()(double value) const {
    const double v = logarithmic ? std::log10(value) : value;
    return from + (v - low) / (high - low) * (to - from);
  }
};

Axis y_axis(const Chart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const Series& series : chart.series) {
    for (double y : series.y) {
      const double v = chart.logarithmic ? std::log10(y) : y;
      if (!std::isfinite(v)) continue;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  if (!(low <= high)) low = 0, high = 1;
  const double step = chart.logarithmic ? 1 : tick_step(std::max(high - low, 1e-3));
  low = std::floor(low / step) * step;
  high = std::ceil(high / step) * step;
  if (chart.percent) high = std::min(high, 1.);
  if (high - low < step) low -= step;
  return {low, high, kHeight - kBottom, kTop, chart.logarithmic};
}

Axis x_axis(const Chart& chart) {
  double high = 1;
  for (const Series& series : chart.series) {
    for (double x : series.x) high = std::max(high, x);
  }
  return {0, high, kLeft, kWidth - kRight, false};
}

std::string grid(const Chart& chart, const Axis& x, const Axis& y) {
  std::string out;
  const double step = chart.logarithmic ? 1 : tick_step(y.high - y.low);
  for (int i = 0; y.low + i * step <= y.high + step * 1e-6; ++i) {
    const double value = chart.logarithmic ? std::pow(10, y.low + i) : y.low + i * step;
    const std::string at = number(y(value), "%.1f");
    out += "<line class=\"grid\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) +
           "\" y1=\"" + at + "\" y2=\"" + at + "\"/><text x=\"" + number(kLeft - 8) + "\" y=\"" +
           at + "\" dy=\".32em\" text-anchor=\"end\">" +
           (chart.percent ? number(value * 100, "%.4g") + " %" : number(value, "%.4g")) + "</text>";
  }
  const double wide = std::max(1., tick_step(x.high));
  for (double value = 0; value <= x.high; value += wide) {
    out += "<text x=\"" + number(x(value), "%.1f") + "\" y=\"" + number(kHeight - kBottom + 18) +
           "\" text-anchor=\"middle\">" + number(value) + "</text>";
  }
  out += "<text x=\"" + number((kLeft + kWidth - kRight) / 2) + "\" y=\"" + number(kHeight - 6) +
         "\" text-anchor=\"middle\">" + escape(chart.x_label) + "</text>";
  return out;
}

std::string line(const Chart& chart, const Series& series, const Axis& x, const Axis& y) {
  std::string points, marks;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i]) || (chart.logarithmic && series.y[i] <= 0)) continue;
    const std::string px = number(x(series.x[i]), "%.1f"), py = number(y(series.y[i]), "%.1f");
    points += (points.empty() ? "" : " ") + px + "," + py;
    if (!series.marks) continue;
    const std::string value =
        chart.percent ? number(series.y[i] * 100, "%.2f") + " %" : number(series.y[i], "%.4g");
    marks += "<circle class=\"mark " + series.css + "\" cx=\"" + px + "\" cy=\"" + py +
             "\" r=\"3.5\"><title>" +
             escape(chart.x_label + " " + number(series.x[i]) + ", " + series.name + " " + value) +
             "</title></circle>";
  }
  return "<polyline class=\"" + series.css + "\" points=\"" + points + "\"/>" + marks;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const char* word = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '"'  ? "&quot;"
                       : c == '\'' ? "&#39;"
                                   : nullptr;
    word != nullptr ? out += word : out += c;
  }
  return out;
}

std::string script_json(std::string_view json) {
  std::string out;
  for (const char c : json) {
    c == '<' ? out += "\\u003c" : out += c;  // no end of the element, no comment
  }
  return out;
}

std::string page(std::string_view title, std::string_view body, std::string_view style) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>";
  out += escape(title);
  out += "</title>\n<style>";
  out += kStyle;
  out += style;
  out += "</style>\n</head>\n<body>\n";
  out += body;
  return out + "</body>\n</html>\n";
}

void NewFile::fail(int code) const {
  throw Failure{1, path_.string() + ": " + std::strerror(code)};
}

NewFile::NewFile(const std::filesystem::path& path) : path_(path), target_(path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status before = fs::status(path, error);
  if (fs::exists(before) && !fs::is_regular_file(before)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file_ < 0) fail(errno);
    return;
  }
  for (int links = 0; fs::is_symlink(target_, error); ++links) {
    if (links == 40) fail(ELOOP);
    target_ = target_.parent_path() / fs::read_symlink(target_, error);
    if (error) fail(error.value());
  }
  if (fs::exists(before) && ::access(path.c_str(), W_OK) != 0) fail(errno);
  fs::path temporary = target_;
  temporary += "." + std::to_string(getpid()) + ".new";
  file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail(errno);
  temporary_ = temporary;
  if (fs::exists(before)) fs::permissions(temporary_, before.permissions(), error);
}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void NewFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
  if (temporary_.empty()) return;
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  if (error) fail(error.value());
  temporary_.clear();
}

std::string draw(const Chart& chart) {
  const Axis x = x_axis(chart), y = y_axis(chart);
  std::string out = "<svg id=\"" + chart.id + "\" class=\"chart\" role=\"img\" aria-labelledby=\"" +
                    chart.id + "-title\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
                    "\"><title id=\"" + chart.id + "-title\">" + escape(chart.title) + "</title>";
  out += grid(chart, x, y);
  for (const Series& series : chart.series) out += line(chart, series, x, y);
  return out + "</svg>";
}

}  // namespace cli
