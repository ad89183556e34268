"""Posts to webhooks, on an asyncio loop in a thread of its own; addresses and signatures as of HTTP targets."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
import structlog
from yarl import URL

from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.answers import judge_answer, judge_failure
from tocsin.adapters.targets.daemon_threads import DaemonThreads
from tocsin.adapters.targets.lookups import ASKING, SharedLookups
from tocsin.adapters.targets.sessions import open_session, tls_context
from tocsin.adapters.targets.signatures import Signer
from tocsin.ports.clock import Clock
from tocsin.ports.webhooks import Post, PostEnd

log = structlog.get_logger()

DNS_THREADS: Final = 64
"""As many recipients, less one, may have names that nobody resolves, before others wait for that. Made as needed."""
JOIN_WAIT_S: Final = 5.0
ANSWER_BYTES: Final = 2_000
"""What is read of an answer: enough for a line in the log."""


class HttpWebhookPoster:
    """Fulfils ``ports.webhooks.WebhookPoster``.

    Args:
        urls: of the webhooks, by address.
        clock: stamps signatures.
        rules: which addresses may be reached.
        signer: signs, by address.
        timeout_s: how long one post may take.
        ca_file: certificates, in PEM, that are trusted beside those of the system.

    Raises:
        OSError: the certificates cannot be read.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        clock: Clock,
        rules: AddressRules,
        signer: Signer,
        timeout_s: float,
        ca_file: str | None = None,
    ) -> None:
        tls = tls_context(ca_file)  # first, since it may fail, and a thread would be left behind
        self._urls = {address: URL(url, encoded=True) for address, url in urls.items()}
        self._clock = clock
        self._signer = signer
        self._timeout_s = timeout_s
        self._ended: deque[PostEnd] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads(DNS_THREADS, "webhook-dns"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
        self._thread.start()
        # A recipient is tried seldom enough; a kept connection would only be one that may be closing.
        self._lookups = SharedLookups(aiohttp.ThreadedResolver(self._loop), DNS_THREADS)
        opening = asyncio.run_coroutine_threadsafe(open_session(tls, rules, None, self._lookups), self._loop)
        self._session = opening.result(JOIN_WAIT_S)

    # Called by the notifier's thread

    def start(self, posts: Sequence[Post]) -> None:
        if posts:
            self._loop.call_soon_threadsafe(self._launch, list(posts))

    def ended(self) -> list[PostEnd]:
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]

    def close(self) -> None:
        if self._thread.is_alive():
            try:
                asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(JOIN_WAIT_S)
            except TimeoutError:
                log.error("posts could not be stopped", action="notifier.posts_left")
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_WAIT_S)

    # On the loop

    def _launch(self, posts: list[Post]) -> None:
        for post in posts:
            task = self._loop.create_task(self._run(post))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _shut_down(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()
        await self._lookups.close()

    async def _run(self, post: Post) -> None:
        """Run one post; whatever happens, it has an end."""
        try:
            async with asyncio.timeout(self._timeout_s):
                self._ended.append(await self._call(post))
        except TimeoutError:
            self._ended.append(PostEnd(post.ref, f"no whole answer within {self._timeout_s:g} s"))
        except asyncio.CancelledError:
            self._ended.append(PostEnd(post.ref, "broken off"))
            raise
        except Exception as exception:  # noqa: BLE001 - a post without an end would hold its place for ever
            self._ended.append(PostEnd(post.ref, judge_failure(exception).message))

    async def _call(self, post: Post) -> PostEnd:
        now = self._clock.now()
        ASKING.set(post.address)
        headers = {**post.headers, **self._signer.headers(post.address, post.id, post.body, now)}
        headers.setdefault("Accept-Encoding", "identity")
        url = self._urls[post.address]
        async with self._session.post(url, headers=headers, data=post.body, allow_redirects=False) as response:
            await response.content.read(ANSWER_BYTES)
            said = response.headers
            _, error, _ = judge_answer(
                response.status, response.reason, said.get("Location"), "", said.get("Retry-After"), now
            )
        if error is None:
            return PostEnd(post.ref, status=response.status)
        return PostEnd(post.ref, error.message, response.status, error.retry_after_s)
