"""As much of a Kubernetes API server as a Job needs, in memory behind a real socket; tests say how each Job ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aiohttp import web

PREFIX = "/apis/batch/v1/namespaces/batch/jobs"


class FakeCluster:
    """Jobs, their pods and logs.

    Attributes:
        jobs: by name, as they were sent, with a status.
        pods: by the name of the Job.
        output: of each Job's pod.
        created, deleted: names in the order of the requests that succeeded.
        refuse: status to answer creations with; 0: none. ``lose``: make the Job, and answer 503 all the same.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.output: dict[str, str] = {}
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.refuse = 0
        self.lose = 0
        self.blind = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(30)

    async def _serve(self) -> str:
        app = web.Application()
        app.router.add_post(PREFIX, self._create)
        app.router.add_get(PREFIX, self._list_jobs)
        app.router.add_delete(PREFIX + "/{name}", self._delete)
        app.router.add_get("/api/v1/namespaces/batch/pods", self._list_pods)
        app.router.add_get("/api/v1/namespaces/batch/pods/{name}/log", self._log)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def end(self, name: str, condition: str = "Complete", why: str | None = None, **terminated: Any) -> None:
        """End a Job; ``terminated``: exit code and reason of its container, as the cluster tells them."""
        self.pods[name] = {
            "metadata": {"name": f"{name}-pod", "labels": {"job-name": name}},
            "spec": {"containers": [{"name": "run"}]},
            "status": {"phase": "Succeeded" if condition == "Complete" else "Failed"},
        }
        if terminated:
            state = {"terminated": terminated}
            self.pods[name]["status"]["containerStatuses"] = [
                {"name": "run", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}
            ]
        told = {"type": condition, "status": "True", **({"reason": why} if why else {})}
        self.jobs[name]["status"] = {"conditions": [told]}

    async def _create(self, request: web.Request) -> web.Response:
        job = await request.json()
        name = job["metadata"]["name"]
        if self.refuse:
            return _status(self.refuse, "refused")
        if name in self.jobs:
            return _status(409, "AlreadyExists")
        self.jobs[name] = {**job, "status": {}}
        self.created.append(name)
        if self.lose:
            self.lose -= 1
            return _status(503, "lost")
        return web.json_response(self.jobs[name], status=201)

    async def _list_jobs(self, request: web.Request) -> web.Response:
        self.queries.append(dict(request.query))
        if self.blind:
            return _status(500, "blind")
        wanted = dict(pair.split("=") for pair in request.query["labelSelector"].split(","))
        found = [job for _, job in sorted(self.jobs.items()) if wanted.items() <= job["metadata"]["labels"].items()]
        at, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
        more = {"continue": str(at + limit)} if len(found) > at + limit else {}
        return web.json_response({"items": found[at : at + limit], "metadata": more})

    async def _delete(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.jobs:
            return _status(404, "NotFound")
        del self.jobs[name]
        self.deleted.append(name)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _list_pods(self, request: web.Request) -> web.Response:
        name = request.query["labelSelector"].removeprefix("job-name=")
        return web.json_response({"items": [self.pods[name]] if name in self.pods else [], "metadata": {}})

    async def _log(self, request: web.Request) -> web.Response:
        return web.Response(text=self.output.get(request.match_info["name"].removesuffix("-pod"), ""))


def _status(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "status": "Failure", "reason": reason, "code": code}, status=code)
