"""Engines as processes: a crash or a hang is the answer of the case that caused it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading

from .worker import decode

HERE = os.path.dirname(os.path.abspath(__file__))


class Outcome:
    """What an engine made of a case: results, or why there are none."""

    def __init__(self, kind, results=None, text=""):
        self.kind = kind  # results, error, unsupported, crashed, timeout
        self.results = results
        self.text = text

    def __repr__(self):
        return self.kind if self.results is None else f"results {self.results}"


class Process:
    """An engine in a process, started when it is needed, again after a crash."""

    def __init__(self, name, python=None, timeout=60.0):
        variable = f"ASTER_ML_{name.partition(':')[0].upper()}_PYTHON"
        self.name = name
        self.python = python or os.environ.get(variable) or sys.executable
        self.timeout = timeout
        self.process = None
        self.version = ""
        self.crashes = 0

    def start(self):
        command = [self.python, "-W", "ignore", os.path.join(HERE, "worker.py"), self.name]
        environment = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **os.environ}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines = queue.Queue()
        self.tail = []
        threading.Thread(
            target=self.listen, args=(self.process.stdout, self.lines.put), daemon=True
        ).start()
        threading.Thread(
            target=self.listen, args=(self.process.stderr, self.remember), daemon=True
        ).start()
        said = self.receive(max(120.0, self.timeout))
        if said is None or "ready" not in said:
            raise RuntimeError(f"{self.name} does not start: {''.join(self.tail)[-800:]}")
        self.version = said["ready"]

    def listen(self, stream, put):
        for line in stream:
            put(line)
        put(None)

    def remember(self, line):
        self.tail = [*self.tail[-20:], line or ""]

    def receive(self, timeout):
        """What the worker says next; None at its end; raises queue.Empty when it is too slow."""
        line = self.lines.get(timeout=timeout)
        return None if line is None else json.loads(line)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def batch(self, cases):
        """(outcomes so far by place, place of the case that ended it or None)."""
        if self.process is None:
            self.start()
        done, current = {}, 0
        try:
            asked = {"programs": cases} if isinstance(cases[0], str) else cases
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            while True:
                said = self.receive(self.timeout)
                if said is None:
                    break
                if "end" in said:
                    return done, None, ""
                if "done" in said:
                    done[said["done"]] = outcome(said)
                else:
                    current = said["start"]
            why = "crashed"
        except queue.Empty:
            why = "timeout"
        except BrokenPipeError:
            why = "crashed"
        self.stop()
        self.crashes += 1
        return done, current, why

    def run(self, cases):
        """Outcomes of the cases. After a crash the rest of its batch runs one at a time."""
        done, guilty, why = self.batch(cases)
        if guilty is None:
            return [done[k] for k in range(len(cases))]
        if len(cases) == 1:
            return [Outcome(why, text=f"{why}: {''.join(self.tail)[-300:]}")]
        for k, case in enumerate(cases):
            if k not in done:
                (done[k],) = self.run([case])
        return [done[k] for k in range(len(cases))]


def outcome(said):
    if "results" in said:
        return Outcome("results", decode(said["results"]))
    kind = "unsupported" if "unsupported" in said else "error"
    return Outcome(kind, text=said[kind])


def each(engines, cases):
    """The outcomes of the cases on every engine, the engines side by side."""
    results = [None] * len(engines)

    def work(k):
        try:
            results[k] = engines[k].run(cases)
        except Exception as error:  # raised again below, in the caller's thread
            results[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(engines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
