"""A small shop: the page of each visitor has an offer, decided here, and a click on it is its reward.

SNAPSHOTS says where snapshots come from, SINK where decisions and clicks go, TENSORBANDITS_TOKEN_KEYS has the keys.
Any number of these may run side by side, and a click may come to any of them.
"""

import html
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse, PlainTextResponse

import tensorbandits as tb

SNAPSHOTS, SINK = os.environ.get("SNAPSHOTS", "published"), os.environ.get("SINK", "lake")
shop: dict[str, tb.Decider] = {}


@asynccontextmanager
async def opened(_: FastAPI) -> AsyncIterator[None]:
    """Decide while the shop is open; what waits for the sink is handed over at the end."""
    sink = tb.RedisSink(SINK) if SINK.startswith("redis://") else tb.ParquetSink(SINK, seconds=5.0)
    with tb.Decider(SNAPSHOTS, sink=sink, wait=120.0) as shop["decider"]:
        yield


app = FastAPI(lifespan=opened)


@app.get("/offer")
def offer(segment: str = "new") -> dict[str, Any]:
    """Decide which offer a visitor sees, and where."""
    try:
        decision = shop["decider"].ask(segment=segment)
    except (KeyError, ValueError) as error:
        raise HTTPException(422, str(error)) from None
    return {"id": decision.id, **decision.arm}


@app.get("/", response_class=HTMLResponse)
def page(segment: str = "new") -> str:
    """The page: an offer, with a link."""
    seen = offer(segment)
    return f"<title>Shop</title><p class={seen['banner']}><a href=/click/{seen['id']}>{html.escape(seen['offer'])}</a>"


@app.get("/click/{number}", response_class=PlainTextResponse)
def click(number: str) -> str:
    """Take the reward of a decision, by its id: whoever made it, nobody has to look it up."""
    try:
        shop["decider"].tell(number, 1)
    except (ValueError, LookupError) as error:  # forged, of another bandit, or too old
        raise HTTPException(422, str(error)) from None
    except ConnectionError as error:  # too many events wait for the sink
        raise HTTPException(503, str(error)) from None
    return "thank you"


@app.get("/status")
def status() -> dict[str, Any]:
    """How old the snapshot is, and what became of the events."""
    return shop["decider"].status()


if __name__ == "__main__":
    uvicorn.run(app, host=os.environ.get("HOST", "127.0.0.1"), port=int(os.environ.get("PORT", "8080")))
