# becalm's hook in a command's Pythons. What stands before this says what it does, in `begin`; this
# takes it out of all that the program can see. It runs under every Python, so it keeps to what
# Python 2 reads.

WAS_SET = False
WAS_EMPTY = True


def hook(file):
    import os
    import sys
    here = os.path.dirname(file)
    # What the command would have seen without this directory. Where a script put its own beside
    # nothing ("/own:$PYTHONPATH"), it has an empty entry, which is the working directory.
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    empty = WAS_EMPTY and given != [here]
    if empty and here in sys.path:
        try:
            cwd = os.getcwd()
        except OSError:  # It was removed.
            cwd = here
        if cwd not in sys.path:
            sys.path[sys.path.index(here)] = cwd
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    given = ["" if entry == here else entry for entry in given if entry != here or empty]
    if given or WAS_SET:
        os.environ["PYTHONPATH"] = os.pathsep.join(given)
    else:
        os.environ.pop("PYTHONPATH", None)
    begin(here, os, sys)
    # Python 2 empties a module that nobody holds.
    return sys.modules.pop("sitecustomize", None)


this = hook(__file__)
import sitecustomize  # the command's own, if it has one; its absence is the interpreter's to handle
