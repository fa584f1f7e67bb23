# becalm's hook: before Python starts a process, it tells becalm from which line, by asking for a
# symbolic link that cannot exist. It runs under every Python, so it keeps to what Python 2 reads;
# a Python without audit hooks (before 3.8) tells nothing.


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


def begin(here, os, sys):
    if hasattr(sys, "addaudithook"):
        tell_lines(sys, os.readlink, os.path.dirname(os.__file__) + "/")
