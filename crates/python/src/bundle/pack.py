# Run by the interpreter that a bundle is for, alone (-I -S -B): says what it is, then, for each
# source in a list, gives the code that an import would run. Nothing of a source is executed.
import sys
from importlib.machinery import SourceFileLoader, all_suffixes
from importlib.util import MAGIC_NUMBER
import _imp
import marshal
import os


def facts():
    suffixes = _imp.extension_suffixes() + [".py", ".pyc"]
    assert sys.version_info >= (3, 9) and sys.implementation.name == "cpython"
    assert sorted(suffixes) == sorted(all_suffixes())
    version = "%d.%d.%d" % sys.version_info[:3]
    words = [MAGIC_NUMBER.hex(), str(sys.flags.optimize), " ".join(suffixes), version]
    return "\t".join(words)


def code_of(path):
    # The bytecode if it is valid, else the source, as SourceLoader.get_code decides.
    return SourceFileLoader("module", path).get_code("module")


def put(out, kind, data):
    out.write(kind + len(data).to_bytes(8, "little") + data)


def pack(paths, out):
    for path in paths:
        try:
            code = marshal.dumps(code_of(os.fsdecode(path)))
        except (ImportError, OSError, SyntaxError, ValueError, EOFError, RecursionError, MemoryError):
            put(out, b"E", b"")
        else:
            put(out, b"C", code)


def main(what, *files):
    if what == "facts":
        print(facts())
        return
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    import warnings
    warnings.simplefilter("ignore")  # of sources that are compiled
    with open(files[0], "rb") as list_, open(files[1], "wb") as out:
        pack([path for path in list_.read().split(b"\0") if path], out)
        with open(files[2], "rb") as finder:
            code = compile(finder.read(), "<becalm python bundle>", "exec", dont_inherit=True)
        # An unchecked hash-based .pyc (PEP 552).
        put(out, b"C", MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code))


main(*sys.argv[1:])
