"""Targets claim the capabilities that verbs ask for: each claim comes with its methods, and no method without its claim."""

import importlib
import inspect
import pkgutil

import pytest

from dkdbg import targets
from dkdbg.core.address import Address
from dkdbg.core.target import Capability, Target
from dkdbg.errors import EXIT_USAGE, DkdbgError

C = Capability
#: The methods that a target with the capability overrides, and no other target; of CONTAINER there are none.
METHODS = {
    C.START: {"up", "replaced", "start_again", "down"},
    C.ONE_OFF: {"once"},
    C.COPY: {"plan_copy", "make_copy", "remove_copy"},
    C.LOGS: {"logs"},
    C.LIST_PROCESSES: {"pythons", "within", "code_at"},
    C.REMOTE: {"again"},
    C.NEEDS_WORKDIR: {"names_workdir", "in_workdir", "planned_workdir", "with_workdir"},
    C.CLUSTER: {"driver", "worker_flags"},
    C.TIME_LIMITED: {"over"},
    C.ATTACH_ONLY: {"refusal"},
}
#: What a target overrides where commands can be run.
COMMANDS = {"find", "wrap", "agent", "workspace", "sessions"}
#: How a method is called that needs a capability, and has no honest answer without it.
REFUSED = {
    C.START: [lambda it: it.up(None, report=print, moved=print), lambda it: it.start_again(), lambda it: it.down(None, everything=False)],
    C.ONE_OFF: [lambda it: it.once(None, report=print)],
    C.COPY: [lambda it: it.plan_copy((), wait=0), lambda it: it.make_copy(report=print, limit=1), lambda it: it.remove_copy()],
    C.LOGS: [lambda it: it.logs(follow=False, lines=None)],
    C.LIST_PROCESSES: [lambda it: it.pythons(), lambda it: it.within("1:1")],
    C.NEEDS_WORKDIR: [lambda it: it.in_workdir("/code")],
}  # fmt: skip


class Plain(Target):
    def endpoint(self):
        raise AssertionError("nobody asks")


def _classes():
    for module in pkgutil.walk_packages(targets.__path__, f"{targets.__name__}."):
        importlib.import_module(module.name)
    found, asked = set(), [Target]
    while asked:
        asked += (more := asked.pop().__subclasses__())
        found.update(each for each in more if each.__module__.startswith(targets.__name__))
    return sorted(found, key=lambda each: each.__qualname__)


def _overridden(kind):
    return {name for name in vars(Target) if getattr(kind, name) is not getattr(Target, name)}


def _parameters(function):
    return [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("kind", _classes(), ids=lambda each: each.__name__)
def test_a_target_overrides_the_methods_of_the_capabilities_that_it_claims_and_of_no_other(kind):
    overridden = _overridden(kind)
    for capability, methods in METHODS.items():
        expected = methods if capability in kind.capabilities else set()
        assert overridden & methods == expected, capability


@pytest.mark.parametrize("kind", _classes(), ids=lambda each: each.__name__)
def test_a_target_runs_commands_unless_it_is_for_attaching_only(kind):
    assert (_overridden(kind) >= COMMANDS) == (C.ATTACH_ONLY not in kind.capabilities)


@pytest.mark.parametrize("kind", _classes(), ids=lambda each: each.__name__)
def test_overriding_methods_have_the_parameters_of_the_base_class(kind):
    for name in _overridden(kind) - {"__init__"}:
        function = getattr(kind, name)
        if inspect.isfunction(function):
            assert _parameters(function) == _parameters(getattr(Target, name)), name


@pytest.mark.parametrize("capability", REFUSED, ids=lambda each: each.name)
def test_without_the_capability_a_method_says_what_cannot_be_done(capability):
    target = Plain(Address(scheme="plain", rest="one"))
    for call in REFUSED[capability]:
        with pytest.raises(DkdbgError, match=f"plain://one does not support {capability.value}") as caught:
            call(target)
        assert caught.value.exit_code == EXIT_USAGE


def test_without_capabilities_a_target_is_one_place_that_lists_nothing_and_is_never_over():
    target = Plain(Address(scheme="plain", rest="one"))
    assert target.each() == [target]
    assert target.driver is target
    assert target.worker_flags(None) == ()
    assert (target.replaced(), target.over(), target.advice(), target.lost()) == ((), (), (), "")
    assert target.with_workdir("code") is target
    with pytest.raises(DkdbgError, match="has no Ray workers"):
        target.worker_flags("*")


def test_every_capability_is_claimed_and_there_are_targets_to_compare():
    assert set().union(*(each.capabilities for each in _classes())) == set(Capability)
    assert set(METHODS) == set(Capability) - {C.CONTAINER}
    assert len(_classes()) > 9
