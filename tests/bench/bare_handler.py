"""What FastAPI and TLS cost by themselves: `python -m tests.bench.bare_handler PORT CERT KEY`.

One handler reads the JSON and answers with a patch that is always the same.
"""

import base64
import json
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

app = FastAPI()
_PATCH = [{"op": "add", "path": "/metadata/labels/seen", "value": "true"}]


@app.post("/webhook")
async def webhook(request: Request) -> dict[str, Any]:
    """Answer one review."""
    said = await request.json()
    response = {
        "uid": said["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(_PATCH).encode()).decode(),
    }
    return {"apiVersion": said["apiVersion"], "kind": "AdmissionReview", "response": response}


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        ssl_certfile=sys.argv[2],
        ssl_keyfile=sys.argv[3],
        access_log=False,
        log_level="warning",
    )
