"""`finitewidth serve`: the course with theory and real networks, as pages in the browser."""

import os
import sys
import webbrowser
from typing import Annotated

import typer

from finitewidth.cli import options
from finitewidth.cli.console import note, output, say


def serve(
    port: Annotated[
        int, options.whole_number("--port", "Port to listen on; 0 takes a free one.", 0, 65_535)
    ] = 8110,
    host: Annotated[
        str, typer.Option(help="Address to listen on; by default only this computer can connect.")
    ] = "127.0.0.1",
    allow: Annotated[
        list[str] | None,
        typer.Option(help="With --host: a name by which visitors may come; give it once for each."),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    traceback: options.Traceback = False,
) -> None:
    """Open the lab in the browser: sliders, theory at once, real networks while they train."""
    from finitewidth.course._server.listen import is_loopback, serve

    def ready(link: str) -> None:
        say(output, f"the lab is open at {link} (Ctrl-C ends it)")
        if not is_loopback(host):
            note("whoever has this link can use the lab; traffic is not encrypted.")
        if open_browser:
            webbrowser.open(link)

    serve(host, port, allow or [], ready)
    # Python would wait for a compilation that is under way.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
