# Compiles what it is given, as an import would: asked once for all files of an image. Says first
# who it is; then reads a name and a source, and writes bytecode or why there is none. Opens no file.
import struct
import sys

from importlib import util
from importlib._bootstrap_external import _code_to_timestamp_pyc

take, give = sys.stdin.buffer, sys.stdout.buffer


def answer(status, content):
    give.write(struct.pack("<BI", status, len(content)) + content)
    give.flush()


def exactly(count):
    data = take.read(count)
    if len(data) != count:
        sys.exit(0)
    return data


tag = sys.implementation.cache_tag
if tag is None:
    sys.exit("it keeps no bytecode")
version = "%d.%d" % sys.version_info[:2]
about = [tag, version, util.MAGIC_NUMBER.hex()] + [path for path in sys.path if path]
answer(0, "\0".join(about).encode("utf-8", "surrogateescape"))
while True:
    *lengths, mtime = struct.unpack("<III", exactly(12))
    name, source = (exactly(length) for length in lengths)
    try:
        code = compile(source, name.decode("utf-8", "surrogateescape"), "exec", dont_inherit=True)
        answer(0, _code_to_timestamp_pyc(code, mtime, len(source)))
    except (Exception, SystemExit) as error:
        text = "%s: %s" % (type(error).__name__, error)
        answer(1, text.splitlines()[0].encode("utf-8", "replace"))
