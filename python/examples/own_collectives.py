"""Times of collectives of one's own: latency and bandwidth by operation, bytes and group."""

import stepsim


def cost(op, bytes, group):
    """A ring of 5 us a hop at 100 GB/s in a node and 25 between nodes; messages between two as the machine has them."""
    if op not in ("all-reduce", "all-gather", "reduce-scatter"):
        return None
    turns = 2 if op == "all-reduce" else 1
    rate = 100e9 if group.nodes == 1 else 25e9
    return turns * (group.ranks - 1) * (5e-6 + bytes / group.ranks / rate)


for name in ("gpt2-8", "llama3-8b-fsdp"):
    own, shipped = stepsim.run(name, collectives=cost), stepsim.run(name)
    exposed = own.report["communication"]["dp"]["exposed_s"]
    print(f"{name}: {own.step_time_s:.3f} s, as shipped {shipped.step_time_s:.3f} s; gradients exposed {exposed:.3f} s")
    assert own.step_time_s != shipped.step_time_s
