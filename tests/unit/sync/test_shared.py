"""Mounts of macOS; those of Linux are in tests/far, on real file systems."""

from dkdbg.sync.shared import bsd_mounts, guesses

#: As mount(8) prints them on macOS 14, with macFUSE.
MOUNTS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse, protect, root data)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
node1:code on /Users/me/my code (macfuse, nodev, nosuid, synchronous, mounted by me)
nas:/export/home on /Users/me/nas (nfs, nodev, nosuid, mounted by me)
"""


def test_folders_of_another_machine_are_found_among_the_mounts_of_macos():
    found = bsd_mounts(MOUNTS)
    there = bsd_mounts("nas:/export on /data (nfs, rw)\n")
    assert guesses("/Users/me/my code/deep", found, there, "/home/me")[0] == "/home/me/code/deep"
    assert guesses("/Users/me/nas/me/code", found, there, "/home/me")[0] == "/data/home/me/code"
