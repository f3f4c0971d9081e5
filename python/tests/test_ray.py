"""A sweep on a Ray cluster of two node processes, one of which is killed in the middle."""

import pytest

import stepsim

pytest.importorskip("ray.cluster_utils", reason="needs ray (pip install ray)")

import ray

VARY = {"batch.global": "64:256:x2", "parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline.size": [1, 2, 4, 8]}


def test_a_lost_node_loses_nothing(tmp_path):
    from ray.cluster_utils import Cluster

    here = stepsim.sweep("llama3-70b", vary=VARY)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    try:
        cluster.wait_for_nodes()
        assert ray.cluster_resources()["CPU"] == 2
        path = tmp_path / "rows.jsonl"
        lost = []

        def kill(done):
            if done >= len(here) // 3 and not lost:
                lost.append(done)
                cluster.remove_node(second, allow_graceful=False)

        there = stepsim.sweep("llama3-70b", vary=VARY, output=path, engine="ray", parts=24, progress=kill)
        assert lost and lost[0] < len(here)
        assert list(there) == list(here)
    finally:
        ray.shutdown()
        cluster.shutdown()
