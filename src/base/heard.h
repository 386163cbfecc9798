// What functions of others, which only return a status, said of their failure in the thread's error
// record.
#pragma once

#include <cstring>

#include "base/status.h"

namespace aster {

// Made before such a function is called.
class Heard {
 public:
  Heard() { static_cast<void>(aster_ml_error_last(&before_)); }
  // The record's text, if it was filled since; else null.
  const char* text() const {
    aster_ml_error now;
    static_cast<void>(aster_ml_error_last(&now));
    const bool same = now.code == before_.code && now.line == before_.line &&
                      std::strcmp(now.file, before_.file) == 0 &&
                      std::strcmp(now.message, before_.message) == 0;
    return same || now.code == ASTER_ML_OK ? nullptr : SavedError::message();
  }

 private:
  aster_ml_error before_;
};

}  // namespace aster
