"""A sweep on two worker processes of Dask, one of which is killed in the middle."""

import os
import signal

import pytest

import stepsim

distributed = pytest.importorskip("distributed", reason="needs dask (pip install 'dask[distributed]')")

VARY = {"batch.global": "64:256:x2", "parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline.size": [1, 2, 4, 8]}


def test_a_lost_worker_loses_nothing(tmp_path):
    here = stepsim.sweep("llama3-70b", vary=VARY)
    path = tmp_path / "rows.jsonl"
    lost = []
    with distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            workers = [worker.pid for worker in cluster.workers.values()]

            def kill(done):
                if done >= len(here) // 3 and not lost:
                    lost.append(done)
                    os.kill(workers[0], signal.SIGKILL)

            there = stepsim.sweep("llama3-70b", vary=VARY, output=path, engine=client.get_executor(), parts=24, progress=kill)
    assert lost and lost[0] < len(here)
    assert list(there) == list(here)
