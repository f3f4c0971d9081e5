"""A machine drawn vertex by vertex: two nodes of two devices, one switch each, and a thin link between them."""

import stepsim


def machine(between_GBps):
    """The machine with a link of so many GB/s between its nodes."""
    devices = [{"name": f"gpu{i}", "kind": "device", "node": i // 2} for i in range(4)]
    switches = [{"name": f"switch{node}", "kind": "switch", "latency_us": 0.5} for node in range(2)]
    ports = [{"from": f"gpu{i}", "to": f"switch{i // 2}", "link": {"bandwidth_GBps_per_direction": 200, "latency_us": 1}} for i in range(4)]
    long = {"from": "switch0", "to": "switch1", "link": {"bandwidth_GBps_per_direction": between_GBps, "latency_us": 5}}
    return {"device": "a100-sxm-80", "graph": {"vertices": devices + switches, "links": [*ports, long]}}


steps = {between: stepsim.run("tiny-4", machine(between)).step_time_s for between in (200, 20, 2)}
print({between: f"{1e3 * seconds:.2f} ms" for between, seconds in steps.items()})
assert steps[200] < steps[20] < steps[2]
