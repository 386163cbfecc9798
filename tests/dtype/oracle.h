// Reading the tables that oracle/make.py writes.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace aster_test {

inline std::vector<std::vector<std::string>> read_oracle(const std::string& file) {
  const char* root = std::getenv("ASTER_ML_TEST_DATA");
  std::ifstream in(std::string(root != nullptr ? root : "tests") + "/dtype/oracle/" + file);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> row(1);
    for (const char c : line) {
      if (c == '\t') {
        row.emplace_back();
      } else {
        row.back() += c;
      }
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace aster_test
