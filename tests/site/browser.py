"""Chromium on the built site: one run looks at every page at two widths, searches, turns the light off, and posts what it saw."""

import json
import queue
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS: Final = (390, 1280)  # a phone, a laptop
_LOOK: Final = Path(__file__).with_name("look.html")
# It asks nobody for anything, and writes nowhere but to its own folder.
_QUIET: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class _SiteServer(ThreadingHTTPServer):
    seen: "queue.Queue[dict[str, Any]]"


class _SiteHandler(SimpleHTTPRequestHandler):
    server: _SiteServer

    def do_POST(self) -> None:
        self.server.seen.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def look(site: Path, profile: Path) -> dict[str, Any]:
    """What Chromium saw of a site that is served on this machine. `profile` is a folder for it."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    jobs = json.dumps([[page, width] for page in pages for width in WIDTHS])
    (site / "look.html").write_text(_LOOK.read_text().replace("[] /* jobs */", jobs))
    with _SiteServer(("127.0.0.1", 0), partial(_SiteHandler, directory=str(site))) as server:
        server.seen = queue.Queue()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/look.html"
        command = [str(CHROMIUM), *_QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return server.seen.get(timeout=300)
        finally:
            process.kill()
            process.wait()
            server.shutdown()
            (site / "look.html").unlink()
