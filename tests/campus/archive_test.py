#!/usr/bin/env python3
"""What is written at a branch arrives in main's archive, as plain files under their own names."""
import os
import stat

import labkit
from labkit import until


class Archive(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=1", "--link", "main-b=rate:1gbit,rtt:5ms")

    def archive(self, *parts):
        return os.path.join(self.lab.run("archive").strip(), *parts)

    def test_checkpoint_rewritten_20_times_is_in_the_archive(self):
        folder = self.lab.grid("b1", "run1")
        os.mkdir(folder)
        for step in range(20):
            data = (b"%06d " % step) * 300_000
            with open(os.path.join(folder, "ckpt.tmp"), "wb") as file:
                file.write(data)
                os.fsync(file.fileno())
            os.rename(os.path.join(folder, "ckpt.tmp"), os.path.join(folder, "ckpt.pt"))
        self.lab.sync("b1", "/grid/run1", "archived")
        kept = self.archive("run1", "ckpt.pt")
        with open(kept, "rb") as file:
            self.assertEqual(file.read(), data)
        self.assertEqual(os.getxattr(os.path.join(folder, "ckpt.pt"), "user.quad.state"), b"verified")
        self.assertEqual(os.listdir(os.path.dirname(kept)), ["ckpt.pt"])

    def test_checkpoint_rewritten_in_place_is_in_the_archive(self):
        path = self.lab.grid("b1", "inplace.pt")
        for step in range(20):
            with open(path, "wb") as file:
                file.write((b"%04d" % step) * 500_000)
        self.lab.sync("b1", "/grid/inplace.pt", "archived")
        self.assertEqual(labkit.sha256(self.archive("inplace.pt")), labkit.sha256(path))

    def test_archive_follows_rename_chmod_and_removal(self):
        folder = self.lab.grid("b1", "tree")
        os.makedirs(os.path.join(folder, "old", "deep"))
        with open(os.path.join(folder, "old", "deep", "f"), "wb") as file:
            file.write(b"content" * 1000)
        os.chown(os.path.join(folder, "old", "deep", "f"), 1234, 2345)
        os.chmod(os.path.join(folder, "old", "deep", "f"), 0o640)
        self.lab.sync("b1", "/grid/tree", "archived")
        until("the file in the archive", lambda: os.path.exists(self.archive("tree/old/deep/f")))
        os.rename(os.path.join(folder, "old"), os.path.join(folder, "new"))
        until("the renamed tree in the archive", lambda: os.path.exists(self.archive("tree/new/deep/f")))
        self.assertFalse(os.path.exists(self.archive("tree/old")))

        def attributes():
            got = os.stat(self.archive("tree/new/deep/f"))
            return (got.st_uid, got.st_gid, stat.S_IMODE(got.st_mode)) == (1234, 2345, 0o640)
        until("owner and mode in the archive", attributes)
        os.remove(os.path.join(folder, "new", "deep", "f"))
        until("the removal in the archive", lambda: not os.path.exists(self.archive("tree/new/deep/f")))

    def test_policy_off_keeps_data_out_of_the_archive(self):
        folder = self.lab.grid("b1", "private")
        os.mkdir(folder)
        os.setxattr(folder, "user.quad.policy.archive", b"off")
        with open(os.path.join(folder, "f"), "wb") as file:
            file.write(b"x" * 100_000)
        self.lab.sync("b1", "/grid/private", "campus")
        marker = self.lab.grid("b1", "marker")
        with open(marker, "wb") as file:
            file.write(b"y" * 100_000)
        self.lab.sync("b1", "/grid/marker", "archived")  # Queued later, so the other had its turn.
        self.assertFalse(os.path.exists(self.archive("private", "f")))


if __name__ == "__main__":
    labkit.main()
