#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/base/result.h"

namespace quadfs::test {

MATCHER(IsOk, "is ok") {
  if (!arg.ok()) *result_listener << arg.error().ToString();
  return arg.ok();
}

MATCHER_P(IsError, code, "is error " + std::string(ErrorCodeName(code))) {
  if (arg.ok()) {
    *result_listener << "is ok";
    return false;
  }
  *result_listener << arg.error().ToString();
  return arg.error().code() == code;
}

}  // namespace quadfs::test
