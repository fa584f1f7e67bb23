# becalm's marker hook. It says where each import begins and ends, by asking for paths that
# cannot exist, and leaves nothing else behind: `becalm python scan` takes out of the recording
# all that is asked of this directory. It runs under every Python, so it keeps to what Python 2 reads.


def mark_imports(bootstrap, mark, here, sys):
    known = set()

    def tell(what):
        try:
            mark(here + what, 0)
        except Exception:
            pass  # a name that no path can hold

    def tell_path():
        for place, entry in enumerate(sys.path):
            if isinstance(entry, str) and entry not in known:
                known.add(entry)
                tell("/path/%d=%s" % (place, entry))

    # importlib holds one of these while it imports a module that is not in sys.modules yet
    # (bootstrap._find_and_load). Unlike a function around that one it is in no traceback.
    class _ModuleLockManager(bootstrap._ModuleLockManager):
        def __enter__(self):
            tell_path()
            tell("/begin/" + self._name)
            try:
                super(_ModuleLockManager, self).__enter__()
            except BaseException:
                tell("/end/" + self._name)
                raise

        def __exit__(self, *arguments):
            super(_ModuleLockManager, self).__exit__(*arguments)
            tell("/end/" + self._name)

    bootstrap._ModuleLockManager = _ModuleLockManager
    tell("/start")
    tell_path()


def begin(here, os, sys):
    bootstrap = sys.modules.get("_frozen_importlib")
    if hasattr(bootstrap, "_ModuleLockManager"):
        mark_imports(bootstrap, sys.modules["posix"].access, here, sys)
