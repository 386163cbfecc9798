// Pages: one file each, nothing loaded from anywhere, written whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// Text for HTML, attributes included.
std::string escape(std::string_view text);
// JSON that may stand in a script element.
std::string script_json(std::string_view json);

// A head with the common look, body, end. A policy in the page forbids it every request.
std::string page(std::string_view title, std::string_view body, std::string_view style = {});

// A file that takes its name when it is complete: behind links, with the permissions of what was
// there. What is no regular file (a device, a pipe) is written through. Failure if it cannot be
// written.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void write(std::string_view text);  // whole, then renamed

 private:
  [[noreturn]] void fail(int code) const;
  std::filesystem::path path_, target_, temporary_;  // temporary_: empty where path_ is written
  int file_ = -1;
};

// A line over numbered places, with a mark a point.
struct Series {
  std::string name;  // "loss"
  std::string css;   // class of its strokes
  std::vector<double> x, y;
  bool marks = true;
};
struct Chart {
  std::string id, title, x_label, y_label;
  std::vector<Series> series;
  bool logarithmic = false;  // y, positive
  bool percent = false;      // y, from 0 to 1
};
// An svg element. Every mark has its values as its title.
std::string draw(const Chart& chart);

}  // namespace cli
