// Arrays as NumPy writes them to files.
#pragma once

#include <string>

#include "cli.h"

namespace cli {

// The tensor in the bytes of a .npy file; Failure where it is none, or of another order or dtype.
Lazy from_npy(const Context& context, const std::string& bytes);
std::string to_npy(Lazy& tensor);
// The bytes of a file in an archive.
std::string member_of(const Context& context, const std::string& archive, const std::string& name);

}  // namespace cli
