"""Reads a becalm recording, written from docs/recording-format.md alone.

Needs the program zstd. Prints each record as a JSON object of the names that the document gives.
"""

import json
import subprocess
import sys
import zlib

MAGIC = b"becalm-record 1\n"


class Values:
    """Values of a block of records, one after the other."""

    def __init__(self, block):
        self.block = block
        self.at = 0

    def byte(self):
        self.at += 1
        return self.block[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def bytes(self):
        length = self.number()
        self.at += length
        return self.block[self.at - length : self.at]

    def text(self):
        return self.bytes().decode()

    def flag(self):
        return {0: False, 1: True}[self.byte()]

    def option(self, read):
        return read() if self.flag() else None

    def list(self, read):
        return [read() for _ in range(self.number())]


def blocks(file):
    """The kind and content of each whole block."""
    assert file.read(16) == MAGIC, "another kind of file"
    while len(frame := file.read(13)) == 13:
        kind = chr(frame[0])
        unpacked, packed, checksum = (
            int.from_bytes(frame[at : at + 4], "little") for at in (1, 5, 9)
        )
        content = file.read(packed)
        if len(content) < packed or zlib.crc32(content) != checksum:
            return
        zstd = ["zstd", "--decompress", "--stdout", "--quiet"]
        content = subprocess.run(zstd, input=content, stdout=subprocess.PIPE, check=True).stdout
        assert len(content) == unpacked
        yield kind, content
        if kind == "S":
            return


class Reader:
    def __init__(self, file):
        self.paths = []
        self.last_start = 0
        self.last_touch = (0, 0)
        self.header = self.summary = None
        self.file = file

    def records(self):
        for kind, content in blocks(self.file):
            if kind == "H":
                self.header = json.loads(content)
            elif kind == "S":
                self.summary = json.loads(content)
            else:
                values = Values(content)
                while values.at < len(content):
                    record = self.record(values)
                    if record is not None:
                        yield record

    def record(self, values):
        kinds = ["path", "call", "start", "thread", "exec", "end", "image", "blind", "signal"]
        kind = (kinds + ["origin", "mounts", "touch", "range", "words"])[values.number()]
        fields = getattr(self, kind)(values)
        return fields and {"type": kind, **fields}

    def path(self, values):
        self.paths.append(values.bytes())

    def path_of(self, values):
        return self.paths[values.number()].hex()

    def call(self, v):
        self.last_start = (self.last_start + v.signed()) % 2**64
        call = {"at_ns": self.last_start, "took_ns": v.number()}
        call |= {"process": v.number(), "thread": v.number()}
        number = v.number()
        table, number = number >> 14, number & 0x3FFF
        if table == 3 and number >= 0x2000:
            table, number = 4, number - 0x2000
        call |= {"number": number, "abi": ["x86_64", "i386", "x32", "aarch64", "arm"][table]}
        returned = v.number() == 0
        call["result"] = v.signed() if returned else None
        call["errno"] = None if returned else v.number()
        call["path"] = v.option(lambda: self.path_of(v))
        call["other_path"] = v.option(lambda: self.path_of(v))
        call["fd"] = v.option(v.signed)
        call["flags"] = v.number()
        call["site"] = v.option(lambda: self.path_of(v))
        call["in_loader"] = v.flag()
        call["phase"] = ["loading", "running"][v.number()]
        call["by_descriptor"] = v.flag()
        return call

    def start(self, v):
        start = {"process": v.number(), "pid": v.number(), "parent": v.option(v.number)}
        how = ["command", "fork", "vfork", "clone"][v.number()]
        return start | {"how": how, "at_ns": v.number()}

    def thread(self, v):
        return {"process": v.number(), "thread": v.number(), "at_ns": v.number()}

    def exec(self, v):
        exec = {"process": v.number(), "at_ns": v.number()}
        exec |= {"path": self.path_of(v), "image": self.path_of(v)}
        exec |= {"argv": v.list(v.text), "cwd": self.path_of(v)}
        exec["loader"] = v.option(lambda: self.path_of(v))
        return exec | {"env": dict(v.list(lambda: (v.text(), v.text())))}

    def end(self, v):
        end = {"process": v.number(), "at_ns": v.number()}
        end["status"] = {["exited", "signaled"][v.number()]: v.byte()}
        return end | {"user_us": v.number(), "system_us": v.number(), "max_rss_bytes": v.number()}

    def image(self, v):
        image = {"path": self.path_of(v)}
        image["soname"] = v.option(v.text)
        image |= {name: v.list(v.text) for name in ["needed", "rpath", "runpath"]}
        return image | {"interpreter": v.option(v.text)}

    def blind(self, v):
        kinds = ["io_uring", "setuid", "tracer_refused", "own_filter", "outer_filter"]
        kind = (kinds + ["unreadable", "other_root", "lost", "request_failed"] + ["faults_unseen", "faults_lost"])[v.number()]
        blind = {"blind": kind}
        if kind != "outer_filter":
            counts = {"lost": "calls", "faults_lost": "faults"}
            blind[counts.get(kind, "process")] = v.number()
        if kind == "setuid":
            blind["path"] = v.text()
        if kind in ("request_failed", "faults_unseen"):
            blind["error"] = v.text()
        return blind

    def signal(self, v):
        signal = {"process": v.number(), "thread": v.number()}
        return signal | {"signal": v.byte(), "at_ns": v.number()}

    def origin(self, v):
        origin = {"process": v.number(), "rss_bytes": v.number()}
        return origin | {"frames": v.list(lambda: self.frame(v))}

    def mounts(self, v):
        mounts = {"process": v.number(), "at_ns": v.number(), "namespace": v.number()}
        return mounts | {"mounts": v.list(lambda: self.mount(v))}

    def touch(self, v):
        touch = {"process": v.number(), "thread": v.number(), "path": self.path_of(v)}
        offset, at = (last + v.signed() for last in self.last_touch)
        self.last_touch = (offset % 2**64, at % 2**64)
        return touch | {"offset": self.last_touch[0], "at_ns": self.last_touch[1]}

    def range(self, v):
        return {"offset": v.number(), "bytes": v.number()}

    def words(self, v):
        return {"process": v.number(), "words": v.list(v.text)}

    def mount(self, v):
        return {"point": v.text(), "fs": v.text(), "source": v.text()}

    def frame(self, v):
        file = v.option(lambda: self.path_of(v))
        return {"file": file, "line": v.number(), "function": v.text()}


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        reader = Reader(file)
        for record in reader.records():
            print(json.dumps(record))
        whole = reader.summary is not None
        print(json.dumps({"type": "file", "header": reader.header, "whole": whole}))
