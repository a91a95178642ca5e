"""The OpenAPI description of what programs may ask of the server."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from typing import Any

from correlator.web.result_pages import AROUND


@lru_cache(maxsize=1)
def openapi() -> dict[str, Any]:
    """The OpenAPI description of what programs may ask."""
    import msgspec

    from correlator.diagnosis import Document

    (document,), schemas = msgspec.json.schema_components([Document], ref_template="#/components/schemas/{name}")
    fault = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    zone = {"type": "string", "description": "Zone of stamps that state none: Europe/Berlin, +02:00; default UTC."}
    form = {
        "type": "object",
        "properties": {
            "files": {
                "type": "array",
                "items": {"type": "string", "format": "binary"},
                "description": "Logs and archives of one job; their names tell of ranks and nodes.",
            },
            "text": {"type": "string", "description": "Lines of a log, a traceback."},
            "place": {
                "type": "string",
                "description": "A folder named at the start: its number from 0, and what lies below: 0/job-77.",
            },
            "timezone": zone,
        },
    }
    faults = {
        "400": "Wrong usage.",
        "401": "A token is needed.",
        "403": "Sent by another site's page.",
        "404": "There is no such diagnosis, or the file is not of it.",
        "408": "The upload took too long.",
        "410": "The file cannot be read any more.",
        "413": "More was sent, or it unpacks to more, than may.",
        "422": "Nothing readable was sent.",
        "503": "Too many diagnoses wait.",
        "504": "The diagnosis took too long.",
    }

    def answers(what: str, schema: dict[str, Any], codes: str) -> dict[str, Any]:
        found = {"200": {"description": what, "content": {"application/json": {"schema": schema}}}}
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
        return found | {code: {"description": faults[code], "content": content} for code in codes.split()}

    diagnose = {
        "operationId": "diagnose",
        "summary": "Who failed first, why, and where to resume. Nothing of it is kept unless asked.",
        "parameters": [
            {"name": "name", "in": "query", "schema": {"type": "string"}, "description": "Name of a bare body's file."},
            {"name": "timezone", "in": "query", "schema": zone, "description": "The same, for a bare body."},
            {
                "name": "hold",
                "in": "query",
                "schema": {"type": "string"},
                "description": "Keep the result for a while; Location says where its page and its lines are.",
            },
        ],
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "text/plain": {"schema": {"type": "string"}},
            },
        },
        "responses": answers("The diagnosis.", document, "400 401 403 408 413 422 503 504"),
    }
    raw = {
        "operationId": "raw",
        "summary": "The raw lines around a place that the diagnosis names.",
        "parameters": [
            {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}},
            {"name": "file", "in": "query", "required": True, "schema": {"type": "string"}},
            {
                "name": "offset",
                "in": "query",
                "required": True,
                "schema": {"type": "integer"},
                "description": "In bytes.",
            },
            {"name": "line", "in": "query", "schema": {"type": "integer"}, "description": "Its number, to count from."},
            {"name": "around", "in": "query", "schema": {"enum": list(AROUND)}, "description": "Lines on each side."},
        ],
        "responses": answers("The lines; `is_asked` marks the one asked for.", {"type": "object"}, "400 401 404 410"),
    }
    explain = {
        "operationId": "explain",
        "summary": "The entry of the encyclopedia that an id or a text of a log means.",
        "parameters": [{"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}],
        "responses": answers("The entry.", {"type": "object"}, "400 401 413")
        | {"404": {"description": "No entry fits or is near."}},
    }
    health = {
        "operationId": "health",
        "summary": "Whether the server is alive; needs no token.",
        "security": [],
        "responses": answers("It is.", {"type": "object"}, ""),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "correlator", "version": version("rank-correlator")},
        "paths": {
            "/api/diagnose": {"post": diagnose},
            "/api/explain": {"get": explain},
            "/d/{job}/raw.json": {"get": raw},
            "/health": {"get": health},
        },
        "components": {
            "schemas": {**schemas, "Fault": fault},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
