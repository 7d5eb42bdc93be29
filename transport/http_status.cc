#include "transport/http_status.h"

namespace quadfs::transport {

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
    case ErrorCode::kNoAttribute: return 404;
    case ErrorCode::kExists:
    case ErrorCode::kNotDirectory:
    case ErrorCode::kIsDirectory:
    case ErrorCode::kNotEmpty:
    case ErrorCode::kStale:
    case ErrorCode::kTooManyLinks:
    case ErrorCode::kCrossDevice:
    case ErrorCode::kDeadlock: return 409;
    case ErrorCode::kPermission:
    case ErrorCode::kAccess:
    case ErrorCode::kReadOnly:
    case ErrorCode::kUnauthenticated: return 403;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNameTooLong:
    case ErrorCode::kRange: return 400;
    case ErrorCode::kNoSpace: return 507;
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled: return 503;
    case ErrorCode::kTimedOut: return 504;
    case ErrorCode::kWouldBlock:
    case ErrorCode::kBusy:
    case ErrorCode::kInterrupted: return 423;
    case ErrorCode::kNotSupported: return 501;
    case ErrorCode::kTooLarge: return 413;
    case ErrorCode::kCorruption:
    case ErrorCode::kIo:
    case ErrorCode::kUnknown: return 500;
  }
  return 500;
}

ErrorCode CodeOfStatus(int status) {
  switch (status) {
    case 400: return ErrorCode::kInvalidArgument;
    case 401:
    case 403: return ErrorCode::kUnauthenticated;
    case 404: return ErrorCode::kNotFound;
    case 409: return ErrorCode::kStale;
    case 413:
    case 431: return ErrorCode::kTooLarge;
    case 405:
    case 411:
    case 501:
    case 505: return ErrorCode::kNotSupported;
    case 408:
    case 504: return ErrorCode::kTimedOut;
    case 423: return ErrorCode::kBusy;
    case 502:
    case 503: return ErrorCode::kUnavailable;
    case 507: return ErrorCode::kNoSpace;
    default: return ErrorCode::kUnknown;
  }
}

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 423: return "Locked";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

}  // namespace quadfs::transport
