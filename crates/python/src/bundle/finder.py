# becalm's bundle finder. A bundle is a zip file at its end, so PYTHONPATH=BUNDLE makes module `site`
# import this as `sitecustomize`. It answers imports from the bundle's index and leaves nothing else
# behind. Every Python may meet it, so it keeps to what Python 2 reads; CPython 3.9 and later use it.

WINDOW = 1 << 20  # bytes that are read at a time
MOST_WINDOWS = 8  # and kept
MAGIC = b"becalm-pybundle/1 "
HEADER = 64


class Bundle(object):
    """The file: its index, and the code behind it. No descriptor stays open."""

    def __init__(self, path, posix):
        self.path = path
        self.posix = posix
        self.identity = None
        self.windows = ()
        head = self.read(0, WINDOW)
        if head is None or head[:len(MAGIC)] != MAGIC:
            raise ValueError("no bundle")
        index, code = int(head[18:34]), int(head[35:51])
        if HEADER + index + code > self.identity[2]:
            raise ValueError("cut short")
        self.start, self.end = HEADER + index, HEADER + index + code
        if self.start > len(head):
            head = self.read(0, self.start)
        self.index = head[HEADER:self.start].decode("utf-8")
        self.windows = ((0, head),)

    def read(self, offset, length):
        """Bytes of the file; None where it is no longer the one that was opened first."""
        posix = self.posix
        descriptor = posix.open(self.path, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            status = posix.fstat(descriptor)
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if self.identity is None:
                self.identity = identity
            if self.identity != identity:
                return None
            parts = []
            while length > 0:
                part = posix.pread(descriptor, length, offset)
                if not part:
                    break
                parts.append(part)
                offset += len(part)
                length -= len(part)
            return b"".join(parts)
        finally:
            posix.close(descriptor)

    def code(self, offset, length):
        """A module's marshalled code; None where it cannot be had."""
        offset += self.start
        if offset < self.start or length <= 0 or offset + length > self.end:
            return None
        for begin, data in self.windows:
            if begin <= offset and offset + length <= begin + len(data):
                return memoryview(data)[offset - begin:offset - begin + length]
        try:
            data = self.read(offset, max(min(WINDOW, self.end - offset), length))
        except OSError:
            return None
        if data is None or len(data) < length:
            return None
        self.windows = (self.windows + ((offset, data),))[-MOST_WINDOWS:]
        return memoryview(data)[:length]


class Folder(object):
    """What FileFinder would find in a folder, as it was when the bundle was made."""

    def __init__(self, record, make):
        head, _, self.lines = record.partition("\n")
        self.path, mtime, self.flags = head.split("\t")
        self.mtime = int(mtime)
        self.is_sure = "look" not in self.flags  # else it is looked at before it is believed
        self.names = None
        self.make = make

    def find_spec(self, fullname, target=None):
        if self.names is None:
            self.names = dict((line.partition("\t")[::2]) for line in self.lines.split("\n") if line)
        found = self.names.get(fullname.rpartition(".")[2])
        return None if found is None else self.make(self, fullname, found.split("\t"))


def is_usual(hooks):
    """Whether folders are searched by FileFinder and nothing else."""
    names = [getattr(hook, "__name__", "") for hook in hooks]
    return names == ["zipimporter", "path_hook_for_FileFinder"]


def finder_for(bundle, folders, check, sys, posix):
    external = sys.modules["_frozen_importlib_external"]
    bootstrap = sys.modules["_frozen_importlib"]
    loads = sys.modules["marshal"].loads
    hooks = list(sys.path_hooks)

    class BundleLoader(external.SourceFileLoader):
        """A source module's loader; its code comes from the bundle, all else from its place."""

        def get_code(self, fullname):
            data = bundle.code(*self.place) if fullname == self.name else None
            if data is None or data[0] & 0x7F != 0x63:  # marshal's TYPE_CODE, with or without FLAG_REF
                return super(BundleLoader, self).get_code(fullname)
            return loads(data)

    def is_as_packed(path, mtime, size=None):
        try:
            status = posix.stat(path)
        except OSError:
            return False
        return status.st_mtime_ns == mtime and size in (None, status.st_size)

    def loader(folder, fullname, path, place):
        if path.endswith(".py"):
            if place:
                offset, length, mtime, size = map(int, place)
                if "look" not in folder.flags or is_as_packed(path, mtime, size):
                    made = BundleLoader(fullname, path)
                    made.place = (offset, length)
                    return made
            return external.SourceFileLoader(fullname, path)
        if path.endswith(".pyc"):
            return external.SourcelessFileLoader(fullname, path)
        return external.ExtensionFileLoader(fullname, path)

    def make(folder, fullname, found):
        """The spec that FileFinder.find_spec makes."""
        base = folder.path + "/" + fullname.rpartition(".")[2]
        suffix = found[0]
        if suffix == "/":
            spec = bootstrap.ModuleSpec(fullname, None)
            spec.submodule_search_locations = [base]
            return spec
        path = base + suffix
        return external.spec_from_file_location(
            fullname, path,
            loader=loader(folder, fullname, path, found[1:]),
            submodule_search_locations=[base] if suffix[0] == "/" else None)

    class BundleFinder(external.PathFinder):
        """PathFinder, but that it knows what is in the bundle's folders. What it does not find,
        PathFinder itself, which comes next, looks for."""

        find_distributions = None  # PathFinder's finds them

        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            # A module is reloaded because it has changed.
            if target is not None or sys.path_hooks != hooks:
                return None
            return super(BundleFinder, cls).find_spec(fullname, path, target)

        @classmethod
        def _path_importer_cache(cls, path):
            if path == "":
                try:
                    path = posix.getcwd()
                except OSError:
                    return None
            folder = folders.get(path) or folders.get(path.rstrip("/"))
            known = sys.path_importer_cache.get(path, folder)
            if folder is not None and (known is folder or type(known) is external.FileFinder):
                if folder.is_sure or is_as_packed(folder.path, folder.mtime):
                    folder.is_sure = True
                    return folder
                folders.pop(folder.path, None)
            return super(BundleFinder, cls)._path_importer_cache(path)

        @staticmethod
        def invalidate_caches():
            if check != "no":
                for folder in folders.values():
                    folder.is_sure = False

    for record in bundle.index.split("\n\n")[1:]:
        folder = Folder(record, make)
        if check == "full":
            folder.flags, folder.is_sure = folder.flags + " look", False
        folders[folder.path] = folder
    if check == "quick":
        changed = [folder.path for folder in folders.values()
                   if "check" in folder.flags and not is_as_packed(folder.path, folder.mtime)]
        for path in changed:
            for below in list(folders):
                if below == path or below.startswith(path + "/"):
                    del folders[below]
        if changed:
            tell_changed(bundle.path, changed, sys)
    return BundleFinder


def tell_changed(bundle, changed, sys):
    environ = sys.modules["os"].environ
    if sys.stderr is None or environ.get("BECALM_PYBUNDLE_TOLD") == bundle:
        return
    environ["BECALM_PYBUNDLE_TOLD"] = bundle  # once, not by every child
    more = "" if len(changed) == 1 else " (and %d more folders)" % (len(changed) - 1)
    sys.stderr.write(
        "becalm: %s: %s%s changed after it was made: what is below is imported as without; "
        "make the bundle anew\n" % (bundle, changed[0], more))


def fits(line, sys):
    """Whether the bundle was made for this Python: its bytecode, its suffixes, its -O."""
    external = sys.modules.get("_frozen_importlib_external")
    if sys.version_info < (3, 9) or external is None:
        return False
    magic, optimize, suffixes = line.split("\t")[1:4]
    own = sys.modules["_imp"].extension_suffixes() + [".py", ".pyc"]
    return (external.MAGIC_NUMBER.hex() == magic and str(sys.flags.optimize) == optimize
            and own == suffixes.split(" "))


def start(archive):
    import sys
    # What the program would have seen without the bundle.
    sys.path[:] = [entry for entry in sys.path if entry != archive]
    sys.path_importer_cache.pop(archive, None)
    getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {}).pop(archive, None)
    if sys.version_info >= (3, 9):
        try:
            install(archive, sys)
        except (OSError, ValueError):
            pass  # no bundle, then: all is imported as without
    # Python 2 empties a module that nobody holds.
    return sys.modules.pop("sitecustomize", None)


def install(archive, sys):
    posix = sys.modules["posix"]
    bundle = Bundle(archive, posix)
    if not fits(bundle.index.partition("\n")[0], sys) or not is_usual(sys.path_hooks):
        return
    external = sys.modules["_frozen_importlib_external"]
    check = sys.modules["os"].environ.get("BECALM_PYBUNDLE_CHECK", "quick")
    place = sys.meta_path.index(external.PathFinder)
    sys.meta_path.insert(place, finder_for(bundle, {}, check, sys, posix))


this = start(__loader__.archive)
import sitecustomize  # the command's own, if it has one; its absence is the interpreter's to handle
