# becalm's hook: before Python starts a process, it tells becalm from which line, by asking for a
# symbolic link that cannot exist. It runs under every Python, so it keeps to what Python 2 reads;
# a Python without audit hooks (before 3.8) tells nothing.

WAS_SET = False


def tell_lines(sys, readlink, library):
    starts = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system")

    def is_own(file):
        return not file.startswith(library) or file.startswith(library + "site-packages")

    def tell(event, _arguments):
        if event not in starts:
            return
        frames, frame = [], sys._getframe(1)
        while frame is not None and len(frames) < 8:
            code = frame.f_code
            if not code.co_filename.startswith("<frozen") and (frames or is_own(code.co_filename)):
                place = (frame.f_lineno or 0, code.co_name, code.co_filename.replace("\n", "?"))
                frames.append("%d %s %s" % place)
            frame = frame.f_back
        try:
            readlink("/proc/becalm/" + "\n".join(frames)[:3500])
        except (OSError, ValueError):
            pass  # there is no such link

    sys.addaudithook(tell)


def hook(file):
    import os
    import sys
    here = os.path.dirname(file)
    # What the command would have seen without this folder.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    given = [entry for entry in given if entry != here]
    if given or WAS_SET:
        os.environ["PYTHONPATH"] = os.pathsep.join(given)
    else:
        os.environ.pop("PYTHONPATH", None)
    if hasattr(sys, "addaudithook"):
        tell_lines(sys, os.readlink, os.path.dirname(os.__file__) + "/")
    # Python 2 empties a module that nobody holds.
    return sys.modules.pop("sitecustomize", None)


this = hook(__file__)
import sitecustomize  # the command's own, if it has one; its absence is the interpreter's to handle
