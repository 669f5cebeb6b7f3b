"""A headless Chromium that shows files, in the colours and at the width that are asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

Theme = Literal["light", "dark"]
DESKTOP, PHONE = 1200, 390
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

#: The ratio of contrast of every element that holds text, by the formula of WCAG 2; the worst last.
_CONTRAST = """
const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgba = (colour) => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  return Array.from(paint.getImageData(0, 0, 1, 1).data);
};
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) =>
    c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = rgba(getComputedStyle(each).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return rgba(getComputedStyle(document.documentElement).colorScheme.includes('dark')
    && matchMedia('(prefers-color-scheme: dark)').matches ? '#121212' : '#fff');
};
const found = [];
for (const element of document.body.querySelectorAll('*:not(svg *):not(script):not(style)')) {
  const text = Array.from(element.childNodes).filter((n) => n.nodeType === 3)
    .map((n) => n.textContent.trim()).join('');
  if (!text || !element.checkVisibility()) continue;
  const a = light(rgba(getComputedStyle(element).color)), b = light(ground(element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  found.push([ratio, element.className + ': ' + text.slice(0, 40)]);
}
return found.sort((a, b) => b[0] - a[0]);
"""


def installed() -> tuple[str, str] | None:
    """The browser and its driver; None where one of them is missing."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


class Chromium:
    """One browser for a session of tests; ``show`` opens a file in it."""

    def __init__(self, browser: str, driver: str) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        # Continuous integration runs as root, for which the browser has no sandbox.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))

    def show(
        self, file: Path, theme: Theme = "light", width: int = DESKTOP, *, script: bool = True
    ) -> None:
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self._tell("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self._tell("Emulation.setScriptExecutionDisabled", value=not script)
        self._resize(width, 900)
        self.driver.get(file.as_uri())

    def run(self, script: str) -> Any:
        """The value that a script returns in the page."""
        return self.driver.execute_script(script)

    def errors(self) -> list[str]:
        """What the console holds since the last call."""
        entries = self.driver.execute("getLog", {"type": "browser"})["value"]
        return [str(entry["message"]) for entry in entries]

    def contrasts(self) -> list[tuple[float, str]]:
        """Ratios of contrast and whose they are, the best first."""
        return [(float(ratio), str(whose)) for ratio, whose in self.run(_CONTRAST)]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def screenshot(self, to: Path) -> bytes:
        """A picture of the whole page, kept as a file."""
        width, height = self.run(
            "return [innerWidth, Math.min(document.documentElement.scrollHeight, 12000)]"
        )
        self._resize(width, height)
        self.driver.save_screenshot(str(to))
        return to.read_bytes()

    def _resize(self, width: int, height: int) -> None:
        self._tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width <= PHONE,
        )

    def _tell(self, command: str, **arguments: Any) -> None:
        self.driver.execute_cdp_cmd(command, arguments)
