#!/usr/bin/env python3
"""Every promise of fs/SEMANTICS.md names a test, and that test exists."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_names():
    """Names of all GoogleTest and unittest tests: 'Suite.Name' and 'Class.test_name'."""
    names = set()
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for file_name in files:
            path = os.path.join(folder, file_name)
            if file_name.endswith(".cc"):
                with open(path, encoding="utf-8") as file:
                    names |= {f"{a}.{b}" for a, b in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", file.read())}
            elif file_name.endswith("_test.py"):
                with open(path, encoding="utf-8") as file:
                    suite = ""
                    for line in file:
                        if found := re.match(r"class (\w+)\(", line):
                            suite = found.group(1)
                        elif found := re.match(r"    def (test_\w+)\(", line):
                            names.add(f"{suite}.{found.group(1)}")
    return names


def main():
    names, wrong, promises = test_names(), [], 0
    with open(os.path.join(ROOT, "fs", "SEMANTICS.md"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not re.match(r"- ", line):
                continue
            promises += 1
            tests = re.findall(r"`([A-Z]\w+\.\w+)`", line)
            if not tests:
                wrong.append(f"fs/SEMANTICS.md:{number}: a promise without a test")
            wrong += [f"fs/SEMANTICS.md:{number}: no test {test}" for test in tests if test not in names]
    if promises < 10:
        wrong.append(f"only {promises} promises found")
    print("\n".join(wrong) or f"{promises} promises, each with its test")
    sys.exit(1 if wrong else 0)


main()
