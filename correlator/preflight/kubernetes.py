"""Kubernetes manifests: the launch in the containers of a PyTorchJob, a TrainJob-like JobSet or a plain Job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from correlator.preflight.facts import Facts, count, product, scalar
from correlator.preflight.launch import Launch, take_apart
from correlator.preflight.model import Place, Setting, Unknown, Value, Word
from correlator.preflight.shell import Command

_KINDS = ("PyTorchJob", "JobSet", "Job", "MPIJob", "Pod", "StatefulSet")
_MEMORY = re.compile(r"(\d+)([KMGT]i?)?")


@dataclass(frozen=True)
class PodLaunch:
    """The launch of one kind of pod. ``path``: dotted key of its pod spec; ``pods``: how many run it."""

    launch: Launch
    document: Mapping[str, Setting]
    path: str
    container: str
    pods: Value


def is_job(document: Mapping[str, Setting]) -> bool:
    """Whether a YAML document is a manifest of something that runs."""
    kind = document.get("kind")
    return "apiVersion" in document and kind is not None and kind.value in _KINDS


def launches(document: Mapping[str, Setting]) -> Iterator[PodLaunch]:
    """Each container that starts a training, once for the pods that are alike."""
    seen: set[tuple[Word, ...]] = set()
    specs = list(dict.fromkeys(k[: k.index(".containers.")] for k in document if ".containers." in k))
    pods = _pods(document, specs)
    for spec in specs:
        for number in range(16):
            container = f"{spec}.containers.{number}"
            words = [*_list(document, f"{container}.command"), *_list(document, f"{container}.args")]
            if not words or tuple(words) in seen:
                continue
            seen.add(tuple(words))
            launch = take_apart(
                Command(tuple(words), dict(_environment(document, container)), _place(document, container))
            )
            if launch is not None:
                yield PodLaunch(launch, document, spec, container, pods)


def _list(document: Mapping[str, Setting], key: str) -> list[Word]:
    words = []
    for number in range(1000):
        setting = document.get(f"{key}.{number}")
        if setting is None:
            break
        value = setting.value
        words.append(Word((value if isinstance(value, Unknown) else _text(value),)))
    return words


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _place(document: Mapping[str, Setting], container: str) -> Place:
    for key in (f"{container}.command.0", f"{container}.args.0"):
        if (setting := document.get(key)) and setting.place:
            return setting.place
    return Place("manifest", 0)


def _environment(document: Mapping[str, Setting], container: str) -> Iterator[tuple[str, Word]]:
    for number in range(500):
        name = document.get(f"{container}.env.{number}.name")
        if name is None:
            return
        value = document.get(f"{container}.env.{number}.value")
        if value is None:
            yield str(name.value), Word((Unknown(f"{name.value} comes from the cluster (valueFrom)"),))
        elif not isinstance(value.value, Unknown):
            yield str(name.value), Word((_text(value.value),))


def _pods(document: Mapping[str, Setting], specs: list[str]) -> Value:
    """Pods of the job: replicas of a PyTorchJob; replicas × parallelism of a JobSet; parallelism of a Job."""
    total: list[Value] = []
    kind = document["kind"].value
    for spec in specs:
        if kind == "PyTorchJob" or kind == "MPIJob":
            if ".Launcher." in spec:
                continue
            replicas = document.get(f"{spec.removesuffix('.template.spec')}.replicas")
            total.append(replicas.value if replicas else 1)
        elif kind == "JobSet":
            job = spec.removesuffix(".template.spec.template.spec")
            replicas, each = document.get(f"{job}.replicas"), document.get(f"{job}.template.spec.parallelism")
            total.append(product(replicas.value if replicas else 1, each.value if each else 1) or 1)
        else:
            each = document.get("spec.parallelism") or document.get("spec.replicas")
            total.append(each.value if each else 1)
    unknown = next((one for one in total if isinstance(one, Unknown)), None)
    return unknown or sum(one for one in total if isinstance(one, int))


def add_facts(one: PodLaunch, facts: Facts) -> None:
    """What the manifest says beside the command: pods, GPUs, memory, /dev/shm."""
    facts.put("kubernetes", True)
    facts.put("kubernetes.pods", one.pods)
    document = one.document
    gpus = document.get(f"{one.container}.resources.limits.nvidia.com/gpu")
    if gpus is not None:
        facts.settings["gpus_per_node"] = gpus
    nproc = document.get("spec.nprocPerNode")
    if nproc is not None:
        facts.settings["kubernetes.nproc_per_node"] = nproc
    # The training operator sets PET_NNODES and PET_NPROC_PER_NODE, which torchrun reads.
    if facts.get("launcher") == "torchrun" and document["kind"].value == "PyTorchJob":
        if facts.get("torchrun.nnodes") is None:
            facts.put("nodes", one.pods)
        if facts.get("torchrun.nproc_per_node") is None:
            stated = scalar(str(nproc.value)) if nproc is not None else "auto"
            facts.put("processes_per_node", count(stated, "nprocPerNode"))
        facts.put("world_size", product(facts.get("nodes"), facts.get("processes_per_node")))
    facts.put("shm_mounted", any(_shm_mounts(one)))
    for volume in range(64):
        medium = document.get(f"{one.path}.volumes.{volume}.emptyDir.sizeLimit")
        name = document.get(f"{one.path}.volumes.{volume}.name")
        if medium is not None and name is not None and any(m == name.value for m in _shm_names(one)):
            facts.put("shm_bytes", memory_bytes(medium.value))


def _shm_names(one: PodLaunch) -> Iterator[Value]:
    for number in range(64):
        path = one.document.get(f"{one.container}.volumeMounts.{number}.mountPath")
        name = one.document.get(f"{one.container}.volumeMounts.{number}.name")
        if path is not None and path.value == "/dev/shm" and name is not None:
            yield name.value


def _shm_mounts(one: PodLaunch) -> Iterator[bool]:
    yield from (True for _ in _shm_names(one))


def memory_bytes(value: Value) -> Value | None:
    """A Kubernetes quantity in bytes."""
    if isinstance(value, (Unknown, int)):
        return value
    found = _MEMORY.fullmatch(str(value))
    if not found:
        return None
    unit = found[2] or ""
    power = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}[unit[:1]]
    base: int = 1024 if unit.endswith("i") else 1000
    return int(found[1][:15]) * int(base**power)
