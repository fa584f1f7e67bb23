# becalm's bundle finder. A bundle is a zip file at its end, so PYTHONPATH=BUNDLE makes module `site`
# import this as `sitecustomize`. It answers imports from the bundle's index and leaves nothing else
# behind. Every Python may meet it, so it keeps to what Python 2 reads; CPython 3.9 and later use it.
# All that it needs is in sys.modules when it runs: it imports nothing.
import sys

posix = sys.modules["posix"]
external = sys.modules.get("_frozen_importlib_external", sys)
SourceFileLoader = getattr(external, "SourceFileLoader", object)
PathFinder = getattr(external, "PathFinder", object)

MAGIC = b"becalm-pybundle/1 "
HEADER = 64  # bytes
FIRST = 1 << 18  # bytes that are read at once: the index, mostly
WINDOW = 4 << 20  # of code
MOST_WINDOWS = 4  # that are kept


class Bundle(object):
    """The file: its index, and the code behind it. No descriptor stays open."""

    def __init__(self, path):
        self.path = path
        self.identity = None
        self.windows = ()
        head = self.read(0, FIRST)
        if head[:len(MAGIC)] != MAGIC:
            raise ValueError("no bundle")
        index, code = int(head[18:34]), int(head[35:51])
        self.start, self.end = HEADER + index, HEADER + index + code
        if min(index, code) < 0 or self.end > self.identity[2]:
            raise ValueError("cut short")
        if self.start > len(head):
            head += self.read(len(head), self.start - len(head)) or b""
        self.index = head[HEADER:self.start].decode("utf-8")
        self.windows = ((0, head),)

    def read(self, offset, length):
        """Bytes of the file; None where it is no longer the one that was opened first."""
        descriptor = posix.open(self.path, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            status = posix.fstat(descriptor)
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            self.identity = self.identity or identity
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


class BundleLoader(SourceFileLoader):
    """A source module's loader: its code comes from the bundle, all else from its place."""

    def get_code(self, fullname):
        data = self.bundle.code(*self.place) if fullname == self.name else None
        if data is None or data[0] & 0x7F != 0x63:  # marshal's TYPE_CODE; the flag is FLAG_REF
            return super(BundleLoader, self).get_code(fullname)
        return sys.modules["marshal"].loads(data)


def is_as_packed(path, mtime, size=None):
    try:
        status = posix.stat(path)
    except OSError:
        return False
    return status.st_mtime_ns == mtime and size in (None, status.st_size)


class Directory(object):
    """What FileFinder would find in a directory, as it was when the bundle was made."""

    def __init__(self, record, bundle):
        head, _, self.lines = record.partition("\n")
        self.path, mtime, flags = head.split("\t")
        self.mtime = int(mtime)
        self.bundle = bundle
        self.is_checked = flags == "check"
        self.look_first(flags == "look")
        self.names = None
        self.listed = None  # the names in it, if it has changed

    def look_first(self, is_wanted):
        """Has the directory and its sources looked at before they are believed, or not."""
        self.looks, self.is_sure = is_wanted, not is_wanted

    def make_sure(self):
        """Looks at the directory itself, unless it is believed."""
        if not self.is_sure:
            self.listed = None
            if not is_as_packed(self.path, self.mtime):
                try:
                    self.listed = {name.partition(".")[0] for name in posix.listdir(self.path)}
                except OSError:
                    self.listed = ()
            self.is_sure = True

    def find_spec(self, fullname, target=None):
        if self.names is None:
            self.names = dict(line.partition("\t")[::2] for line in self.lines.split("\n") if line)
        tail = fullname.rpartition(".")[2]
        found = self.names.get(tail, "").split("\t")
        if self.listed is not None:
            return self.find_anew(fullname, tail, found) if tail in self.listed else None
        return self.spec(fullname, self.path + "/" + tail, found) if found[0] else None

    def spec(self, fullname, base, found):
        """The spec that FileFinder.find_spec makes."""
        suffix, path = found[0], base + found[0]
        if suffix == "/":
            spec = sys.modules["_frozen_importlib"].ModuleSpec(fullname, None)
            spec.submodule_search_locations = [base]
            return spec
        loader = self.loader(fullname, path, found[1:])
        return external.spec_from_file_location(
            fullname, path, loader=loader,
            submodule_search_locations=[base] if suffix[0] == "/" else None)

    def find_anew(self, fullname, tail, found):
        """As without the bundle, but that the code may come from it."""
        finder = PathFinder._path_importer_cache(self.path)
        spec = finder and finder.find_spec(fullname)
        if spec is not None and spec.loader is not None and len(found) > 1:
            if spec.origin == self.path + "/" + tail + found[0]:
                spec.loader = self.loader(fullname, spec.origin, found[1:])
        return spec

    def loader(self, fullname, path, place):
        if path.endswith(".pyc"):
            return external.SourcelessFileLoader(fullname, path)
        if not path.endswith(".py"):
            return external.ExtensionFileLoader(fullname, path)
        if place:
            offset, length, mtime, size = map(int, place)
            if not self.looks or is_as_packed(path, mtime, size):
                loader = BundleLoader(fullname, path)
                loader.bundle, loader.place = self.bundle, (offset, length)
                return loader
        return SourceFileLoader(fullname, path)


class BundleFinder(PathFinder):
    """PathFinder, but that it knows what is in the bundle's directories. What it does not find,
    PathFinder itself, which comes next, looks for."""

    find_distributions = None  # PathFinder's finds them
    directories = {}
    hooks = []

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        # A module is reloaded because it has changed.
        if target is not None or sys.path_hooks != cls.hooks:
            return None
        return super(BundleFinder, cls).find_spec(fullname, path, target)

    @classmethod
    def _path_importer_cache(cls, path):
        if path == "":
            try:
                path = posix.getcwd()
            except OSError:
                return None
        directory = cls.directories.get(path) or cls.directories.get(path.rstrip("/"))
        known = sys.path_importer_cache.get(path, directory)
        if directory is not None and (known is directory or type(known) is external.FileFinder):
            directory.make_sure()
            return directory
        return super(BundleFinder, cls)._path_importer_cache(path)

    @classmethod
    def invalidate_caches(cls):
        for directory in cls.directories.values():
            directory.is_sure = False


def drop_changed(directories, bundle):
    """A directory that an installer changed is not believed, nor is what is below it."""
    changed = [directory for directory in directories.values()
               if directory.is_checked and not is_as_packed(directory.path, directory.mtime)]
    for directory in changed:
        for below in list(directories):
            if below == directory.path or below.startswith(directory.path + "/"):
                del directories[below]
    environ = sys.modules["os"].environ
    if not changed or sys.stderr is None or environ.get("BECALM_PYBUNDLE_TOLD") == bundle.path:
        return
    environ["BECALM_PYBUNDLE_TOLD"] = bundle.path  # once, not by every child
    more = "" if len(changed) == 1 else " (and %d more directories)" % (len(changed) - 1)
    sys.stderr.write(
        "becalm: %s: %s%s changed after it was made: what is below is imported as without; "
        "make the bundle anew\n" % (bundle.path, changed[0].path, more))


def fits(line):
    """Whether the bundle was made for this Python: its bytecode, its suffixes, its -O."""
    magic, optimize, suffixes = line.split("\t")[1:4]
    own = sys.modules["_imp"].extension_suffixes() + [".py", ".pyc"]
    return (external.MAGIC_NUMBER.hex() == magic and str(sys.flags.optimize) == optimize
            and own == suffixes.split(" "))


def is_usual(hooks):
    """Whether directories are searched by FileFinder and nothing else."""
    names = [getattr(hook, "__name__", "") for hook in hooks]
    return names == ["zipimporter", "path_hook_for_FileFinder"]


def install(archive):
    bundle = Bundle(archive)
    python, _, records = bundle.index.partition("\n\n")
    if not fits(python) or not is_usual(sys.path_hooks):
        return
    check = sys.modules["os"].environ.get("BECALM_PYBUNDLE_CHECK", "quick")
    directories = [Directory(record, bundle) for record in records.split("\n\n")]
    BundleFinder.directories = {directory.path: directory for directory in directories}
    BundleFinder.hooks = list(sys.path_hooks)
    if check == "full":
        for directory in directories:
            directory.look_first(True)
    elif check == "quick":
        drop_changed(BundleFinder.directories, bundle)
    sys.meta_path.insert(sys.meta_path.index(PathFinder), BundleFinder)


def start(archive):
    # What the program would have seen without the bundle.
    sys.path[:] = [entry for entry in sys.path if entry != archive]
    sys.path_importer_cache.pop(archive, None)
    getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {}).pop(archive, None)
    if sys.version_info >= (3, 9):
        try:
            install(archive)
        except (OSError, ValueError):
            pass  # no bundle, then: all is imported as without
    # Python 2 empties a module that nobody holds.
    return sys.modules.pop("sitecustomize", None)


this = start(__loader__.archive)
try:
    import sitecustomize  # the command's own, if it has one; its absence is the interpreter's to handle
except BaseException:
    sys.modules.setdefault("sitecustomize", this)  # zipimport of Python 3.9 takes it out unasked
    raise
