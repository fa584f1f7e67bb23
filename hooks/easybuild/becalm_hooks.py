"""EasyBuild hooks: an installation whose start costs too much fails its sanity check.

    eb --hooks=becalm_hooks.py app-1.2.eb

Each sanity check command runs under `becalm check`, in the environment that EasyBuild has loaded the new
module in. Where a budget is exceeded, or the start has grown over what an earlier installation of the
software had, the command fails, and with it the sanity check; its output says what grew.

From the environment:

    BECALM                the program; `becalm` on PATH
    BECALM_BUDGET         what a start may cost, as `becalm check --budget` takes it: failed=200,wait=2s
    BECALM_BASELINES      a directory that remembers what starts cost. What is not in it yet is written
                          there; what is, a new installation is compared with. Remove a file to renew it.
    BECALM_TOLERANCE      how much a start may grow over its baseline; 5%
    BECALM_MODULE_CACHES  1: make the caches of the modulepaths that were installed into true again, when
                          EasyBuild is done

Without BECALM_BUDGET and BECALM_BASELINES, nothing is checked. A site that has a hooks file imports these
functions into it. EasyBuild 5.0 or later: older ones do not say which commands the sanity check runs.
"""

import os
import re
import shlex
import shutil
import subprocess

from easybuild.tools.build_log import EasyBuildError, print_msg, print_warning
from easybuild.tools.config import install_path

# The easyblock whose sanity check runs, how many commands of its were started (they are told apart by
# their order, as their words name paths of one version), and the baselines that they write.
_checked = None
_started = 0
_new_baselines = []


def _becalm():
    """Becalm's path; a hook that silently checks nothing would be believed."""
    found = shutil.which(os.environ.get("BECALM", "becalm"))
    if found is None:
        raise EasyBuildError("becalm is not on PATH; set BECALM to its path, or leave out the hooks")
    return found


def pre_sanitycheck_hook(self, *args, **kwargs):
    """From here on, commands are the sanity check's."""
    global _checked, _started
    if os.environ.get("BECALM_BUDGET") or os.environ.get("BECALM_BASELINES"):
        _checked, _started = self, 0
        _new_baselines.clear()


def post_sanitycheck_hook(self, *args, **kwargs):
    """Commands are no sanity check's any more. It has passed, and its starts are what others are held
    against."""
    global _checked
    _checked = None
    for baseline in _new_baselines:
        os.replace(baseline + ".new", baseline)


def pre_run_shell_cmd_hook(cmd, *args, work_dir=None, **kwargs):
    """The command that is run instead; None where it stays as it is."""
    global _started
    # Sanity check commands alone are run in a directory of this name.
    if _checked is None or not os.path.basename(work_dir or "").startswith("eb-sanity-check-"):
        return None
    _started += 1
    words = [_becalm(), "check", "--until", "exit", *_limits(_checked, _started)]
    # EasyBuild runs text by bash, and a list of words as they are.
    words += ["--", *(["bash", "-c", cmd] if isinstance(cmd, str) else cmd)]
    return shlex.join(words) if isinstance(cmd, str) else words


def _limits(block, number):
    """The options that name what this command's start is held against."""
    budget = os.environ.get("BECALM_BUDGET")
    options = ["--budget", budget] if budget else []
    directory = os.environ.get("BECALM_BASELINES")
    if not directory:
        return options
    os.makedirs(directory, exist_ok=True)
    baseline = os.path.join(directory, _name_of(block) + "-%d.becalm" % number)
    if os.path.exists(baseline):
        tolerance = os.environ.get("BECALM_TOLERANCE", "5%")
        return options + ["--baseline", baseline, "--tolerance", tolerance]
    _new_baselines.append(baseline)
    return options + ["-o", baseline + ".new"]


def _name_of(block):
    """The software, without its version: the next one is compared with this one."""
    return re.sub(r"[^\w.+-]", "_", block.name + block.cfg["versionsuffix"])


def end_hook(*args, **kwargs):
    """Once all is installed, caches of the modulepath are made true again."""
    if os.environ.get("BECALM_MODULE_CACHES") != "1":
        return
    modules = os.path.join(install_path("mod"), "all")
    if not os.path.isdir(modules):
        return
    done = subprocess.run([_becalm(), "modules", "cache", "refresh", modules],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    # The software is installed, whatever becomes of a cache.
    say = print_msg if done.returncode == 0 else print_warning
    say("becalm modules cache refresh: %s" % done.stdout.strip())
