// Arrays as NumPy writes them to files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli.h"

namespace cli {

// The tensor in the bytes of a .npy file; Failure where it is none, or of another dtype.
Lazy from_npy(const Context& context, const std::string& bytes);
std::string to_npy(Lazy& tensor);
// Names and contents of files.
using Members = std::vector<std::pair<std::string, std::string>>;
// An archive of files that are stored as they are, as numpy.savez writes them. Failure where one
// has 4 GiB or more.
std::string to_zip(const Members& members);
// The bytes of a file in an archive.
std::string member_of(const Context& context, const std::string& archive, const std::string& name);

}  // namespace cli
