"""EasyBuild hooks: what was installed starts without searching for its libraries.

    becalm elf hook easybuild > /apps/easybuild/becalm_bind.py
    eb --hooks=/apps/easybuild/becalm_bind.py --rpath app-1.2.eb

EasyBuild takes one file of hooks: a site that has one imports the function into it. EasyBuild 4.8.1
or later. All software of the install path is looked at, because what a library is bound to depends on
all programs that load it; what is bound already stays as it is. `becalm undo` takes each binding back.
"""

import os
import subprocess

from easybuild.tools.build_log import print_msg, print_warning
from easybuild.tools.config import install_path
from easybuild.tools.filetools import det_lock_path

BIND = @BIND@


def post_build_and_install_loop_hook(installed, *args, **kwargs):
    """Once all is installed, it is bound. It stays installed if it cannot be bound."""
    if not any(result.get("success") for _, result in installed):
        return
    # Files of an installation that goes on may be written at this moment.
    others = _other_installations()
    if others:
        print_warning("not bound while something else is installed (%s); the last one binds all", others[0])
        return
    done = subprocess.run(BIND + ["--", install_path()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)
    say = print_msg if done.returncode == 0 else print_warning
    say("becalm elf bind: %s", done.stdout.strip())


def _other_installations():
    locks = os.path.dirname(det_lock_path("any"))
    if not os.path.isdir(locks):
        return []
    return sorted(os.path.join(locks, name) for name in os.listdir(locks))
