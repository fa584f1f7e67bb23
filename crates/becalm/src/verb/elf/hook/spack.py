"""A command of Spack's: what is installed starts without searching for its libraries.

    mkdir -p /apps/spack-becalm/becalm/cmd
    becalm elf hook spack > /apps/spack-becalm/becalm/cmd/bind.py
    spack config add 'config:extensions:[/apps/spack-becalm]'

    spack install app && spack bind

Spack runs no code of a site's after an installation: the command is one to type, or to put behind
`spack install` in what a site installs with. It binds the whole install tree, because what a library is
bound to depends on all programs that load it; what is bound already stays as it is. Run it while nothing
else installs into the tree. `becalm undo` takes each binding back.
"""

import subprocess
import sys

import spack.store

description = "bind what is installed to its libraries, so that starts search for nothing (becalm)"
section = "system"
level = "long"

BIND = @BIND@


def setup_parser(subparser):
    """What the command takes; all else is chosen when this file is made."""
    subparser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")


def bind(parser, args):
    """Binds the install tree of this Spack; those of upstreams belong to others."""
    # STORE since 0.21; before, the module itself had its root.
    root = str(getattr(spack.store, "STORE", spack.store).root)
    sys.stdout.flush()
    return subprocess.call(BIND + (["--dry-run"] if args.dry_run else []) + ["--", root])
