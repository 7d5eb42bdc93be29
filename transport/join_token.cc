// The one-time token: how CertificateAuthority packs it and how a joining machine unpacks it.
//
// "quadfs1:" + base64url of: version 1, wanted role 1, then CA certificate, join certificate and
// its key (DER, each after a big-endian 16-bit length), then CRC-32C 4 of all before it.
#include <openssl/x509v3.h>

#include <array>

#include "transport/base/checksum.h"
#include "transport/certificates.h"
#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

constexpr std::string_view kPrefix = "quadfs1:";
constexpr char kVersion = 1;
constexpr size_t kMaxTokenChars = size_t{32} << 10;
constexpr std::chrono::hours kClockSlack{24};
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string Base64Url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kAlphabet[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += kAlphabet[(bits << (6 - count)) & 63U];
  return text;
}

bool FromBase64Url(std::string_view text, std::string& bytes) {
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return false;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xFFU);
  }
  return true;
}

template <typename T>
std::string Der(T* object, int (*encode)(const T*, unsigned char**)) {
  unsigned char* bytes = nullptr;
  const int size = encode(object, &bytes);
  std::string der(reinterpret_cast<char*>(bytes), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(bytes);
  return der;
}

void AppendBig(std::string& out, uint32_t value, int byte_count) {
  for (int shift = (byte_count - 1) * 8; shift >= 0; shift -= 8) {
    out += static_cast<char>((value >> shift) & 0xFFU);
  }
}

uint32_t TakeBig(std::string_view& in, size_t byte_count) {
  uint32_t value = 0;
  for (size_t i = 0; i < byte_count; ++i) value = (value << 8) | static_cast<unsigned char>(in[i]);
  in.remove_prefix(byte_count);
  return value;
}

uint32_t CrcOf(std::string_view bytes) {
  return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

struct Packed {
  X509Ptr root, certificate;
  KeyPtr key;
};

bool TakeDer(std::string_view& in, std::string_view& der) {
  if (in.size() < 2) return false;
  const size_t size = TakeBig(in, 2);
  if (in.size() < size) return false;
  der = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

bool Unpack(std::string_view in, Packed& out, Role& wanted_role) {
  if (in.size() < 2 || in[0] != kVersion) return false;
  wanted_role = static_cast<Role>(in[1]);
  in.remove_prefix(2);
  std::array<std::string_view, 3> parts;
  for (std::string_view& part : parts) {
    if (!TakeDer(in, part)) return false;
  }
  const auto start = [&parts](size_t i) {
    return reinterpret_cast<const unsigned char*>(parts[i].data());
  };
  const auto size = [&parts](size_t i) { return static_cast<long>(parts[i].size()); };
  const unsigned char* at = start(0);
  out.root.reset(d2i_X509(nullptr, &at, size(0)));
  at = start(1);
  out.certificate.reset(d2i_X509(nullptr, &at, size(1)));
  at = start(2);
  out.key.reset(d2i_AutoPrivateKey(nullptr, &at, size(2)));
  const bool whole = in.empty() && out.root && out.certificate && out.key &&
                     X509_check_private_key(out.certificate.get(), out.key.get()) == 1 &&
                     X509_verify(out.certificate.get(), X509_get0_pubkey(out.root.get())) == 1;
  ERR_clear_error();
  return whole;
}

Result<Packed> ParseLine(std::string_view line, Role& wanted_role) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = line.find_first_not_of(kSpace);
  line = begin == std::string_view::npos ? "" : line.substr(begin);
  line = line.substr(0, line.find_last_not_of(kSpace) + 1);
  if (!line.starts_with(kPrefix)) {
    return Error(ErrorCode::kInvalidArgument,
                 "not a join token: it begins with \"" + std::string(kPrefix) + "\"");
  }
  const Error damaged(ErrorCode::kInvalidArgument,
                      "the join token is damaged: copy the whole line as it was printed");
  std::string bytes;
  if (line.size() > kMaxTokenChars || !FromBase64Url(line.substr(kPrefix.size()), bytes) ||
      bytes.size() < 4) {
    return damaged;
  }
  const std::string_view checked = std::string_view(bytes).substr(0, bytes.size() - 4);
  std::string_view crc = std::string_view(bytes).substr(checked.size());
  Packed packed;
  if (TakeBig(crc, 4) != CrcOf(checked) || !Unpack(checked, packed, wanted_role)) return damaged;
  return packed;
}

}  // namespace

Result<std::string> CertificateAuthority::MakeToken(const PeerIdentity& who,
                                                    std::chrono::seconds validity,
                                                    std::string* serial_out) const {
  PeerIdentity joiner = who;
  joiner.cluster = cluster_;
  if (who.role != Role::kJoin) joiner.wanted_role = who.role;
  joiner.role = Role::kJoin;
  const X509Ptr root = QUADFS_TRY(CertificateFromPem(certificate_pem_));
  const KeyPtr root_key = QUADFS_TRY(KeyFromPem(key_pem_));
  const KeyPtr key = QUADFS_TRY(MakeKey());
  const auto now = std::chrono::system_clock::now();
  const X509Ptr certificate = QUADFS_TRY(IssueCertificate(
      root.get(), root_key.get(), key.get(), joiner, {now - kClockSlack, now + validity}));
  if (serial_out != nullptr) *serial_out = SerialHex(certificate.get());

  std::string packed{kVersion, static_cast<char>(joiner.wanted_role)};
  for (const std::string& der :
       {Der<X509>(root.get(), i2d_X509), Der<X509>(certificate.get(), i2d_X509),
        Der<EVP_PKEY>(key.get(), i2d_PrivateKey)}) {
    AppendBig(packed, static_cast<uint32_t>(der.size()), 2);
    packed += der;
  }
  AppendBig(packed, CrcOf(packed), 4);
  return std::string(kPrefix) + Base64Url(packed);
}

Result<JoinToken> UnpackToken(const std::string& line, const std::string& directory) {
  JoinToken token;
  const Packed packed = QUADFS_TRY(ParseLine(line, token.wanted_role));
  auto who = IdentityOf(packed.certificate.get());
  if (!who.ok() || who->role != Role::kJoin || who->wanted_role != token.wanted_role) {
    return Error(ErrorCode::kInvalidArgument, "the join token holds no join certificate");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(packed.certificate.get())) <= 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "the join token has expired: ask for a new one at main");
  }
  token.identity = *who;
  token.tls = {directory + "/join.crt", directory + "/join.key", directory + "/ca.crt"};
  if (auto made = MakePrivateDirectory(directory); !made.ok()) return std::move(made).error();
  auto written = ReplaceFile(token.tls.key, ToPem(packed.key.get()), 0600);
  if (written.ok()) {
    written = ReplaceFile(token.tls.certificate, ToPem(packed.certificate.get()), 0644);
  }
  if (written.ok()) written = ReplaceFile(token.tls.ca, ToPem(packed.root.get()), 0644);
  if (!written.ok()) return std::move(written).error();
  return token;
}

}  // namespace quadfs::transport
