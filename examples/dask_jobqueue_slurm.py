"""Diagnoses LOGDIR with workers that dask-jobqueue starts through Slurm.

    pip install 'rank-correlator[fast,dask]' dask-jobqueue
    python dask_jobqueue_slurm.py LOGDIR [JOBS]

LOGDIR has the same path on all nodes. A cluster that runs already is used with
`correlator diagnose LOGDIR --scheduler tcp://HOST:8786`.
"""

import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

import correlator


def main(logs: str, jobs: int = 8) -> None:
    """Prints the verdict; ``jobs`` Slurm jobs read the logs."""
    with SLURMCluster(cores=4, processes=4, memory="2GB", walltime="00:30:00") as cluster, Client(cluster) as client:
        cluster.scale(jobs=jobs)
        client.wait_for_workers(1)
        found = correlator.diagnose(logs, executor=client.get_executor())
    print(found.verdict.class_, found.verdict.title, sep=": ")
    print("ranks:", *found.initiator.ranks)
    print("nodes:", *found.initiator.nodes)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
