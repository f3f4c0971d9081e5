"""Calculon's form in a loop: calculon_loop.py COUNT APPLICATION EXECUTION SYSTEM, in a checkout of it."""

import logging
import sys

import calculon
from calculon.llm import Llm
from calculon.system import System

count, app, exe, system = int(sys.argv[1]), *map(calculon.io.read_json_file, sys.argv[2:5])
for _ in range(count):
    machine, form = System(system), Llm(Llm.Application(app), logging.getLogger())
    form.compile(machine, Llm.Execution.from_json(exe))
    form.run(machine)
