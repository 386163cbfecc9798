"""A headless Chromium driven over a pipe by the DevTools protocol: no packages, no ports."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile


def find():
    """The browser's path, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    """One page. errors: what the console and the page complained of; requests: URLs asked for."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()

        def pipes():  # the browser reads 3 and writes 4
            os.dup2(down_read, 200)
            os.dup2(up_write, 201)
            os.dup2(200, 3)
            os.dup2(201, 4)

        self._process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", "--disable-dev-shm-usage",
             f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(down_read)
        os.close(up_write)
        self._out = os.fdopen(down_write, "wb", buffering=0)
        self._in = os.fdopen(up_read, "rb", buffering=0)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session = None
        self.errors, self.requests, self._loaded = [], [], False
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def close(self):
        self._process.terminate()
        self._process.wait(20)
        self._out.close()
        self._in.close()
        self._profile.cleanup()

    def _message(self):
        while b"\0" not in self._rest:
            part = os.read(self._in.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        return message

    def _call(self, method, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width=1200, height=800, dark=False):
        self.errors, self.requests, self._loaded = [], [], False
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url="file://" + os.path.abspath(path))
        while not self._loaded:
            self._message()

    def run(self, expression):
        """The value of a JavaScript expression."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def key(self, key, text=""):
        codes = {"Tab": 9, "Enter": 13}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self._call("Input.insertText", text=text)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                       clickCount=1)  # fmt: skip
