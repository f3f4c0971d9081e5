"""A schedule of one's own: 1F1B written down, as a dictionary and as a function, against the shipped one."""

import stepsim

WORKLOAD = {"base": "tiny-4", "batch": {"global": 4, "micro_batch": 1}, "parallelism": {"pipeline": {"size": 2}, "data": 2}}
WRITTEN = {"0": ["F0", "F1", "B0", "B1"], "1": ["F0", "B0", "F1", "B1"]}


def one_f_one_b(stages, micro_batches):
    """The later a stage, the sooner its first backward pass."""
    for stage in range(stages):
        ahead = min(stages - stage, micro_batches)
        passes = [f"F{i}" for i in range(ahead)]
        for i in range(micro_batches):
            passes.append(f"B{i}")
            passes += [f"F{ahead + i}"] * (ahead + i < micro_batches)
        yield passes


shipped = stepsim.run(WORKLOAD, settings={"parallelism.pipeline.schedule": "1f1b"})
for order in (WRITTEN, one_f_one_b):
    own = stepsim.run(WORKLOAD, order=order)
    print(f"own {1e3 * own.step_time_s:.3f} ms, shipped {1e3 * shipped.step_time_s:.3f} ms")
    assert own.step_time_s == shipped.step_time_s
