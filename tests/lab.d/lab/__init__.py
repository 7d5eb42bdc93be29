"""The lab: campuses and nodes as network and mount namespaces on one machine."""


class LabError(Exception):
    """What went wrong, in one line for the user."""


def describe(error):
    """An exception in one line, without Python's decoration."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{error}" or type(error).__name__
