"""Storage: network file systems, local block devices and file systems, object stores.

Emitted by: Linux ``net/sunrpc``, lustre/lustre-release ``lustre/ptlrpc/import.c`` and ``lustre/ldlm``, IBM Storage
Scale (``mmfs``), BeeGFS client, Linux ``drivers/nvme``, ``block``, ``fs/ext4``, ``fs/xfs``, ``drivers/md``; AWS
SDKs. Gives ``kernel.storage`` (what, server) for services that the whole job shares, ``kernel.io_error`` (device)
for the node's own disks, ``storage.object_error``. Recoveries are ``kernel.storage_recovered``: with the loss they
give the length of the stall.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import named, one_line

_OBJECT_ERROR = (
    r"(?P<exception>[\w.]{1,255}(?:Error|Exception): )?(?:An error occurred \((?P<code>[\w-]+)\) when calling the "
    r"(?P<operation>\w+) "
    r"operation(?: \(reached max retries: \d+\))?: (?P<text>.*)|(?P<unreachable>Could not connect to the endpoint "
    r"URL): "
    r"\"(?P<peer>[^\"]*)\")"
)


def _object_error(match: re.Match[str]) -> Mapping[str, object] | None:
    """A line of a logger; where it ends a traceback, that event has the frames too."""
    return None if match["exception"] else named(match)


PARSER = Parser(
    name="storage",
    patterns=(
        Pattern(
            event="kernel.storage",
            literals=("nfs: server ",),
            regex=r"nfs: server (?P<server>\S+) (?P<what>not responding, (?:still trying|timed out))",
            fields={"filesystem": "nfs"},
            sample="nfs: server fs01 not responding, still trying",
        ),
        Pattern(
            event="kernel.storage_recovered",
            literals=("nfs: server ",),
            regex=r"nfs: server (?P<server>\S+) (?P<what>OK)$",
            fields={"filesystem": "nfs"},
            sample="nfs: server fs01 OK",
            severity="info",
        ),
        Pattern(
            event="kernel.storage",
            literals=("nfs4_reclaim_open_state", "NFS: state manager", "NFS: nfs4_"),
            regex=r"(?P<what>_*nfs4_reclaim_open_state: Lock reclaim failed!?|NFS: (?:state "
            r"manager|nfs4_\w{1,60}).*(?:failed|error).*)$",
            fields={"filesystem": "nfs"},
            sample="NFS: nfs4_reclaim_open_state: Lock reclaim failed!",
        ),
        Pattern(
            event="kernel.storage",
            literals=("This client was evicted by ",),
            regex=r"(?:(?P<target>[\w-]{1,255}): )?This client was (?P<what>evicted) by (?P<server>[^\s;]+)",
            fields={"filesystem": "lustre"},
            sample="LustreError: 167-0: scratch-MDT0000-mdc-ffff8a: This client was evicted by scratch-MDT0000; in "
            "progress "
            "operations using this service will fail.",
        ),
        Pattern(
            event="kernel.storage",
            literals=("was lost; in progress operations",),
            regex=r"(?:(?P<target>[\w-]{1,255}): )?Connection to (?P<server>\S+) \(at (?P<peer>[^)]*)\) was "
            r"(?P<what>lost); in progress "
            r"operations using this service will (?P<outcome>wait|fail)",
            fields={"filesystem": "lustre"},
            sample="Lustre: scratch-OST0001-osc-ffff8a: Connection to scratch-OST0001 (at 192.0.2.5@o2ib) was lost; "
            "in progress "
            "operations using this service will wait for recovery to complete",
            severity="warning",
        ),
        Pattern(
            event="kernel.storage_recovered",
            literals=(": Connection restored to ",),
            regex=r"Connection (?P<what>restored) to (?P<server>\S+)(?: \(at (?P<peer>[^)]*)\))?",
            fields={"filesystem": "lustre"},
            sample="Lustre: scratch-OST0001-osc-ffff8a: Connection restored to scratch-OST0001 (at 192.0.2.5@o2ib)",
            severity="info",
        ),
        Pattern(
            event="kernel.storage",
            literals=("LustreError: ", "LNetError: ", "LNet: "),
            regex=r"(?P<source>LustreError|LNetError|LNet): (?P<what>.*(?:failed: rc = -\d+|timed out|network "
            r"error|lock callback "
            r"timer expired|[Nn]o route|is down).*)$",
            fields={"filesystem": "lustre"},
            sample="LustreError: 11-0: scratch-OST0001-osc-ffff8a: operation ost_read to node 192.0.2.5@o2ib "
            "failed: rc = -107",
            severity="warning",
        ),
        Pattern(
            event="kernel.storage",
            literals=("mmfs: [E]", "mmfs: [X]", "[E] CCR: ", "[E] Node ", "Disk lease", "file system manager"),
            regex=r"(?:mmfs: )?(?P<level>\[[EX]\]) (?P<what>(?:CCR|Node|Disk|Unable|Lost|Remote|The|File) ?.*)$",
            fields={"filesystem": "gpfs"},
            sample="mmfs: [E] CCR: failed to connect to node 192.0.2.7:1191 (sock 42 err 1143)",
        ),
        Pattern(
            # the manager's view of a node that it is about to expel
            event="kernel.storage",
            literals=(
                "lease renewal is overdue",
                "is being expelled",
                "SGPanic",
                "will be expelled from cluster",
                "Lost membership in cluster",
                "unmounted by the system with return code",
                "Disk failure.  Volume ",
                "Unexpected long waiter detected",
                "Error=MMFS_",
            ),
            regex=r"\[[A-Z]\] (?P<what>(?:Node (?P<server>\S+)(?: \([^)]*\))? (?:lease renewal is overdue|"
            r"is being expelled)|.*\bSGPanic\b|This node will be expelled|Lost membership in cluster|"
            r"File system (?P<target>\S+) unmounted by the system|"
            r"Disk failure\.  Volume (?P<volume>[\w.-]+)|Unexpected long waiter|Error=MMFS_\w+).*)$",
            fields={"filesystem": "gpfs"},
            sample="[N] Node 192.0.2.7 (node012) lease renewal is overdue. Pinging to check if it is alive",
            not_samples=("[N] SGPanics so far: 0",),
        ),
        Pattern(
            event="kernel.storage",
            literals=("Connect failed on all available routes",),
            regex=r"(?P<what>Connect failed on all available routes)(?:[.:] (?:NodeID: )?(?P<server>\S.*))?$",
            fields={"filesystem": "beegfs"},
            sample="NodeConn (acquire stream): Connect failed on all available routes: beegfs-storage stor01 [ID: 3]",
        ),
        Pattern(
            event="kernel.storage",
            literals=(
                "Communication error in RECVDATA",
                "Communication error in SENDDATA",
                "Communication error: ",
                "beegfs: ",
            ),
            regex=r"(?P<what>Communication error in (?:RECV|SEND)DATA stage)\. Node: (?P<server>[^;]*)|"
            r"(?P<stalled>Communication error: (?:Receive|Send) (?:timed out|failed))[. ](?:.*?from: | ?Peer: )"
            r"(?P<peer>beegfs-\w+ [^.;(]*?\[ID: \d+\])|"
            r"beegfs: (?P<text>.*(?:[Cc]onnect(?:ion)? (?:failed|error)|[Tt]imed out|unreachable).*)",
            fields={"filesystem": "beegfs"},
            sample="beegfs: storage(4711): Communication error in RECVDATA stage. Node: beegfs-storage stor01 [ID: "
            "3]; Details: 2",
        ),
        Pattern(
            event="kernel.io_error",
            literals=(
                "reset controller",
                "after reset failure",
                "failing I/O",
                "I/O error, dev ",
                "I/O error on dev ",
                "Remounting filesystem read-only",
                "EXT4-fs error",
                "I/O error while writing superblock",
                "Disk failure on ",
                "beyond end of device",
                "metadata I/O error",
                "Corruption of in-memory data",
                "log I/O error",
                "Filesystem has been shut down",
            ),
            regex=r"(?P<what>nvme (?P<nvme>nvme\w+): (?:I/O .*timeout|.*reset controller|Disabling device after "
            r"reset failure).*|"
            r"no available path - failing I/O|(?:Buffer )?I/O error(?:,| on) dev (?P<device>[\w-]+),?.*|"
            r"EXT4-fs (?:error )?\((?:device )?(?P<ext4>[^):]*)\):? .*|md/raid\S*: Disk failure on (?P<member>\w+).*|"
            r"attempt to access beyond end of device|XFS \((?P<xfs>[^)]*)\): .*)$",
            sample="nvme nvme4: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller",
            not_samples=("EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",),
        ),
        Pattern(
            event="storage.object_error",
            literals=("An error occurred (", "Could not connect to the endpoint URL"),
            block=one_line(_OBJECT_ERROR, _object_error),
            block_lines=0,
            sample="upload failed: ckpt/step_1200 to s3://bucket/step_1200 An error occurred (SlowDown) when "
            "calling the "
            "UploadPart operation (reached max retries: 4): Please reduce your request rate.",
            not_samples=(
                "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: "
                "Forbidden",
            ),
        ),
    ),
)
