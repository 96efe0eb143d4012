"""Runs the jobs, a limited number at a time. Each is watched, and none can stop another.

One loop, one thread. It yields (model id, event). Failures that a worker can't report itself (a crash, a timeout, no
answer) are created here, and what the worker had reported before stays.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_gate.kernel import adopt_orphans, children, end_strays
from onnx_gate.processes import endings
from onnx_gate.processes.handover import Handover
from onnx_gate.processes.hearing import Hearing, SaidTooMuch, fair_share
from onnx_gate.processes.process import (
    Ended,
    NoStrength,
    Running,
    Server,
    Started,
    ask_stack,
    has_data,
    launch_cold,
    receive,
    resident,
    send_job,
)
from onnx_gate.processes.sandbox import Quarters, shadows_ours
from onnx_gate.processes.warming import CAN_FORK, Early
from onnx_gate.protocol import Done, Event, GarbageReply, Job, Note
from onnx_gate.records.asked import ModelSpec, ProviderSpec
from onnx_gate.records.found import Failure
from onnx_gate.vocabulary import REPRO, REPRO_STAGE, TRIAGE, Cause

WATCH_SECONDS = 0.05
SERVER_SECONDS = 120.0
"""For a server to get warm, and for a warm server to start a process; after that the server counts as dead."""
ENDING_SECONDS = 10.0
"""For a server to report the end of a process that has answered or was killed."""
SHOWING_SECONDS = 60.0
"""For a process that reproduces the crash of another one."""
LOG_LIMIT = 16 * 1024 * 1024
LOG_KEPT = 1024 * 1024
MOST_CRASHES = 20
"""Cases of one model that may crash its process; each needs a new process. After that its provider is given up."""
STACK_SECONDS = 0.5
"""For a process to write down where it is, before it is killed."""
Happening = Event | Started | NoStrength | Ended
"""What a worker reports about its model, and what only the parent can report."""


class Supervisor:
    """Runs the processes of all models; a context manager that ends every process that it started."""

    def __init__(
        self,
        *,
        jobs: int,
        work: Path,
        quarters: Quarters,
        environ: Mapping[str, str],
        fork: bool = CAN_FORK,
        patience: float = SERVER_SECONDS,
        save_references: bool = False,
        references: Mapping[str, str] | None = None,
        recalled: Collection[str] = (),
        calibrates: bool = False,
        records: bool = False,
        early: Early | None = None,
    ) -> None:
        self._jobs, self._work, self._quarters = jobs, work, quarters
        self._environ = environ
        self._early = early
        # Modules that a server has imported can't be replaced in its children.
        self._fork = fork and not shadows_ours(quarters.packages)
        self._patience = patience
        self._save_references, self._records = save_references, records
        self._references = references or {}
        # Those of the references that were made on this machine, by an earlier run of the same model.
        self._recalled = frozenset(recalled)
        self._calibrates = calibrates
        self._handover = Handover(quarters, but=self._references)
        self._servers: dict[str, Server] = {}
        self._running: dict[str, Running] = {}
        self._selector = selectors.DefaultSelector()
        self._spent: Counter[str] = Counter()
        self._died_of: dict[str, tuple[Failure, ProviderSpec]] = {}
        self._showing: set[str] = set()
        self._said: Counter[str] = Counter()
        self._limits: dict[str, int] = {}
        self._crashed: dict[str, tuple[tuple[str, str], ...]] = {}
        self._waiting = 0
        self._looked = time.monotonic()

    def __enter__(self) -> Supervisor:
        self._before = frozenset(child.pid for child in children())
        # Orphans of cold processes, and of servers that were killed, become our children.
        self._adopted = adopt_orphans()
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running.values():
            self._end(running)
            running.process.wait()
        for server in self._servers.values():
            server.close()
        self._selector.close()
        end_strays(self._before)
        adopt_orphans(self._adopted)

    def run(
        self,
        specs: list[ModelSpec],
        tick: Callable[[], None] = lambda: None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[str, Happening]]:
        """Judge all models, in order as far as their servers are warm.

        `tick` is called repeatedly, and `meanwhile` once, while the servers import their frameworks.
        """
        tick()
        queue = list(specs)
        self._waiting = len(specs)
        self._looked = time.monotonic()
        if self._fork:
            self._start_servers(queue)
        meanwhile()
        while queue or self._running:
            tick()
            self._forgive()
            while len(self._running) < self._jobs and (spec := self._next(queue)):
                queue.remove(spec)
                try:
                    self._start(spec)
                except OSError as error:
                    yield spec.id, endings.not_started(error)
                    yield spec.id, Ended(seconds=0.0)
            for key, _ in self._selector.select(WATCH_SECONDS):
                if isinstance(key.data, Server):
                    self._hear(key.data)
                else:
                    yield from self._read(self._running[key.data])
            for running in list(self._running.values()):
                yield from self._watch(running, queue)
            self._give_up_on_servers()

    def _forgive(self) -> None:
        """Don't count time in which the supervisor was busy, for example with a model's files, against the models."""
        now = time.monotonic()
        late = now - self._looked - WATCH_SECONDS
        self._looked = now
        if late > WATCH_SECONDS:
            for running in self._running.values():
                running.forgiven += late

    # ── Starting ────────────────────────────────────────────────────────────────────────────────────────

    def _start_servers(self, specs: list[ModelSpec]) -> None:
        for framework, count in Counter(map(self._framework, specs)).items():
            # A warm-up export pays off only if there are more jobs than run in parallel anyway.
            self._start_server(framework, export=count > self._jobs)
        if self._early:
            self._early.close()

    def _framework(self, spec: ModelSpec) -> str:
        """The framework to import; only the runtime is needed if the reference comes from another machine."""
        return "onnx" if spec.id in self._references else spec.framework

    def _start_server(self, framework: str, *, export: bool) -> None:
        as_root = self._quarters.separate
        warming = self._early.take(framework, environ=self._environ, as_root=as_root) if self._early else None
        log = self._work / f"{framework}.log"
        server = Server(framework, environ=self._environ, log=log, as_root=as_root, warming=warming)
        server.warm(export=export)
        self._servers[framework] = server
        self._selector.register(server.control, selectors.EVENT_READ, server)

    def _next(self, queue: list[ModelSpec]) -> ModelSpec | None:
        """The first model whose server is warm, or has died: then the model starts cold and reports its own errors."""
        unfinished = {*self._running, *(spec.id for spec in queue)}
        for spec in queue:
            server = self._servers.get(self._framework(spec))
            if (server is None or server.ready or server.dead) and not self._handover.waits(spec, unfinished):
                return spec
        return None

    def _start(self, spec: ModelSpec) -> None:
        place, packages = self._quarters.open(spec.id), self._quarters.packages
        server = self._servers.get(self._framework(spec))
        if server and server.ready and not server.dead:
            process = server.launch(spec.id, place.log_fd, user=place.user)
        else:
            process = launch_cold(spec.id, place, packages)
        job = Job(
            spec=spec,
            scratch=str(place.scratch),
            folder=str(Path.cwd()),
            environ=place.environ if place.user else None,
            packages=packages,
            reference=self._references.get(spec.id),
            converted=self._handover.give(spec, place),
            crashed=self._crashed.get(spec.id, ()),
            judges_again=spec.id in self._recalled,
            calibrates=self._calibrates,
            records=self._records and spec.id not in self._references,
            **{"save": self._save_references, **self._to_show(spec)},
        )
        hearing = Hearing(spec, self._limit(spec) - self._said[spec.id])
        self._running[spec.id] = Running(spec=spec, process=process, log_fd=place.log_fd, job=job, hearing=hearing)
        send_job(process, job)
        process.channel.setblocking(False)
        self._selector.register(process.channel, selectors.EVENT_READ, spec.id)

    def _to_show(self, spec: ModelSpec) -> dict[str, Any]:
        """Settings of the job, if it is the last process of a model and only reproduces the crash of another one."""
        if spec.id not in self._showing:
            return {}
        failure, provider = self._died_of[spec.id]
        return {"shows": provider.name, "hung": failure.cause is Cause.TIMEOUT, "save": False}

    def _limit(self, spec: ModelSpec) -> int:
        """Bytes for a model's reports, in all of its processes; room that ended models did not use is shared."""
        if spec.id not in self._limits:
            running = {running.spec.id for running in self._running.values()}
            ended = sum(said for model_id, said in self._said.items() if model_id not in running)
            taken = ended + sum(self._limits[model_id] for model_id in running)
            self._limits[spec.id] = fair_share(self._waiting, taken=taken)
            self._waiting -= 1
        return self._limits[spec.id]

    def _give_up_on_servers(self) -> None:
        """End servers that hang; their models then start cold, each with its own time limit."""
        now = time.monotonic()
        warm = [running for running in self._running.values() if running.process.popen is None]
        stuck = {self._framework(running.spec) for running in warm if self._is_stuck(running, now)}
        for server in self._servers.values():
            late = not server.ready and now - server.started > self._patience
            if not server.dead and (late or server.framework in stuck):
                server.kill()

    def _is_stuck(self, running: Running, now: float) -> bool:
        """Whether the server should have reported long ago that this process has started or ended."""
        if not running.done and not running.killed:
            return running.started is None and now - running.handed > self._patience
        running.over = running.over or now
        late = now - running.over > min(self._patience, ENDING_SECONDS)
        if late and not running.hurried:
            # Maybe the process itself continues, and its last report is forged: that is no reason to end the server.
            self._end(running)
            running.over, running.hurried = now, True
            return False
        return late

    # ── Listening ───────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, server: Server) -> None:
        server.hear()
        if server.dead:
            self._selector.unregister(server.control)
            server.close()
            # A server that was ready did not die because of its framework: something killed it, and its jobs with it.
            if server.ready:
                self._start_server(server.framework, export=False)

    def _read(self, running: Running) -> Iterator[tuple[str, Happening]]:
        """Read what the worker sent; anything that is not an event ends the worker."""
        if running.hung_up:
            return
        chunk = receive(running.process.channel)
        if chunk == b"":
            self._hang_up(running)
        if not chunk or running.killed:
            return
        try:
            for event in running.hearing.take(chunk):
                self._handover.hear(running.spec, event)
                if not isinstance(event, Done):
                    yield running.spec.id, event
        except GarbageReply as error:
            self._kill(running, endings.garbage(str(error), running.at))
        except SaidTooMuch:
            self._kill(running, endings.said_too_much(self._limits[running.spec.id], running.at))

    def _hang_up(self, running: Running) -> None:
        running.hung_up = True
        self._selector.unregister(running.process.channel)

    # ── Watching ────────────────────────────────────────────────────────────────────────────────────────

    def _watch(self, running: Running, queue: list[ModelSpec]) -> Iterator[tuple[str, Happening]]:
        process = running.process
        process.poll()
        if process.pid is not None and running.started is None:
            running.started = time.monotonic()
            running.memory_at_start = resident(process.pid)
            yield running.spec.id, Started()
        if process.status is None:
            self._enforce_limits(running)
            return
        # The process has ended, but its last reports may still be in the channel.
        while not running.hung_up and not running.killed and has_data(process.channel):
            yield from self._read(running)
        yield from self._conclude(running, queue)

    def _enforce_limits(self, running: Running) -> None:
        if running.started is None or running.killed or running.process.pid is None:
            return
        spec, at = running.spec, running.at
        left = spec.timeout - self._spent[spec.id]
        if running.job.shows:
            left = min(2 * spec.timeout, SHOWING_SECONDS)
        if time.monotonic() - running.started - running.forgiven > left:
            stack = ask_stack(running.process, running.log_fd, STACK_SECONDS)
            self._kill(running, endings.timed_out(spec.timeout, at, stack))
        elif os.fstat(running.log_fd).st_size > LOG_LIMIT:
            self._kill(running, endings.printed_too_much(LOG_LIMIT, at))
            os.ftruncate(running.log_fd, LOG_KEPT)
        elif spec.memory is not None:
            used = resident(running.process.pid) - running.memory_at_start
            if used > spec.memory:
                self._kill(running, endings.too_much_memory(spec.memory, used, at))

    def _kill(self, running: Running, why: Failure) -> None:
        running.killed = why
        self._end(running)

    def _end(self, running: Running) -> None:
        """End a process and all that it started; if the model has its own user, no process can escape."""
        running.process.kill()
        self._quarters.clear(running.spec.id)

    def _kept(self) -> set[int]:
        """The pids of our children that must not be ended as strays."""
        cold = {
            running.process.pid for running in self._running.values() if running.process.popen and running.process.pid
        }
        return {*self._before, *cold, *(server.pid for server in self._servers.values())}

    def _conclude(self, running: Running, queue: list[ModelSpec]) -> Iterator[tuple[str, Happening]]:
        """Report the end of a process; after a crash, a new process gets the remaining cases and providers."""
        spec = running.spec
        self._end(running)
        end_strays(self._kept())
        if not running.hung_up:
            self._hang_up(running)
        running.process.channel.close()
        seconds = time.monotonic() - running.started if running.started is not None else 0.0
        self._spent[spec.id] += seconds  # type: ignore[assignment]
        self._said[spec.id] += running.hearing.weight
        failure = running.killed or self._unexplained(running)
        os.close(running.log_fd)
        del self._running[spec.id]
        left: tuple[ProviderSpec, ...] = ()
        if failure and running.job.shows:
            yield spec.id, Note(text=f"nothing was left in {REPRO}/ that shows the crash again: {failure.message}")
        elif failure and running.at.name == TRIAGE:
            yield spec.id, Note(text=f"the cause could not be looked for: {failure.message}")
        elif failure and running.at.name == REPRO_STAGE:
            yield spec.id, Note(text=f"nothing was left in {REPRO}/ that shows it again: {failure.message}")
        elif failure and running.hearing.tries_wrong_models:
            yield spec.id, NoStrength(why=endings.on_a_wrong_model(failure))
        elif failure:
            yield spec.id, failure
            left = self._providers_left(running)
            self._remember_crash(running, failure)
        if not left and not running.job.shows and spec.id in self._died_of:
            # Everything else is known: one more process reproduces the crash.
            left = (self._died_of[spec.id][1],)
            self._showing.add(spec.id)
        if left:
            queue.insert(0, replace(spec, providers=left))
        else:
            yield spec.id, Ended(seconds=self._spent[spec.id])

    def _remember_crash(self, running: Running, failure: Failure) -> None:
        """Remember the first crash of a model on a provider, which was in the runtime as far as is known."""
        spec, name = running.spec, running.at.provider
        provider = next((given for given in spec.providers if given.name == name), None)
        if provider and spec.repro and failure.cause in (Cause.CRASHED, Cause.TIMEOUT) and not self._calibrates:
            self._died_of.setdefault(spec.id, (failure, provider))

    def _unexplained(self, running: Running) -> Failure | None:
        if running.done:
            return None
        tail = os.pread(running.log_fd, 65536, max(0, os.fstat(running.log_fd).st_size - 65536))
        return endings.explain(
            running.process.status or 0,
            running.at,
            tail.decode("utf-8", "replace"),
            oom_killed=endings.oom_kills() > running.oom_kills,
        )

    def _providers_left(self, running: Running) -> tuple[ProviderSpec, ...]:
        if running.at.provider is None or self._spent[running.spec.id] >= running.spec.timeout:
            return ()
        again = self._leaves_out_case(running)
        tried = running.hearing.finished | (set() if again else {running.at.provider})
        left = tuple(provider for provider in running.spec.providers if provider.name not in tried)
        # Each start has fewer providers or one case less than the one before, so the restarts end.
        return left if again or len(left) < len(running.spec.providers) else ()

    def _leaves_out_case(self, running: Running) -> bool:
        """Whether a new process can continue with the provider's other cases; if so, the case is noted as crashed."""
        at, known = running.at, self._crashed.get(running.spec.id, ())
        died = running.killed is None or running.killed.cause is Cause.OUT_OF_MEMORY
        if at.provider is None or not at.case or not died or len(known) >= MOST_CRASHES:
            return False
        if (at.provider, at.case) in known:
            return False
        self._crashed[running.spec.id] = (*known, (at.provider, at.case))
        return True
