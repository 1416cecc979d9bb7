"""The plan, applied to a model of the receiver: whatever both sides held, the remote tree becomes the local one."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from dkdbg.sync.plan import LARGE_BYTES, RemoteEntry, link_digest, plan


@dataclass(frozen=True)
class Local:
    """A stand-in for an entry of the scan; `digest` is what reading the file would give."""

    kind: str
    mode: int = 0o644
    size: int = 0
    target: str = ""
    stamp: str = ""
    digest: str = ""


@dataclass
class Remote:
    """The rules of the receiver (ADR 10) on a dictionary: what is refused there raises here."""

    tree: dict[str, RemoteEntry]
    kept: list[str] = field(default_factory=list)

    def apply(self, step, local):
        getattr(self, step.operation)(step.path, local.get(step.path))

    def delete(self, path, _):
        assert self.tree[path].held, f"{path} is not ours"
        if any(other.startswith(path + "/") for other in self.tree):
            self.tree[path] = self.tree[path]._replace(held=False)  # it stays, and is not ours any more
        else:
            del self.tree[path]

    def mkdir(self, path, wanted):
        self._place(path, wanted, replaces=())

    def link(self, path, wanted):
        self._place(path, wanted, replaces=("f", "l"))

    def put(self, path, wanted):
        self._place(path, wanted, replaces=("f", "l"))

    def mode(self, path, wanted):
        old = self.tree[path]
        assert old.held
        assert old.kind == "f"
        self.tree[path] = old._replace(mode=wanted.mode)

    def adopt(self, path, wanted):
        assert self.tree[path].kind == wanted.kind
        self.tree[path] = self.tree[path]._replace(stamp=wanted.stamp, held=True)

    def check(self, path, wanted):
        assert self.tree[path].size == wanted.size, "reading it is of no use"
        if self.tree[path].digest != wanted.digest:
            return self.put(path, wanted)
        self.adopt(path, wanted)
        return self.mode(path, wanted)

    def _place(self, path, wanted, replaces):
        parent = path.rpartition("/")[0]
        assert not parent or self.tree[parent].kind == "d", f"{path} has no folder"
        old = self.tree.get(path)
        if old and not (old.held and old.kind in replaces):
            self.kept.append(path)
            for other in [other for other in self.tree if other == path or other.startswith(path + "/")]:
                del self.tree[other]
        digest = digest_of(wanted)
        self.tree[path] = RemoteEntry(wanted.kind, wanted.mode, wanted.size, digest, wanted.stamp)


def digest_of(wanted):
    return {"f": wanted.digest, "l": link_digest(wanted.target), "d": ""}[wanted.kind]


NAMES = ("a", "a-b", "b", "A", "ä")
CONTENT = ("", "x", "y", "xx")
MODES = (0o644, 0o755)


@st.composite
def trees(draw):
    """path -> (kind, mode, content), each folder of a path included."""
    tree = {}

    def fill(prefix, depth):
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
            kind = draw(st.sampled_from("ffld" if depth < 3 else "ffl"))
            tree[prefix + name] = (kind, draw(st.sampled_from(MODES)), draw(st.sampled_from(CONTENT)))
            if kind == "d":
                fill(f"{prefix}{name}/", depth + 1)

    fill("", 0)
    return tree


def local_of(tree):
    made = {}
    for path, (kind, mode, content) in tree.items():
        if kind == "f":
            made[path] = Local("f", mode, len(content), "", f"stamp of {content}", f"digest of {content}")
        else:
            made[path] = Local(kind, 0o755, 0, f"to-{content}" if kind == "l" else "")
    return made


def remote_of(tree, held, stamps):
    made = {}
    for index, (path, (kind, mode, content)) in enumerate(sorted(tree.items())):
        ours = held[index % len(held)]
        digest = {"f": f"digest of {content}", "l": link_digest(f"to-{content}"), "d": ""}[kind]
        stamp = f"stamp of {content}" if ours and kind == "f" and stamps[index % len(stamps)] else ""
        what = (mode, len(content)) if kind == "f" else (0o755, 0)
        made[path] = RemoteEntry(kind, *what, digest, stamp, held=ours)
    for path in list(made):  # the ledger holds the folders of what it holds
        parent = path.rpartition("/")[0]
        while parent and made[path].held and not made[parent].held:
            made[parent] = made[parent]._replace(held=True)
            parent = parent.rpartition("/")[0]
    return made


BOOLS = st.lists(st.booleans(), min_size=1, max_size=7)


@given(trees(), trees(), BOOLS, BOOLS)
def test_the_plan_makes_the_remote_tree_the_local_one_and_loses_nothing_not_ours(before, after, held, stamps):
    local, remote = local_of(after), remote_of(before, held, stamps)
    model = Remote(dict(remote))
    for step in plan(local, remote):
        model.apply(step, local)
    for path, wanted in local.items():
        there = model.tree[path]
        assert (there.kind, there.size, there.held) == (wanted.kind, wanted.size, True)
        assert there.digest == (digest_of(wanted))
        assert wanted.kind != "f" or there.mode == wanted.mode
    for path, there in remote.items():
        if there.held or path in local:
            continue
        above = {path[:end] for end in range(1, len(path) + 1)}
        assert path in model.tree or above & set(model.kept), f"{path} is lost"
    assert plan(local, model.tree) == []


@given(trees())
def test_equal_trees_need_nothing(tree):
    local = local_of(tree)
    assert plan(local, remote_of(tree, [True], [True])) == []


def test_the_folder_of_a_deleted_file_goes_after_it_and_both_before_what_replaces_them():
    remote = remote_of({"a": ("d", 0, ""), "a/x": ("f", 0o644, "x"), "a-b": ("f", 0o644, "")}, [True], [True])
    local = local_of({"a": ("f", 0o644, "y"), "A": ("f", 0o644, "")})
    assert [(step.operation, step.path) for step in plan(local, remote)] == [
        ("delete", "a/x"), ("delete", "a-b"), ("delete", "a"), ("put", "A"), ("put", "a"),
    ]  # fmt: skip


def test_a_file_of_the_same_size_without_an_equal_stamp_is_read_a_changed_mode_sends_the_mode_and_large_files_come_last():
    there = RemoteEntry(kind="f", mode=0o644, size=1, digest="d", stamp="")
    assert [step.operation for step in plan({"a": Local("f", size=1, stamp="")}, {"a": there})] == ["check"]
    there = RemoteEntry(kind="f", mode=0o644, size=1, digest="d", stamp="s")
    assert [step.operation for step in plan({"a": Local("f", 0o755, 1, "", "s")}, {"a": there})] == ["mode"]
    local = {"a": Local("f", size=LARGE_BYTES + 1), "b": Local("d"), "b/c": Local("f", size=1)}
    assert [step.path for step in plan(local, {})] == ["b", "b/c", "a"]
