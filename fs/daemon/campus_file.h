#pragma once

#include <string>

#include "transport/base/result.h"

namespace quadfs::daemon {

/// state_dir/campus.json: what enrolment told this machine and its certificate does not say.
struct CampusFile {
  std::string cluster_name;  ///< For people.
  std::string main_campus;   ///< Name of main's campus: its hub's certificate carries it.
};

/// Errors: kNotFound, kInvalidArgument (damaged), with the file's name.
Result<CampusFile> ReadCampusFile(const std::string& path);
Result<void> WriteCampusFile(const std::string& path, const CampusFile& content);

}  // namespace quadfs::daemon
