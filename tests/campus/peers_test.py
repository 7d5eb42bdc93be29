#!/usr/bin/env python3
"""A peer with no, a foreign or an expired certificate gets nothing; a node gets only what is a node's."""
import os
import subprocess
import tempfile

import labkit


class Peers(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.chmod(self.folder.name, 0o755)

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def curl(self, *args, path="/v1/status"):
        """HTTP status that a1 gets from main's hub; '000' if TLS refused it."""
        hub = self.lab.status()["hosts"]["main"]["ip"]
        return self.lab.exec("a1", "curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10",
                             *args, f"https://{hub}:7440{path}", check=False).strip()

    def mine(self):
        return ("--cert", "/var/lib/quadfs/tls/this.crt", "--key", "/var/lib/quadfs/tls/this.key")

    def self_made(self, days):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", self.file("k"), "-out", self.file("c"), "-days", str(days), "-subj", "/CN=a1")
        return ("--cert", self.file("c"), "--key", self.file("k"))

    def test_own_certificate_is_answered(self):
        self.assertEqual(self.curl(*self.mine()), "200")

    def test_no_certificate_gets_nothing(self):
        self.assertEqual(self.curl(), "000")

    def test_foreign_certificate_gets_nothing(self):
        self.assertEqual(self.curl(*self.self_made(30)), "000")

    def test_plain_http_gets_nothing(self):
        hub = self.lab.status()["hosts"]["main"]["ip"]
        self.assertEqual(self.lab.exec("a1", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time",
                                       "10", f"http://{hub}:7440/v1/status", check=False).strip(), "000")

    def test_expired_certificate_of_our_own_ca_gets_nothing(self):
        # Signed by the cluster's real CA, as a certificate that ran out would be.
        ca = self.lab.run("outside", "main", "/var/lib/quadfs/ca").strip()
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", self.file("k"), "-out", self.file("r"), "-subj", "/CN=a1")
        self.openssl("x509", "-req", "-in", self.file("r"), "-CA", os.path.join(ca, "ca.crt"), "-CAkey",
                     os.path.join(ca, "ca.key"), "-CAcreateserial", "-CAserial", self.file("s"),
                     "-days", "-1", "-out", self.file("c"))
        self.assertEqual(self.curl("--cert", self.file("c"), "--key", self.file("k")), "000")

    def test_node_may_not_speak_as_a_hub(self):
        self.assertEqual(self.curl(*self.mine(), "-X", "POST", path="/v1/merge"), "403")

    def test_token_works_once(self):
        token = self.lab.exec("main", "quadfs", "token", "--role", "node", "--campus", "main", "--name", "once")
        with open(self.file("token"), "w") as file:
            file.write(token)
        os.chmod(self.file("token"), 0o600)
        address = self.lab.status()["hosts"]["main"]["ip"] + ":7440"

        def join(folder):
            return subprocess.run(
                [labkit.LAB, "exec", "a1", "--", "quadfs", "join", "--hub", address, "--mount", "/mnt",
                 "--token-file", self.file("token"), "--config", self.file(folder + ".toml"),
                 "--state-dir", self.file(folder)],
                env=self.lab.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        first, second = join("one"), join("two")
        self.assertEqual(first.returncode, 0, first.stdout)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("used", second.stdout)


if __name__ == "__main__":
    labkit.main()
