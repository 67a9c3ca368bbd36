# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the page: the world of the API's tests (a private bus, simulated radios, the real daemon), Cockpit's own web
server and bridge on that bus, and a real Chromium in front."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from harness.names import SOMEBODY
from harness.programs import TESTS, Program
from harness.waiting import wait
from harness.world import APITest

PAGE = TESTS.parent / "Sources/cockpit"
PHONE, DESKTOP = (390, 844), (1280, 900)
# "firefox" or "webkit", in place of Chromium.
BROWSER = os.environ.get("BROWSER")
# An element is replaced while it is looked at; WebKit's driver reports that as any error.
RACES = (WebDriverException if BROWSER else StaleElementReferenceException, IndexError)
# The root of another Debian release, whose Cockpit is tested. It stays in this mount namespace, which is in-memory's:
# the daemon trusts no other.
ROOT = os.environ.get("COCKPIT_ROOT")
for each in ("dev", "proc", "sys", "tmp") if ROOT else ():
    subprocess.run(["mount", "--rbind", f"/{each}", f"{ROOT}/{each}"], check=True)


class Cockpit:
    """cockpit-ws with one session of its own: the state after a login, without the login."""

    WS = "/usr/lib/cockpit/cockpit-ws"

    def __init__(self, world, number=0, uid=0, groups=()):
        folder = world.directory / f"cockpit-{number}"
        package = folder / "data/cockpit/accessories"
        package.parent.mkdir(parents=True)
        # Wherever the repository is, the session's user can read it here.
        shutil.copytree(PAGE, package)
        # As `make install` does it.
        subprocess.run(["gzip", "-9nf", *package.glob("*.js"), package / "style.css"], check=True)
        (folder / "run").mkdir()
        for each in (folder, folder / "run"):
            os.chown(each, uid, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        ids = [f"--reuid={uid}", f"--regid={uid}", f"--groups={','.join(str(each) for each in groups)}" if groups else "--clear-groups"]
        self.program = Program(
            *(["chroot", ROOT] if ROOT else []), *(["setpriv", *ids] if uid else []), self.WS, "--no-tls", "-p", self.port, "-a", "127.0.0.1",
            "--local-session=/usr/bin/cockpit-bridge",
            environment={"XDG_DATA_HOME": str(folder / "data"), "XDG_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder),
                         # Without these, the bridge would start a bus and an agent of its own, which outlive it.
                         "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent", "SSH_AUTH_SOCK": "/dev/null",
                         "DBUS_SYSTEM_BUS_ADDRESS": world.bus.address, "LC_ALL": "C.UTF-8"})
        wait(self._answers, 20, "cockpit-ws to listen", also_every=0.05)

    def _answers(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    @property
    def bridge(self):
        """The process of the bridge, which is the session."""
        found = subprocess.run(["pgrep", "-P", str(self.program._process.pid)], capture_output=True, text=True).stdout.split()
        return int(found[0])

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/cockpit/@localhost/accessories/index.html"

    def stop(self):
        self.program.stop(signal.SIGKILL)


class Browser:
    """A browser: a Chromium without a screen, or BROWSER."""

    def __init__(self, size=PHONE, dark=False, language="en", still=True):
        self.driver = {"firefox": self._firefox, "webkit": self._webkit}.get(BROWSER, self._chromium)(size, dark, language, still)
        self.resize(size)

    @staticmethod
    def _chromium(size, dark, language, still):
        options = webdriver.ChromeOptions()
        for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--lang={language}",
                     f"--window-size={size[0]},{size[1]}", "--enable-precise-memory-info", "--js-flags=--expose-gc",
                     *(["--force-prefers-reduced-motion"] if still else []), *(["--force-dark-mode"] if dark else [])):
            options.add_argument(each)
        options.add_experimental_option("prefs", {"intl.accept_languages": language})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.binary_location = "/usr/bin/chromium"
        return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    @staticmethod
    def _firefox(_size, dark, language, still):
        options = webdriver.FirefoxOptions()
        options.add_argument("-headless")
        options.binary_location = "/usr/bin/firefox-esr"
        for name, value in (("intl.accept_languages", language), ("ui.systemUsesDarkTheme", int(dark)), ("ui.prefersReducedMotion", int(still))):
            options.set_preference(name, value)
        return webdriver.Firefox(options=options)

    @staticmethod
    def _webkit(*_):
        options = webdriver.WebKitGTKOptions()
        options.binary_location = next(str(each) for each in Path("/usr/lib").glob("*/webkit2gtk-4.1/MiniBrowser"))
        options.add_argument("--automation")
        return webdriver.WebKitGTK(options=options)

    def resize(self, size):
        if BROWSER:
            return self.driver.set_window_size(*size)
        # The window's frame is not the page: the page's size counts.
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600})

    def prefer(self, dark=False):
        if BROWSER:
            return
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, cockpit, section=""):
        self.driver.get(f"{cockpit.address}#/{section}")
        self.wait(lambda: self.driver.execute_script("return document.getElementById('page')?.getAttribute('aria-busy') === null"),
                  "the page to be ready")
        return self

    def open_shell(self, cockpit, language="en"):
        """The page in a frame of Cockpit's shell, whose menu changes between it and Cockpit's own pages."""
        # Cockpit's language is a cookie of the person's.
        self.driver.get(f"http://127.0.0.1:{cockpit.port}/cockpit/@localhost/accessories/manifest.json")
        self.driver.add_cookie({"name": "CockpitLang", "value": language})
        self.driver.get(f"http://127.0.0.1:{cockpit.port}/accessories")
        return self.enter()

    def enter(self):
        """The frame of the page, in front or not."""
        self.driver.switch_to.default_content()
        frame = lambda: next((each for each in self.find("iframe") if "/accessories" in (each.get_attribute("src") or "")), None)
        self.driver.switch_to.frame(self.wait(frame, "the page's frame", text=False))
        self.wait(lambda: self.driver.execute_script("return document.getElementById('page')?.getAttribute('aria-busy') === null"),
                  "the page to be ready")
        return self

    def show(self, page):
        """Another page of Cockpit's in front; "accessories" is this one."""
        self.driver.switch_to.default_content()
        self.driver.execute_script("document.querySelector(`a[href='/${arguments[0]}']`).click()", page)

    def go(self, section):
        self.driver.execute_script("location.hash = arguments[0]", f"#/{section}")

    # The visible page.

    def wait(self, happens, what, seconds=15, text=True):
        def look():
            try:
                return happens()
            except RACES:
                return None

        return wait(look, seconds, lambda: f"{what() if callable(what) else what}; the page shows:\n{self.text if text else ''}", also_every=0.05)

    @property
    def text(self):
        """The text that a person can read."""
        return self.driver.execute_script("return document.body.innerText")

    @property
    def sheet(self):
        """The text of the dialog that is open; empty without one."""
        return self.driver.execute_script("return document.querySelector('dialog[open]')?.innerText ?? ''")

    def sees(self, *texts, seconds=15):
        self.wait(lambda: all(each in self.text for each in texts), f"{texts} to be seen", seconds)

    def sheet_says(self, *texts, seconds=15):
        self.wait(lambda: all(each in self.sheet for each in texts), f"{texts} in the dialog", seconds)

    def no_sheet(self, seconds=15):
        self.wait(lambda: not self.driver.execute_script("return !!document.querySelector('dialog[open]')"), "the dialog to close", seconds)

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.wait(lambda: next((each for each in self.find(selector) if each.is_displayed()), None), selector)

    def offers(self):
        """The names of the accessories that are offered."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll('dialog[open] .offer:not([aria-disabled]) .name')].map(each => each.textContent)")

    # A person's actions.

    def press(self, text, within="body"):
        """Presses the button, or follows the link, with this name."""
        def look():
            for each in self.find(f"{within} button, {within} a"):
                # WebKit's driver has no names for hidden elements.
                if each.is_displayed() and text in (each.accessible_name, each.text.strip()) and each.is_enabled() \
                        and each.get_attribute("aria-disabled") != "true":
                    return each
            return None

        self.wait(lambda: (found := look()) and (found.click() or True), f"a button {text!r}")

    def pick(self, name):
        """Picks the offer with this name, or advertised name."""
        def look():
            # A card takes no press in its first moments.
            for each in self.find("dialog[open] .offer:not([aria-disabled])"):
                # WebKit's driver finds no text in lines that are clamped.
                if name in self.driver.execute_script("return [...arguments[0].querySelectorAll('.about > *')].map(each => each.textContent)", each):
                    self.driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", each)
                    return each.click() or True
            return None

        self.wait(look, f"{name} to be offered")

    def type(self, selector, text, clear=True):
        field = self.one(selector)
        if clear:
            field.clear()
        field.send_keys(text.replace("\n", Keys.ENTER))

    def complaints(self):
        """The browser's complaints: errors of scripts, and violations of the page's security policy."""
        return [] if BROWSER else [each["message"] for each in self.driver.get_log("browser") if each["level"] in ("SEVERE",)]

    def processes(self):
        """The browser's processes, its driver not among them."""
        found, left = [], [self.driver.service.process.pid]
        while left:
            children = subprocess.run(["pgrep", "-P", str(left.pop())], capture_output=True, text=True).stdout.split()
            found += [int(each) for each in children]
            left += [int(each) for each in children]
        return found

    def computing(self):
        """Seconds for which the page's thread has computed, by its processor's time, and the clock."""
        metrics = {each["name"]: each["value"] for each in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
        return metrics["TaskDuration"], time.monotonic()

    def axe(self):
        """axe-core's findings about the current page."""
        source = next((TESTS.parent / ".build/test-packages").glob("axe_playwright_python/axe.min.js")).read_text()
        self.driver.execute_script(source)
        result = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then(done, error => done({error: String(error)}))")
        if "error" in result:
            raise AssertionError(result["error"])
        return [f"{each['id']}: {each['help']}: {node['html'][:200]} ({node.get('failureSummary', '')})"
                for each in result["violations"] for node in each["nodes"]]

    def shot(self, name):
        """A picture of the page, where pictures are wanted."""
        if folder := os.environ.get("SHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    def close(self):
        with contextlib.suppress(WebDriverException):
            self.driver.quit()


class WebTest(APITest):
    """A test with a world, Cockpit and a browser. The browser is started once for a class."""

    size, dark, language = PHONE, False, "en"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser(cls.size, cls.dark, cls.language)
        cls.browser.prefer(cls.dark)
        cls.addClassCleanup(cls.browser.close)

    def start(self, scenario, apps=None):
        super().start(scenario, apps)
        self.cockpits = []

    def cockpit(self, **identity):
        """Cockpit for a user: root by default."""
        made = Cockpit(self.world, len(self.cockpits), **identity)
        self.cockpits.append(made)
        return made

    def open(self, section="", browser=None, **identity):
        """The page, with its picker registered."""
        return (browser or self.browser).open(self.cockpit(**identity), section)

    def played(self, body, before="", slowed=1):
        """The result of a script in the page, which calls `done`; the processor is slowed down so many times."""
        page = self.open("policy")
        page.driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": slowed})
        self.addCleanup(lambda: page.driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1}))
        return page.driver.execute_async_script(
            f"const done = arguments[0]; (async () => {{ {before} {body} }})().catch(error => done(`${{error.stack}}`));")

    def _close_world(self):
        # The page first: it would complain about the end of the others.
        with contextlib.suppress(WebDriverException):
            self.browser.driver.get("about:blank")
        for each in self.cockpits:
            each.stop()
        super()._close_world()

    def assertQuiet(self, browser=None):
        self.assertEqual((browser or self.browser).complaints(), [])
