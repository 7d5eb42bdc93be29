#pragma once

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

#include "transport/base/error.h"

namespace quadfs {

/// A value or the Error that took its place. Threads: like any value.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return Checked(), std::get<0>(state_); }
  const T& value() const& { return Checked(), std::get<0>(state_); }
  T&& value() && { return Checked(), std::get<0>(std::move(state_)); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  void Checked() const { assert(ok() && "value() of a failed Result"); }
  std::variant<T, Error> state_;
};

/// Success, or the Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return error_.index() == 0; }
  explicit operator bool() const { return ok(); }
  void value() const { assert(ok()); }
  const Error& error() const& { return std::get<1>(error_); }
  Error&& error() && { return std::get<1>(std::move(error_)); }

 private:
  std::variant<std::monostate, Error> error_;
};

}  // namespace quadfs

/// The value of a Result, or a return of its error from the enclosing function.
/// A GNU statement expression, which g++ and clang both know.
#define QUADFS_TRY(expression)                                                \
  __extension__({                                                             \
    auto quadfs_try_result = (expression);                                    \
    if (!quadfs_try_result.ok()) return std::move(quadfs_try_result).error(); \
    std::move(quadfs_try_result).value();                                     \
  })
