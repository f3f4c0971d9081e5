"""64 ranks of kernels and a collective behind each eighth one: simpy_ranks.py EVENTS, in SimPy."""

import random
import sys

import simpy

RANKS, BETWEEN = 64, 8
world = simpy.Environment()
steps = int(sys.argv[1]) // (RANKS * (BETWEEN + 1))
meetings = [[0, world.event()] for _ in range(steps)]


def rank():
    for meeting in meetings:
        for _ in range(BETWEEN):
            yield world.timeout(random.random())
        meeting[0] += 1
        if meeting[0] < RANKS:
            yield meeting[1]
            continue
        yield world.timeout(0.5)
        meeting[1].succeed()


for _ in range(RANKS):
    world.process(rank())
world.run()
