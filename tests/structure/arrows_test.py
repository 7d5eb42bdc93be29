#!/usr/bin/env python3
"""Modules use only what is below them: reads every #include line of the tree."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What each module may include. The longest prefix of a path decides which module it is.
ALLOWED = {
    "transport/base": {"transport/base"},
    "transport": {"transport", "transport/base"},
    "cache": {"cache", "transport/base"},
    "metadata": {"metadata", "transport", "transport/base"},
    "fs/data": {"fs/data", "metadata", "cache", "transport", "transport/base"},
    "fs/hub": {"fs/hub", "fs/data", "metadata", "cache", "transport", "transport/base"},
    "fs/node": {"fs/node", "fs/data", "fs", "metadata", "cache", "transport", "transport/base"},
    "fs/daemon": {"fs/daemon", "fs/hub", "fs/node", "fs/data", "fs", "metadata", "cache", "transport", "transport/base"},
    "fs": {"fs", "metadata", "cache", "transport", "transport/base"},
    "tools": {"tools", "fs", "fs/daemon", "fs/data", "metadata", "cache", "transport", "transport/base"},
}
# Libraries that one module alone may know.
PRIVATE = {r"rocksdb/": "metadata", r"(curl/|openssl/|boost/)": "transport", r"fuse": "fs/node"}


def module_of(path):
    return max((name for name in ALLOWED if path.startswith(name + "/")), key=len, default=None)


def main():
    wrong, seen = [], 0
    for top in ("transport", "cache", "metadata", "fs", "tools"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if not name.endswith((".h", ".cc")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                module = module_of(path)
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                        if not found:
                            continue
                        seen += 1
                        kind, target = found.groups()
                        used = module_of(target) if kind == '"' else None
                        if used and used not in ALLOWED[module]:
                            wrong.append(f"{path}:{number}: {module} may not include {target}")
                        for pattern, owner in PRIVATE.items():
                            if kind == "<" and re.match(pattern, target) and not module.startswith(owner):
                                wrong.append(f"{path}:{number}: only {owner} may include <{target}>")
    if seen < 200:
        wrong.append(f"only {seen} #include lines found: is the tree where this test looks?")
    print("\n".join(wrong) or f"{seen} #include lines, every arrow points down")
    sys.exit(1 if wrong else 0)


main()
